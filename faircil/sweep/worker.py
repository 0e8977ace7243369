"""A process that makes runs one after another, as it is told over a pipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from faircil.compute import choose_device
from faircil.data.stream import TaskStream
from faircil.errors import DivergedError, FaircilError, StorageError
from faircil.results.identity import code_digest
from faircil.runs.config import RunConfig
from faircil.runs.loading import load_stream
from faircil.sweep.command import command_of
from faircil.sweep.store import alone, find, folder_of, note_divergence
from faircil.sweep.work import Outcome, Watch, Work, make_run

MOST = 2


class Streams:
    """Loads streams, and gives the same object again where the data is the same.

    Parameters
    ----------
    device : str
        Where new embeddings of texts are computed.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._kept: dict[str, TaskStream] = {}

    def __call__(self, config: RunConfig, seed: int) -> TaskStream:
        """Return the stream of a run."""
        key = Work(config, seed).data
        stream = self._kept.pop(key, None) or load_stream(config, seed, device=self._device)
        self._kept[key] = stream  # the last used is the last to go
        for oldest in list(self._kept)[:-MOST]:
            del self._kept[oldest]
        return stream


@dataclass(frozen=True)
class Answer:
    """What a worker says: the outcome, None where another process is making the run.

    ``stop`` says why the whole sweep cannot go on.
    """

    outcome: Outcome | None
    stop: str | None = None


@dataclass(frozen=True)
class Place:
    """Where runs are kept and computed, whether runs of other code will do, and by which code."""

    root: Path
    device: str = "cpu"
    any_code: bool = False
    code: str = field(default_factory=code_digest)


def serve(pipe: Connection, place: Place) -> None:
    """Make what comes over the pipe until it is closed."""
    torch.set_num_threads(1)  # the processes share the cores
    streams = Streams(place.device)
    try:
        while True:
            pipe.send(answer(pipe.recv(), place, streams))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass


def answer(work: Work, place: Place, streams: Streams) -> Answer:
    """Make a run, unless it is there or in the making."""
    if place.code != code_digest():
        return Answer(None, "faircil's files have changed since the sweep began; start it again")
    try:
        with alone(work, place.root) as mine:
            return Answer(_make(work, place, streams) if mine else None)
    except StorageError as error:
        return Answer(None, str(error))


def _make(work: Work, place: Place, streams: Streams) -> Outcome:
    watch = Watch()
    try:
        # Another process may have been faster.
        found = find(work, place.root, any_code=place.any_code)
        if found is not None:
            return found
    except FaircilError:
        pass  # what is there is no finished run, and is replaced
    device = choose_device(place.device)
    try:
        run = make_run(
            work.config,
            work.seed,
            folder_of(work, place.root),
            command=command_of(work.config, [work.seed]),
            device=device,
            listener=watch.listen,
            load=watch.loading(streams, device),
        )
    except DivergedError as error:
        note_divergence(work, place.root, str(error))
        return Outcome(work, None, str(error), diverged=True)
    except StorageError:
        raise
    except FaircilError as error:
        return Outcome(work, None, str(error))
    return Outcome(work, run, spent=watch.spent())
