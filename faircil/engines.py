"""Engines for independent tasks: this process, several processes, ranks of torchrun, or Dask.

All engines give the same results in the same order. So a sum of results does not depend on the
number of workers, on which of them computed what, or on workers that died: their tasks are
recomputed.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, parent_process
from queue import LifoQueue
from threading import Lock, Thread
from typing import Protocol, Self, TypeVar

from faircil.beginning import begin_server, worker_context
from faircil.cluster import ADDRESSES, LOCAL, Dask
from faircil.errors import FaircilError, UsageError, raise_all
from faircil.sending import (
    AHEAD,
    Failed,
    Order,
    carry_out,
    one_thread_each,
    order_of,
    packed,
    unpacked,
)
from faircil.stopping import ignore_terminal, terminal_ignored

Task = TypeVar("Task")
Result = TypeVar("Result")
DEATHS = 3  # processes that may die on a task before it is given up


class Engine(Protocol):
    """Computes independent tasks."""

    @property
    def workers(self) -> int:
        """Number of tasks computed at a time; it does not affect results."""

    @property
    def asked(self) -> bool:
        """Whether the user requested workers; a table that cannot be shared is then an error."""

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order.

        Parameters
        ----------
        work : callable
            Picklable and without side effects.
        tasks : sequence
            Picklable.
        """


class Here:
    """Computes tasks one by one in this process."""

    workers = 1
    asked = False

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order."""
        return map(work, tasks)


HERE = Here()


class DiedError(Exception):
    """A process ended before it answered."""


@dataclass(frozen=True, eq=False)
class Worker:
    """A process that waits for tasks, and our end of its pipe."""

    process: BaseProcess
    pipe: Connection

    @classmethod
    def begin(cls) -> Worker:
        """Start a process."""
        context = worker_context()
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)  # type: ignore[attr-defined]
        try:
            with terminal_ignored():
                process.start()
        except (OSError, EOFError) as error:
            raise FaircilError(
                f"a process cannot be started ({error or type(error).__name__}); use fewer `jobs`"
            ) from None
        theirs.close()  # so that the pipe ends with the process
        return cls(process, ours)

    def answer_to(self, order: Order, task: bytes) -> bytes:
        """Return the answer of the process to a task; raise a DiedError if it is gone."""
        try:
            self.pipe.send((order, task))
            wait([self.pipe, self.process.sentinel])
            return self.pipe.recv_bytes()  # or raise EOFError
        except (EOFError, OSError):
            raise DiedError from None

    def end(self) -> None:
        """Kill the process: its answer is no longer needed."""
        self.process.kill()
        self.process.join()


def serve(pipe: Connection) -> None:
    """Answer tasks from a pipe until its other end is closed."""
    ignore_terminal()
    one_thread_each()
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(carry_out(*pipe.recv()))


def _end_with_parent() -> None:
    """End this process, even if it is busy, when the process that started it is gone."""
    parent = parent_process()
    if parent is None:
        return  # this process was not started by another one
    wait([parent.sentinel])
    os._exit(1)


class Processes:
    """Computes tasks in local processes; one that dies is replaced.

    Use it in a ``with`` block, at whose end they are ended, even if they are busy. Each process has
    a thread that passes tasks and receives answers, so none waits while results are being
    processed.

    Parameters
    ----------
    workers : int
    """

    asked = True

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._change = Lock()
        self._ended = False
        self._threads: ThreadPoolExecutor | None = None
        self._begun: set[Worker] = set()
        # Idle processes, most recently used first; None stands for one that is not yet started.
        self._idle: LifoQueue[Worker | None] = LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def __enter__(self) -> Self:
        if not begin_server():
            # Each imports for itself, so all start now; and here they can be shielded from signals.
            for _ in [self._idle.get() for _ in range(self.workers)]:
                self._idle.put(self._begin())
        self._threads = ThreadPoolExecutor(self.workers, "faircil-worker")
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._ended = True  # none is started from here on
        for worker in list(self._begun):
            worker.end()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order."""
        if self._threads is None:
            raise UsageError("processes are started by a with statement; compute inside it")
        order, begun = order_of(work), 0
        waiting: deque[Future[bytes]] = deque()
        try:
            while waiting or begun < len(tasks):
                while begun < len(tasks) and len(waiting) < AHEAD * self.workers:
                    task = packed(tasks[begun])
                    waiting.append(self._threads.submit(self._answered, order, task))
                    begun += 1
                yield unpacked(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()

    def _answered(self, order: Order, task: bytes) -> bytes:
        """Return the answer of an idle process; if it dies, that of the next one."""
        for _ in range(DEATHS):
            worker = self._idle.get()
            try:
                worker = worker or self._begin()
                return worker.answer_to(order, task)
            except DiedError:
                if worker is not None:
                    self._begun.discard(worker)
                    worker.end()
                worker = None
            finally:
                self._idle.put(worker)
        raise FaircilError(
            f"processes died {DEATHS} times at the same part of the work; usually because memory "
            "ran out: use fewer `jobs`, or fewer features"
        )

    def _begin(self) -> Worker:
        with self._change:
            if self._ended:
                raise DiedError
            worker = Worker.begin()
            self._begun.add(worker)
            return worker


class RankEngine:
    """Computes tasks in the processes of ``torch.distributed``, all of which call this.

    In each round, every rank computes one task; then each result is sent from its rank to all
    others. So all ranks yield the same results in the same order. A rank that fails notifies the
    others.
    """

    def __init__(self) -> None:
        from torch import distributed

        self.rank, self.workers = distributed.get_rank(), distributed.get_world_size()
        # Pickles are in main memory, wherever the ranks have their tensors.
        nccl = distributed.get_backend() != "gloo"
        self.group = distributed.new_group(backend="gloo") if nccl else None

    asked = True

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order, on every rank."""
        for first in range(0, len(tasks), self.workers):
            number = first + self.rank
            own = self._tried(work, tasks[number]) if number < len(tasks) else b""
            for owner in range(min(self.workers, len(tasks) - first)):
                yield unpacked(self._sent(own, owner))

    def _tried(self, work: Callable[[Task], Result], task: Task) -> bytes:
        try:
            return packed(work(task))
        except FaircilError as error:
            return packed(Failed(error))
        except Exception as error:  # the other ranks wait for an answer in any case
            said = f"rank {self.rank} failed: {type(error).__name__}: {error}"
            return packed(Failed(FaircilError(said)))

    def _sent(self, own: bytes, owner: int) -> bytes:
        """Return the bytes sent by a rank, on all ranks."""
        import torch
        from torch import distributed

        size = torch.tensor([len(own)])
        distributed.broadcast(size, owner, group=self.group)
        content = torch.empty(int(size), dtype=torch.uint8)
        if self.rank == owner:
            content = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        distributed.broadcast(content, owner, group=self.group)
        return content.numpy().tobytes()


def check_engine(jobs: int = 1, scheduler: str | None = None) -> None:
    """Raise a UsageError with all mistakes, before an engine is started."""
    mistakes = []
    if jobs < 1:
        mistakes.append(f"`jobs` is {jobs}, expected at least 1")
    if scheduler is not None:
        mistakes += _address_mistakes(scheduler)
        if jobs > 1:
            mistakes.append("`jobs` and `scheduler` are given; give one of them")
    if _joined() and (jobs > 1 or scheduler is not None):
        mistakes.append(
            "the processes of torchrun already share the work; leave out `jobs` and `scheduler`"
        )
    raise_all(mistakes)


def _joined() -> bool:
    """Return whether this process is one of several ranks."""
    # A module that is not imported is not initialised, and importing it takes seconds.
    found = sys.modules.get("torch.distributed")
    return (
        found is not None
        and found.is_available()
        and found.is_initialized()
        and found.get_world_size() > 1
    )


@contextmanager
def engine_for(jobs: int = 1, scheduler: str | None = None) -> Iterator[Engine]:
    """Start the requested engine, and end it after the block.

    Parameters
    ----------
    jobs : int
        Number of local processes; 1: this process alone.
    scheduler : str, optional
        See :class:`~faircil.cluster.Dask`; not combined with ``jobs``.

    Raises
    ------
    UsageError
        If both are given, or a rank of torchrun is to start its own processes.
    """
    check_engine(jobs, scheduler)
    if _joined():
        yield RankEngine()
    elif scheduler is not None:
        with Dask(scheduler) as engine:
            yield engine
    elif jobs > 1:
        with Processes(jobs) as processes:
            yield processes
    else:
        yield HERE


def _address_mistakes(scheduler: str) -> list[str]:
    """Return the mistakes in the address of a scheduler."""
    number = scheduler.removeprefix(LOCAL)
    if scheduler.startswith(LOCAL):
        good = number.isdecimal() and number.isascii() and int(number) > 0
    else:
        good = scheduler.startswith(ADDRESSES) and len(scheduler.split("://")[1]) > 0
    if good:
        return []
    return [
        f"`scheduler` is '{scheduler}', expected dask://HOST:PORT of a scheduler that runs, or "
        f"local:N for N processes of this machine, such as local:{os.cpu_count() or 2}"
    ]
