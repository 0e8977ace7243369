"""Tasks in processes of this machine; one that dies is replaced, and its task is done again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, parent_process
from queue import LifoQueue
from threading import Lock, Thread
from typing import Self, TypeVar

from faircil.beginning import begin_server, worker_context
from faircil.errors import FaircilError, UsageError
from faircil.sending import AHEAD, Order, carry_out, one_thread_each, order_of, packed, unpacked
from faircil.stopping import ignore_terminal, terminal_ignored

Task = TypeVar("Task")
Result = TypeVar("Result")
DEATHS = 3  # of processes at the same task, after which it is given up


class DiedError(Exception):
    """A process that is gone before it has answered."""


@dataclass(frozen=True, eq=False)
class Worker:
    """A process that waits for tasks, and our end of the pipe to it."""

    process: BaseProcess
    pipe: Connection

    @classmethod
    def begin(cls) -> Worker:
        """Begin a process."""
        context = worker_context()
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)  # type: ignore[attr-defined]
        try:
            with terminal_ignored():
                process.start()
        except (OSError, EOFError) as error:
            raise FaircilError(
                f"a process cannot be begun ({error or type(error).__name__}); use fewer `jobs`"
            ) from None
        theirs.close()  # now the end of the process is that of the pipe
        return cls(process, ours)

    def asked(self, order: Order, task: bytes) -> bytes:
        """Return the answer of the process to a task; DiedError if it is gone."""
        try:
            self.pipe.send((order, task))
            wait([self.pipe, self.process.sentinel])
            return self.pipe.recv_bytes()  # or EOFError
        except (EOFError, OSError):
            raise DiedError from None

    def end(self) -> None:
        """End the process at once: it has nothing that anyone needs."""
        self.process.kill()
        self.process.join()


def serve(pipe: Connection) -> None:
    """Answer tasks that come over a pipe until its other end is gone."""
    ignore_terminal()
    one_thread_each()
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(carry_out(*pipe.recv()))


def _end_with_parent() -> None:
    """End this process, whatever it is at, when the one that began it is gone."""
    parent = parent_process()
    if parent is None:
        return  # nobody began this one
    wait([parent.sentinel])
    os._exit(1)


class Processes:
    """Computes tasks in processes of this machine; one that dies is replaced.

    To be used in a ``with`` block, at whose end they end, whatever they are doing. A thread for
    each of them hands it tasks and takes answers, so that none waits for what is done with results.

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
        # Those at rest, the last first; None stands for one that is not begun.
        self._idle: LifoQueue[Worker | None] = LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def __enter__(self) -> Self:
        if not begin_server():
            # Each imports for itself, so all begin now; and here signals can be kept from them.
            for _ in [self._idle.get() for _ in range(self.workers)]:
                self._idle.put(self._begin())
        self._threads = ThreadPoolExecutor(self.workers, "faircil-worker")
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._ended = True  # none begins from here on
        for worker in list(self._begun):
            worker.end()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        if self._threads is None:
            raise UsageError("processes begin in a with statement; compute inside of one")
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
        """Return the answer of any process, of the next one if it dies."""
        for _ in range(DEATHS):
            worker = self._idle.get()
            try:
                worker = worker or self._begin()
                return worker.asked(order, task)
            except DiedError:
                if worker is not None:
                    self._begun.discard(worker)
                    worker.end()
                worker = None
            finally:
                self._idle.put(worker)
        raise FaircilError(
            f"processes died {DEATHS} times at the same part of the work; this is mostly for lack "
            "of memory: use fewer `jobs`, or fewer features"
        )

    def _begin(self) -> Worker:
        with self._change:
            if self._ended:
                raise DiedError
            worker = Worker.begin()
            self._begun.add(worker)
            return worker
