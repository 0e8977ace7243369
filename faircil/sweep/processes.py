"""Execution of runs in this process or in worker processes that share a queue.

A process that dies costs one run, not the sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from faircil.compute import choose_device
from faircil.data.stream import TaskStream
from faircil.errors import DivergedError, FaircilError, StorageError, SweepError, raise_all
from faircil.ranks import RankError
from faircil.registry import added_pieces
from faircil.runs.config import RunConfig
from faircil.runs.saved_states import Tell
from faircil.runs.state import load_stream
from faircil.sending import Sent, pack_pieces, receive_pieces
from faircil.stopping import check, listening, terminal_ignored
from faircil.sweep.command import command_of
from faircil.sweep.store import Store
from faircil.sweep.work import (
    Keep,
    Outcome,
    Unwatched,
    Watch,
    Watcher,
    Work,
    code_digest,
    make_run,
    pieces_of,
)

MOST = 2
CHANGED = "the code has changed since the sweep began; start it again"


class Streams:
    """Loads streams, and caches them by data.

    Parameters
    ----------
    device : str
        Where new embeddings are computed.
    watcher : Watcher, optional
        Receives the progress of new embeddings.
    most : int
        Maximum number of cached streams.
    """

    def __init__(
        self, device: str = "cpu", watcher: Watcher | None = None, most: int = MOST
    ) -> None:
        self._device = choose_device(device)
        self._watcher, self._most = watcher or Unwatched(), most
        self._kept: dict[str, TaskStream] = {}

    def __call__(self, config: RunConfig, seed: int) -> TaskStream:
        """Return the stream of a run."""
        key = Work(config, seed).data
        stream = self._kept.pop(key, None)
        self._forget(self._most - 1)
        if stream is None:
            progress = self._watcher.embedding
            stream = load_stream(config, seed, device=self._device, progress=progress)
        self._kept[key] = stream  # the most recently used is dropped last
        self._forget(self._most)
        return stream

    def _forget(self, most: int) -> None:
        for oldest in list(self._kept)[: max(0, len(self._kept) - max(0, most))]:
            del self._kept[oldest]


@dataclass(frozen=True)
class Answer:
    """A worker's answer: the outcome, or None if another process is executing the run.

    ``stop`` is the reason if the whole sweep cannot continue.
    """

    outcome: Outcome | None
    stop: str | None = None


@dataclass(frozen=True)
class Place:
    """Where runs are stored and executed.

    Parameters
    ----------
    store : Store
    device : str
    again : bool
        Whether existing runs are executed again.
    replace : bool
        Whether a run replaces one that cannot be used; otherwise this is a problem.
    command : str or None
        The user's command line; by default, the ``faircil run`` of each run.
    pieces : mapping
        Registered pieces for new processes, see :func:`sent_pieces`.
    keep : callable, optional
        Stores the final models of runs, see :func:`faircil.sweep.work.make_run`.
    """

    store: Store
    device: str = "cpu"
    again: bool = False
    replace: bool = True
    command: str | None = None
    pieces: Sent = field(default_factory=dict)
    keep: Keep | None = None


def sent_pieces(works: Iterable[Work]) -> Sent:
    """Return the registered pieces that runs use, for processes that start without them.

    Raises
    ------
    UsageError
        If a piece is defined in no module, for example in a notebook.
    """
    configs = {work.config.model_dump_json(): work.config for work in works}.values()
    used = {id(piece) for config in configs for piece in pieces_of(config)}
    sent, unsent = pack_pieces(
        {
            key: row
            for key, row in added_pieces().items()
            if {id(row), id(getattr(row, "of", None))} & used  # for a metric, its function
        }
    )
    raise_all(list(unsent.values()))
    return sent


def serve(pipe: Connection, place: Place) -> None:
    """Execute runs received over the pipe until it is closed.

    Answers are sent back, preceded by messages for the user as they arise. A SIGTERM saves the
    current run.
    """
    torch.set_num_threads(1)  # the processes share the cores
    # The last one is for a signal that arrives when everything is finished.
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt), listening():
        streams = Streams(place.device)
        if (problem := receive_pieces(place.pieces)) is not None:
            pipe.recv_bytes()
            pipe.send(Answer(None, problem))
            return
        while True:
            work: Work = pipe.recv()
            same = work.code == code_digest(work.config)
            said = answer(work, place, streams, pipe.send) if same else Answer(None, CHANGED)
            pipe.send(said)
            check()


def answer(
    work: Work, place: Place, streams: Streams, tell: Tell, watcher: Watcher | None = None
) -> Answer:
    """Execute a run, unless it exists or another process is executing it."""
    try:
        with place.store.alone(work) as mine:
            return Answer(_make(work, place, streams, Watch(watcher), tell) if mine else None)
    except (StorageError, RankError) as error:  # all other runs would fail as well
        return Answer(None, str(error))


def _make(work: Work, place: Place, streams: Streams, watch: Watch, tell: Tell) -> Outcome:
    replaced = None
    if not place.again:
        try:
            # Another process may have finished it in the meantime.
            if (found := place.store.find(work)) is not None:
                return found
        except StorageError:
            raise
        except FaircilError as error:
            if not place.replace:
                return Outcome(work, None, str(error), kind=type(error))
            replaced = str(error)
    device = choose_device(place.device)
    try:
        run = make_run(
            work,
            place.store.folder_of(work),
            command=place.command or command_of(work.config, [work.seed]),
            device=device,
            load=watch.loading(streams, device),
            watcher=watch,
            keep=place.keep,
            anew=place.again,
            tell=tell,
        )
    except DivergedError as error:
        place.store.note_divergence(work, str(error))
        return Outcome(work, None, str(error), diverged=True, kind=type(error))
    except (StorageError, RankError):
        raise
    except FaircilError as error:
        return Outcome(work, None, str(error), kind=type(error))
    place.store.forget_divergence(work)
    return Outcome(work, run, spent=watch.spent(), replaced=replaced)


TRIES = 2  # of a run whose process died
PATIENCE = 1.0  # seconds between checks on a run that another process is executing
Listener = Callable[[Outcome], None]
Waiting = Callable[[Work], None]
Takes = Callable[[Work], bool]


@dataclass(frozen=True)
class Crew:
    """Processes at one place, and the runs that they accept."""

    place: Place
    size: int
    takes: Takes


@dataclass
class Worker:
    """A process, its end of the pipe, its current run, and the data that it has loaded."""

    crew: Crew
    process: BaseProcess
    pipe: Connection
    work: Work | None = None
    data: str | None = None


@dataclass
class Bench:
    """Pending work, and how often each piece has killed a process.

    ``busy`` is work that another process was executing at the last check.
    """

    todo: list[Work]
    deaths: dict[str, int] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    def next_for(self, takes: Takes, data: str | None = None) -> Work | None:
        """Remove and return the first suitable work, preferably on the given data."""
        suited = [n for n, work in enumerate(self.todo) if takes(work)]
        same = [n for n in suited if self.todo[n].data == data]
        return self.todo.pop((same or suited)[0]) if suited else None


def make_here(
    works: Sequence[Work],
    place: Place,
    listener: Listener,
    waiting: Waiting = lambda _: None,
    watcher: Watcher | None = None,
    tell: Tell = lambda _: None,
) -> None:
    """Execute all work in this process, in order; runs busy in other processes come last.

    Raises
    ------
    SweepError
        If it cannot continue, as with a full disk; finished runs are kept.
    """
    shared = len({work.data for work in works}) < len(works)
    streams = Streams(place.device, watcher, MOST if shared else 0)
    bench = Bench(list(works))
    while bench.todo:
        work = bench.todo.pop(0)
        hear(answer(work, place, streams, tell, watcher), work, bench, listener, waiting)
        check()


def share_work(
    works: Sequence[Work],
    crews: Sequence[Crew],
    listener: Listener,
    waiting: Waiting = lambda _: None,
    tell: Tell = lambda _: None,
) -> None:
    """Execute all work in several processes, in order.

    Raises
    ------
    SweepError
        If it cannot continue, as with a full disk; finished runs are kept.
    """
    bench, sent = Bench(list(works)), sent_pieces(works)
    crews = [replace(crew, place=replace(crew.place, pieces=sent)) for crew in crews]
    with _workers(bench, crews) as workers:
        while busy := _hand_out(bench, workers):
            ready = wait([worker.pipe for worker in busy], timeout=PATIENCE)
            for worker in busy:
                if worker.pipe in ready:
                    _take(worker, bench, listener, waiting, tell)


def _hand_out(bench: Bench, workers: Sequence[Worker]) -> list[Worker]:
    """Assign suitable work to every idle worker; return the busy ones."""
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


def _take(worker: Worker, bench: Bench, listener: Listener, waiting: Waiting, tell: Tell) -> None:
    """Receive a message of a worker, or record that it has died."""
    work, worker.work = worker.work, None
    assert work is not None  # as for any busy worker
    try:
        said: Answer | str = worker.pipe.recv()
        if isinstance(said, str):  # a message; the answer is still to come
            worker.work = work
            tell(said)
            return
    except (EOFError, OSError):
        worker.process.join()
        _bury(work, worker.process.exitcode, bench, listener)
        return
    hear(said, work, bench, listener, waiting)


def hear(said: Answer, work: Work, bench: Bench, listener: Listener, waiting: Waiting) -> None:
    """Pass an outcome on, or return work to the queue that another process is executing."""
    if said.stop is not None:
        raise SweepError(said.stop)
    if said.outcome is not None:
        listener(said.outcome)
        return
    if work.key not in bench.busy:
        waiting(work)
    bench.busy.add(work.key)
    bench.todo.append(work)
    if all(other.key in bench.busy for other in bench.todo):
        time.sleep(PATIENCE)


def _bury(work: Work, exit_code: int | None, bench: Bench, listener: Listener) -> None:
    """Retry the work of a dead process once, then give it up."""
    bench.deaths[work.key] = bench.deaths.get(work.key, 0) + 1
    if bench.deaths[work.key] < TRIES:
        bench.todo.append(work)
        return
    problem = (
        f"its process died {TRIES} times, last with exit code {exit_code}; if memory ran out, use "
        "fewer `jobs`"
    )
    listener(Outcome(work, None, problem, kind=SweepError))


def _start(place: Place) -> tuple[BaseProcess, Connection]:
    context = get_context("spawn")  # CUDA does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, place), daemon=True)
    with terminal_ignored():  # this process ends them by SIGTERM
        process.start()
    theirs.close()
    return process, ours


@contextmanager
def _workers(bench: Bench, crews: Sequence[Crew]) -> Iterator[list[Worker]]:
    """Start the processes, at most as many as there are runs, and end them in any case."""
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
