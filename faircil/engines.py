"""Where independent tasks are computed: here, in processes, by the ranks of torchrun, or by Dask.

All engines give the same results in the same order. So what is made of them, such as a sum, does
not depend on how many workers there are, nor on which of them computed what, nor on a worker that
died on the way: its task is done again.

Work and results travel as pickles over pipes and sockets between processes that trust each other;
none is ever written to a file.
"""

from __future__ import annotations

import os
import pickle  # over pipes to processes of our own, never a file  # nosec B403
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

import torch
from torch import distributed

from faircil.errors import FaircilError, raise_all

Task = TypeVar("Task")
Result = TypeVar("Result")
AHEAD = 2  # tasks that are begun for each worker: results wait for their turn in memory
DEATHS = 3  # of processes on the same tasks, after which they are given up
DASK, LOCAL = "dask://", "local:"
ADDRESSES = ("tcp://", "tls://", "ws://", "wss://", "ucx://", "inproc://")


class Engine(Protocol):
    """Computes independent tasks."""

    @property
    def workers(self) -> int:
        """How many tasks are computed at a time; it never changes a result."""

    @property
    def leads(self) -> bool:
        """Whether this process prints and writes files; of several ranks, one does."""

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order.

        Parameters
        ----------
        work : callable
            That can be pickled; it changes nothing outside.
        tasks : sequence
            That can be pickled.
        """


class Here:
    """Computes tasks one after the other in this process."""

    workers = 1
    leads = True

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        return map(work, tasks)


class Processes:
    """Computes tasks in processes of this machine; one that dies is replaced.

    Parameters
    ----------
    workers : int
    """

    leads = True

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        packed, done, deaths = pickle.dumps(work), 0, 0
        while done < len(tasks):
            before = done
            with self._pool() as pool:
                try:
                    for found in _in_order(pool, packed, tasks[done:], AHEAD * self.workers):
                        done += 1
                        yield found
                except BrokenProcessPool:
                    deaths = deaths + 1 if done == before else 1
                    if deaths == DEATHS:
                        raise FaircilError(
                            f"processes died {DEATHS} times at the same part of the work; this is "
                            "mostly for lack of memory: use fewer `jobs`, or fewer features"
                        ) from None

    @contextmanager
    def _pool(self) -> Iterator[ProcessPoolExecutor]:
        pool = ProcessPoolExecutor(self.workers, get_context("spawn"), _begin_worker)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and the other cores to the other workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _in_order(
    pool: ProcessPoolExecutor, packed: bytes, tasks: Sequence[Any], most: int
) -> Iterator[Any]:
    """Yield results in the order of tasks, of which at most so many are begun ahead."""
    waiting: deque[Future[bytes]] = deque()
    begun = 0
    while waiting or begun < len(tasks):
        while begun < len(tasks) and len(waiting) < most:
            waiting.append(pool.submit(compute_packed, packed, pickle.dumps(tasks[begun])))
            begun += 1
        yield pickle.loads(waiting.popleft().result())  # of our own process  # nosec B301


def compute_packed(work: bytes, task: bytes) -> bytes:
    """Do work that was sent by the process that asks for it.

    Plain pickles: those of torch would share memory, which is gone with the process.
    """
    return pickle.dumps(pickle.loads(work)(pickle.loads(task)))  # nosec B301


@dataclass(frozen=True)
class _Failed:
    """What a rank says instead of a result."""

    error: FaircilError | str


class Ranks:
    """Computes tasks in the processes of ``torch.distributed``, each of which calls this.

    In each round every rank computes one task; then each result goes from its rank to all others.
    So all of them yield the same results in the same order. A rank that fails tells the others.
    """

    def __init__(self) -> None:
        self.rank, self.workers = distributed.get_rank(), distributed.get_world_size()
        # Pickles are in main memory, whatever the ranks use for tensors.
        nccl = distributed.get_backend() != "gloo"
        self.group = distributed.new_group(backend="gloo") if nccl else None

    @property
    def leads(self) -> bool:
        """Whether this is the first rank."""
        return self.rank == 0

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order, on every rank."""
        for first in range(0, len(tasks), self.workers):
            number = first + self.rank
            own = _tried(work, tasks[number]) if number < len(tasks) else b""
            for owner in range(min(self.workers, len(tasks) - first)):
                found = pickle.loads(self._sent(own, owner))  # of our own rank  # nosec B301
                if isinstance(found, _Failed):
                    if isinstance(found.error, FaircilError):
                        raise found.error
                    raise FaircilError(f"rank {owner} failed: {found.error}")
                yield found

    def _sent(self, own: bytes, owner: int) -> bytes:
        """Return the bytes of a rank, which all others receive."""
        size = torch.tensor([len(own)])
        distributed.broadcast(size, owner, group=self.group)
        content = torch.empty(int(size), dtype=torch.uint8)
        if self.rank == owner:
            content = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        distributed.broadcast(content, owner, group=self.group)
        return content.numpy().tobytes()


def _tried(work: Callable[[Task], Result], task: Task) -> bytes:
    try:
        return pickle.dumps(work(task))
    except FaircilError as error:
        return pickle.dumps(_Failed(error))
    except Exception as error:  # whatever it is, the other ranks wait for an answer
        return pickle.dumps(_Failed(f"{type(error).__name__}: {error}"))


class Dask:
    """Computes tasks on the workers of a Dask cluster; what a dead one had is done again.

    Parameters
    ----------
    address : str
        ``dask://host:port`` of a scheduler that runs, or ``local:4`` for four processes of this
        machine, which end with this one.
    """

    leads = True

    def __init__(self, address: str) -> None:
        package = _dask()
        if address.startswith(LOCAL):
            self.client = package.Client(
                n_workers=int(address.removeprefix(LOCAL)),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            )
        else:
            place = address.removeprefix(DASK)
            try:
                self.client = package.Client(
                    place if "://" in place else f"tcp://{place}", timeout=CONNECTING
                )
            except (OSError, TimeoutError, ValueError) as error:
                raise FaircilError(
                    f"no Dask scheduler answers at {address} ({error or 'timed out'}); start one "
                    "with `dask scheduler`, and workers with `dask worker ADDRESS`"
                ) from None

    @property
    def workers(self) -> int:
        """Threads of all workers."""
        return max(1, int(sum(self.client.nthreads().values())))

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        package = _dask()
        packed = self.client.scatter(pickle.dumps(work), broadcast=False, hash=False)
        waiting: deque[Any] = deque()
        begun = 0
        while waiting or begun < len(tasks):
            while begun < len(tasks) and len(waiting) < AHEAD * self.workers:
                task = pickle.dumps(tasks[begun])
                waiting.append(self.client.submit(compute_packed, packed, task, pure=False))
                begun += 1
            try:
                found = waiting.popleft().result()
            except (package.scheduler.KilledWorker, package.client.FutureCancelledError) as error:
                raise FaircilError(
                    f"workers of Dask died at the same part of the work ({error}); this is mostly "
                    "for lack of memory: use fewer workers on a machine, or fewer features"
                ) from None
            yield pickle.loads(found)  # of our own worker  # nosec B301

    def close(self) -> None:
        """End the connection, and the workers that were begun for it."""
        self.client.close()
        if self.client.cluster is not None:
            self.client.cluster.close()


CONNECTING = "10s"  # to wait for a scheduler


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise FaircilError(
            f"a scheduler needs the package distributed ({error}): pip install distributed, or use "
            "processes of this machine with `jobs`"
        ) from None


@contextmanager
def torchrun() -> Iterator[None]:
    """Join the processes that ``torchrun`` has begun, if it has and they are not joined yet."""
    wanted = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    if not wanted or not distributed.is_available() or distributed.is_initialized():
        yield
        return
    distributed.init_process_group("gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def check_engine(jobs: int = 1, scheduler: str | None = None) -> None:
    """Raise a UsageError with all that is wrong, before an engine is begun."""
    mistakes = []
    if jobs < 1:
        mistakes.append(f"`jobs` is {jobs}, expected 1 or more")
    if scheduler is not None:
        mistakes += _address_mistakes(scheduler)
        if jobs > 1:
            mistakes.append("`jobs` and `scheduler` are given; give one of them")
    if _joined() and (jobs > 1 or scheduler is not None):
        mistakes.append(
            "the processes of torchrun share the work already; leave out `jobs` and `scheduler`"
        )
    raise_all(mistakes)


def _joined() -> bool:
    """Tell whether this process is one of several ranks."""
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


@contextmanager
def engine_for(jobs: int = 1, scheduler: str | None = None) -> Iterator[Engine]:
    """Begin the engine that is wanted, and end it.

    Parameters
    ----------
    jobs : int
        Processes of this machine; 1: this one alone.
    scheduler : str, optional
        See :class:`Dask`; then without ``jobs``.

    Raises
    ------
    UsageError
        If the two contradict each other, or a rank of torchrun is to begin processes of its own.
    """
    check_engine(jobs, scheduler)
    if _joined():
        yield Ranks()
    elif scheduler is not None:
        engine = Dask(scheduler)
        try:
            yield engine
        finally:
            engine.close()
    else:
        yield Here() if jobs == 1 else Processes(jobs)


def _address_mistakes(scheduler: str) -> list[str]:
    """Return what is wrong with the address of a scheduler."""
    number = scheduler.removeprefix(LOCAL)
    if scheduler.startswith(LOCAL):
        good = number.isdecimal() and int(number) > 0
    else:
        good = scheduler.startswith((DASK, *ADDRESSES)) and len(scheduler.split("://")[1]) > 0
    if good:
        return []
    return [
        f"`scheduler` is '{scheduler}', expected dask://HOST:PORT of a scheduler that runs, or "
        f"local:N for N processes of this machine, such as local:{os.cpu_count() or 2}"
    ]
