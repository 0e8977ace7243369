"""Where independent tasks are computed: here, in processes, by the ranks of torchrun, or by Dask.

All engines give the same results in the same order. So what is made of them, such as a sum, does
not depend on how many workers there are, nor on which of them computed what, nor on a worker that
died on the way: its task is done again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from faircil.cluster import ADDRESSES, LOCAL, Dask
from faircil.errors import FaircilError, raise_all
from faircil.processes import Processes
from faircil.sending import Failed, packed, unpacked

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Computes independent tasks."""

    @property
    def workers(self) -> int:
        """How many tasks are computed at a time; it never changes a result."""

    @property
    def asked(self) -> bool:
        """Whether a user asked for it: what it cannot share is an error then."""

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
    asked = False

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        return map(work, tasks)


HERE = Here()


class Ranks:
    """Computes tasks in the processes of ``torch.distributed``, each of which calls this.

    In each round every rank computes one task; then each result goes from its rank to all others.
    So all of them yield the same results in the same order. A rank that fails tells the others.
    """

    def __init__(self) -> None:
        from torch import distributed

        self.rank, self.workers = distributed.get_rank(), distributed.get_world_size()
        # Pickles are in main memory, whatever the ranks use for tensors.
        nccl = distributed.get_backend() != "gloo"
        self.group = distributed.new_group(backend="gloo") if nccl else None

    asked = True

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order, on every rank."""
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
        except Exception as error:  # whatever it is, the other ranks wait for an answer
            said = f"rank {self.rank} failed: {type(error).__name__}: {error}"
            return packed(Failed(FaircilError(said)))

    def _sent(self, own: bytes, owner: int) -> bytes:
        """Return the bytes of a rank, which all others receive."""
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
    """Raise a UsageError with all that is wrong, before an engine is begun."""
    mistakes = []
    if jobs < 1:
        mistakes.append(f"`jobs` is {jobs}, expected at least 1")
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
    # What is not imported is not initialized, and importing it takes seconds.
    found = sys.modules.get("torch.distributed")
    return (
        found is not None
        and found.is_available()
        and found.is_initialized()
        and found.get_world_size() > 1
    )


@contextmanager
def engine_for(jobs: int = 1, scheduler: str | None = None) -> Iterator[Engine]:
    """Begin the engine that is wanted, and end it.

    Parameters
    ----------
    jobs : int
        Processes of this machine; 1: this one alone.
    scheduler : str, optional
        See :class:`~faircil.cluster.Dask`; then without ``jobs``.

    Raises
    ------
    UsageError
        If the two contradict each other, or a rank of torchrun is to begin processes of its own.
    """
    check_engine(jobs, scheduler)
    if _joined():
        yield Ranks()
    elif scheduler is not None:
        with Dask(scheduler) as engine:
            yield engine
    elif jobs > 1:
        with Processes(jobs) as processes:
            yield processes
    else:
        yield HERE


def _address_mistakes(scheduler: str) -> list[str]:
    """Return what is wrong with the address of a scheduler."""
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
