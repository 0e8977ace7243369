"""Runs as tasks of a Dask cluster, executed by workers in a folder that all machines share.

Locks, checksums and saved states work as in any other sweep, so several sweeps, on a cluster or
not, may write to one folder. If a worker dies, another one resumes its run from the last saved
state.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from faircil.cluster import Dask, WorkersDiedError
from faircil.errors import SweepError
from faircil.runs.saved_states import Tell
from faircil.stopping import check, stoppable
from faircil.sweep.processes import (
    CHANGED,
    Answer,
    Bench,
    Listener,
    Place,
    Streams,
    Waiting,
    answer,
    hear,
    sent_pieces,
)
from faircil.sweep.work import Outcome, Work, code_digest

STOPPING = 60.0  # seconds to wait for runs that are being saved
STOPPED = Answer(None, "the sweep was stopped")


@dataclass
class _Here:
    """The current run of a worker: runs share torch's generator, so there is one at a time."""

    alone: threading.Lock = field(default_factory=threading.Lock)
    change: threading.Lock = field(default_factory=threading.Lock)
    ended: set[str] = field(default_factory=set)
    sweep: str | None = None
    stop: Callable[[], None] | None = None


_HERE = _Here()


@cache
def _streams(device: str) -> Streams:
    """Return the data that the runs of this worker share."""
    return Streams(device)


@dataclass(frozen=True)
class MakeRun:
    """Executes a run on a worker.

    Parameters
    ----------
    place : Place
    sweep : str
        File in or above the folder of runs, which exists during the sweep and identifies it.
    here : str
        The current folder, to which paths are relative.
    """

    place: Place
    sweep: str
    here: str

    def __call__(self, work: Work) -> tuple[Answer, list[str]]:
        """Return the answer for a run, and messages for the user."""
        lines: list[str] = []
        with _HERE.alone, stoppable() as stop:
            with _HERE.change:
                if self.sweep in _HERE.ended:
                    return STOPPED, lines
                _HERE.sweep, _HERE.stop = self.sweep, stop
            try:
                return self._made(work, lines.append), lines
            except KeyboardInterrupt:  # by `end_runs`: the progress is saved
                return STOPPED, lines
            finally:
                with _HERE.change:
                    _HERE.sweep = _HERE.stop = None

    def _made(self, work: Work, tell: Tell) -> Answer:
        if os.getcwd() != self.here or not Path(self.sweep).exists():
            return Answer(
                None,
                f"a worker in {os.getcwd()} of {platform.node()} does not see the folder "
                f"{Path(self.sweep).parent}; runs need a folder that all machines share, and "
                f"workers that are started in {self.here} as it is here",
            )
        if work.code != code_digest(work.config):
            return Answer(None, CHANGED)
        said = answer(work, self.place, _streams(self.place.device), tell)
        check()
        return said


def end_runs(sweep: str) -> None:
    """Stop a sweep's run on this worker, refuse further runs of it, and release its data."""
    with _HERE.change:
        _HERE.ended.add(sweep)
        if _HERE.sweep == sweep and _HERE.stop is not None:
            _HERE.stop()
        _streams.cache_clear()


def make_on_cluster(
    works: Sequence[Work],
    place: Place,
    scheduler: str,
    listener: Listener,
    waiting: Waiting = lambda _: None,
    tell: Tell = lambda _: None,
) -> None:
    """Execute all work on a cluster, in order, one run at a time per worker.

    Parameters
    ----------
    works, place, listener, waiting, tell
        As for :func:`faircil.sweep.processes.make_here`.
    scheduler : str
        See :class:`~faircil.cluster.Dask`.

    Raises
    ------
    SweepError
        If it cannot continue, for example because the disk is full; finished runs are kept.
    """
    sent_pieces(works)  # raises an error if some cannot be sent; the engine sends them
    root = (place.store.folder or place.store.root).absolute()
    there = next(folder for folder in (root, *root.parents) if folder.is_dir())
    with Dask(scheduler) as cluster, NamedTemporaryFile(prefix=".sweep-", dir=there) as mark:
        sharing = _Sharing(cluster, MakeRun(place, mark.name, os.getcwd()), Bench(list(works)))
        try:
            sharing.make_all(listener, waiting, tell)
        finally:
            sharing.end()


class _Sharing:
    """Distributes work among the workers of a cluster."""

    def __init__(self, cluster: Dask, make: MakeRun, bench: Bench) -> None:
        self._cluster, self._make, self._bench = cluster, make, bench
        self._order = cluster.order(make)
        self._begun: dict[Any, tuple[str, Work]] = {}  # worker and work by future
        self._data: dict[str, str] = {}  # data that each worker has loaded

    def make_all(self, listener: Listener, waiting: Waiting, tell: Tell) -> None:
        """Hand out work until all is done."""
        while self._hand_out():
            if not self._begun:
                self._cluster.wait_for_workers()
                continue
            self._cluster.wait(list(self._begun))
            for future in [one for one in self._begun if one.done()]:
                _, work = self._begun.pop(future)
                try:
                    said, lines = self._cluster.result(future)
                except WorkersDiedError as error:
                    listener(Outcome(work, None, str(error), kind=SweepError))
                    continue
                for line in lines:
                    tell(line)
                hear(said, work, self._bench, listener, waiting)

    def _hand_out(self) -> bool:
        """Give every idle worker the work that suits it best; return whether any is unfinished."""
        busy = {place for place, _ in self._begun.values()}
        for place in self._cluster.addresses:
            if place in busy:
                continue
            work = self._bench.next_for(lambda _: True, self._data.get(place))
            if work is not None:
                self._data[place] = work.data
                assert work.code  # computed here, to be compared by the worker
                self._begun[self._cluster.begin(self._order, work, place)] = place, work
        return bool(self._begun or self._bench.todo)

    def end(self) -> None:
        """Stop current runs, and wait until they are saved."""
        self._cluster.everywhere(end_runs, self._make.sweep)
        self._cluster.settle(list(self._begun), STOPPING)
        self._cluster.cancel([*self._begun, self._order])
