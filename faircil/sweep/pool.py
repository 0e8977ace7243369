"""Processes that share a list of work; one that dies costs one run, not the sweep."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from faircil.errors import SweepError
from faircil.sweep.work import Outcome, Work
from faircil.sweep.worker import Answer, Place, serve

TRIES = 2  # of a run whose process died
PATIENCE = 1.0  # seconds between looks at a run that another sweep is making
Listener = Callable[[Outcome], None]
Takes = Callable[[Work], bool]


@dataclass(frozen=True)
class Crew:
    """Processes at one place, and what they take on."""

    place: Place
    size: int
    takes: Takes


@dataclass
class Worker:
    """A process, its end of the pipe, what it is making, and the data that it has loaded."""

    crew: Crew
    process: BaseProcess
    pipe: Connection
    work: Work | None = None
    data: str | None = None


@dataclass
class Bench:
    """Work that is waiting, and how often each piece has killed a process."""

    todo: list[Work]
    deaths: dict[str, int] = field(default_factory=dict)

    def next_for(self, takes: Takes, data: str | None = None) -> Work | None:
        """Take away the first that suits, rather one on the given data."""
        suited = [n for n, work in enumerate(self.todo) if takes(work)]
        same = [n for n in suited if self.todo[n].data == data]
        return self.todo.pop((same or suited)[0]) if suited else None


def share_work(works: Sequence[Work], crews: Sequence[Crew], listener: Listener) -> None:
    """Make all work, the first first.

    Raises
    ------
    SweepError
        If it cannot go on, as with a full disk; what is finished is kept.
    """
    bench = Bench(list(works))
    with _workers(bench, crews) as workers:
        while busy := _hand_out(bench, workers):
            ready = wait([worker.pipe for worker in busy], timeout=PATIENCE)
            for worker in busy:
                if worker.pipe in ready:
                    _take(worker, bench, listener)


def _hand_out(bench: Bench, workers: Sequence[Worker]) -> list[Worker]:
    """Give every idle worker what suits it best; return those at work."""
    for worker in workers:
        if worker.work is not None:
            continue
        work = bench.next_for(worker.crew.takes, worker.data)
        if work is not None:
            if not worker.process.is_alive():
                worker.process, worker.pipe = _start(worker.crew.place)
            worker.pipe.send(work)
            worker.work, worker.data = work, work.data
    return [worker for worker in workers if worker.work is not None]


def _take(worker: Worker, bench: Bench, listener: Listener) -> None:
    """Take what a worker has to say, or note that it has died."""
    work, worker.work = worker.work, None
    assert work is not None  # as busy workers have
    try:
        answer: Answer = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        _bury(work, worker.process.exitcode, bench, listener)
        return
    if answer.stop is not None:
        raise SweepError(answer.stop)
    if answer.outcome is not None:
        listener(answer.outcome)
        return
    bench.todo.append(work)  # another sweep is making it: look again later
    if len(bench.todo) == 1:
        time.sleep(PATIENCE)


def _bury(work: Work, exit_code: int | None, bench: Bench, listener: Listener) -> None:
    """Try the work of a dead process once more, then give it up."""
    bench.deaths[work.key] = bench.deaths.get(work.key, 0) + 1
    if bench.deaths[work.key] < TRIES:
        bench.todo.append(work)
        return
    problem = (
        f"its process died {TRIES} times, last with exit code {exit_code}; if memory ran out, use "
        "fewer --jobs"
    )
    listener(Outcome(work, None, problem))


def _start(place: Place) -> tuple[BaseProcess, Connection]:
    context = get_context("spawn")  # CUDA does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, place), daemon=True)
    process.start()
    theirs.close()
    return process, ours


@contextmanager
def _workers(bench: Bench, crews: Sequence[Crew]) -> Iterator[list[Worker]]:
    """Start the processes, no more than there is work for, and end them in any case."""
    workers = []
    for crew in crews:
        suited = sum(map(crew.takes, bench.todo))
        workers += [Worker(crew, *_start(crew.place)) for _ in range(min(crew.size, suited))]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
