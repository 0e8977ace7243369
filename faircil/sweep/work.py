"""The units of a sweep: runs to execute, the code they rest on, outcomes, where time is spent."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch

from faircil.buffer import RULES
from faircil.cache import EmbeddingProgress
from faircil.compute import enough_memory
from faircil.data.datasets import DATASETS
from faircil.data.mapped import load_table
from faircil.data.stream import TaskStream
from faircil.errors import FaircilError
from faircil.files import check_room, claim
from faircil.learners import LEARNERS
from faircil.metrics import METRICS
from faircil.postprocess import POSTPROCESSES
from faircil.registry import KINDS
from faircil.results.code import digest_code
from faircil.results.folder import seed_folder
from faircil.results.record import RunSummary, environment, identity
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Event, run
from faircil.runs.saved_states import (
    Checkpoints,
    Tell,
    expected_size,
    state_folder,
    write_finished,
)
from faircil.runs.state import RunState, start_run
from faircil.runs.together import led
from faircil.stopping import waiting
from faircil.weighting.losses import LOSSES
from faircil.weighting.measures import MEASURES
from faircil.weighting.selection import WEIGHTINGS
from faircil.weighting.solver import DEFAULT, SOLVERS

Load = Callable[[RunConfig, int], TaskStream]
# Takes configuration, seed, data and final state of a run, and returns what writes its model.
Keep = Callable[[RunConfig, int, TaskStream, RunState], Callable[[Path], None]]
NO_MODEL = "no model is kept"  # how the note begins that says why


class Watcher(Protocol):
    """Receives the progress of a run, in the process that executes it."""

    def start(self, seed: int, tasks: int) -> None:
        """Take note that a run with this seed and number of tasks begins."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Take note of how many texts of the next run are embedded."""

    def __call__(self, event: Event) -> None:
        """Take note of an epoch or an evaluation."""


class Unwatched:
    """Takes note of nothing."""

    def start(self, seed: int, tasks: int) -> None:
        """Ignore the start of a run."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Ignore the embedding."""

    def __call__(self, event: Event) -> None:
        """Ignore the event."""


@dataclass(frozen=True)
class Both:
    """Passes everything on to two watchers."""

    first: Watcher
    second: Watcher

    def start(self, seed: int, tasks: int) -> None:
        """Pass on that a run begins."""
        self.first.start(seed, tasks)
        self.second.start(seed, tasks)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Pass on how many texts are embedded."""
        self.first.embedding(progress)
        self.second.embedding(progress)

    def __call__(self, event: Event) -> None:
        """Pass on an event."""
        self.first(event)
        self.second(event)


@dataclass(frozen=True)
class Spent:
    """Seconds between getting a piece of work and answering.

    Parameters
    ----------
    process : int
        Its number in the system.
    device : float
        To get hold of the device: on a GPU the first time takes long.
    load : float
        To load the data, or to find it in memory.
    run : float
        From then to the last evaluation; how that divides is in the summary of the run.
    write : float
        From then until the run is on disk.
    total : float
        All of it.
    cpu : float
        What the processor gave it of that, over all threads.
    """

    process: int
    device: float
    load: float
    run: float
    write: float
    total: float
    cpu: float


class Watch:
    """Times one piece of work from now on, and passes on how it proceeds."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._start = self._touched = self._loaded = self._evaluated = time.perf_counter()
        self._cpu = time.process_time()
        self._device = 0.0
        self._watcher = watcher or Unwatched()

    def loading(self, load: Load, device: torch.device) -> Load:
        """Return ``load``, timed, after a first touch of the device."""

        def timed(config: RunConfig, seed: int) -> TaskStream:
            start = time.perf_counter()
            torch.zeros(1, device=device)
            self._touched = time.perf_counter()
            self._device = self._touched - start
            stream = load(config, seed)
            self._loaded = time.perf_counter()
            return stream

        return timed

    def start(self, seed: int, tasks: int) -> None:
        """Pass on that a run begins."""
        self._watcher.start(seed, tasks)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Pass on how many texts are embedded."""
        self._watcher.embedding(progress)

    def __call__(self, event: Event) -> None:
        """Pass on an event and note the time; the last event of a run is its last evaluation."""
        self._watcher(event)
        self._evaluated = time.perf_counter()

    def spent(self) -> Spent:
        """Return where the time of a run, now on disk, was spent."""
        now = time.perf_counter()
        return Spent(
            process=os.getpid(),
            device=self._device,
            load=self._loaded - self._touched,
            run=self._evaluated - self._loaded,
            write=now - self._evaluated,
            total=now - self._start,
            cpu=time.process_time() - self._cpu,
        )


LOOP = ("faircil.runs.experiment",)
# Tables of pieces: a run depends on the rows that it uses, not on the others.
TABLES = (
    "faircil.weighting.selection:WEIGHTINGS",
    "faircil.postprocess:POSTPROCESSES",
    *(kind.registry for kind in KINDS.values()),
    *(f"{kind.registry.partition(':')[0]}:_BUILT_IN" for kind in KINDS.values()),
)


def pieces_of(config: RunConfig) -> list[object]:
    """Return what a run uses of the tables: rows, and the functions of metrics."""
    weights = config.settings.weights
    loss, solver = str(weights.loss), str(weights.solver)  # functions are for own loops only
    pieces: list[object] = [
        load_table if config.own is not None else DATASETS[config.dataset],
        LEARNERS[config.method],
        WEIGHTINGS[config.weighting],
        MEASURES[config.measure],
        LOSSES[loss],
        SOLVERS[DEFAULT if solver == "auto" else solver],
    ]
    if (rule := getattr(config.settings.learner, "buffer_rule", None)) is not None:
        pieces.append(RULES[rule])
    if config.postprocess != "none":
        pieces.append(POSTPROCESSES[config.postprocess])
    for name, metric in METRICS.items():  # every run has all of them
        pieces += [name, metric.of, metric.at_end]
    return pieces


def code_digest(config: RunConfig) -> str:
    """Return a short hash of the code that can change the result of a run."""
    return digest_code(LOOP, pieces_of(config), TABLES)


@dataclass(frozen=True)
class Work:
    """One run to be made: a configuration and a seed."""

    config: RunConfig
    seed: int

    @cached_property
    def key(self) -> str:
        """What two pieces of work share only if they are the same run."""
        content = json.dumps([self.config.model_dump(mode="json"), self.seed], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def code(self) -> str:
        """Hash of the code that can change its result, when it was first asked for."""
        return code_digest(self.config)

    @property
    def identity(self) -> dict[str, Any]:
        """What a stored run of it says that it is."""
        return identity(self.config.model_dump(mode="json"), self.seed, self.code)

    @property
    def data(self) -> str:
        """What two pieces of work share only if they train on the same data."""
        config, settings = self.config, self.config.settings
        source = (config.dataset, config.own, config.data_sha256, config.evaluate_on)
        encoding = (config.encoder_sha256, config.settings.media)
        order = (settings.data.class_order, settings.data.classes_per_task)
        return repr((*source, *encoding, *order, self.seed))

    @property
    def name(self) -> str:
        """What to call it in a message."""
        config = self.config
        part = " (validation)" * (config.evaluate_on == "validation")
        return f"{config.dataset} {config.label} {config.measure}{part} seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What became of a piece of work: a finished run, or the problem that there is none.

    Parameters
    ----------
    work : Work
    run : RunSummary or None
    problem : str or None
    diverged : bool
        Whether the problem is the training itself: these settings do not work.
    spent : Spent or None
        Where its time was spent, if the run was made now.
    kind : type of FaircilError
        That the problem is, for whoever raises it.
    replaced : str or None
        Why a run that was there could not be used, if this one took its place.
    """

    work: Work
    run: RunSummary | None
    problem: str | None = None
    diverged: bool = False
    spent: Spent | None = field(default=None, compare=False)
    kind: type[FaircilError] = field(default=FaircilError, compare=False)
    replaced: str | None = field(default=None, compare=False)


def make_run(
    work: Work,
    folder: Path,
    *,
    command: str,
    device: torch.device,
    load: Load,
    watcher: Watcher,
    keep: Keep | None = None,
    anew: bool = False,
    tell: Tell = lambda _: None,
) -> RunSummary:
    """Make a run and write it to the folder of its configuration.

    A run that was stopped goes on from its last state, and its watcher hears again what was before.

    Parameters
    ----------
    work : Work
    folder : Path
        Of the configuration; the run is in ``seed-N`` below.
    command : str
        The command line that makes it again.
    device : torch.device
    load : callable
        Loads the stream.
    watcher : Watcher
    keep : callable, optional
        Keeps the final model in the folder of the run; not kept by default. A model that cannot be
        kept is a note of the run.
    anew : bool
        Whether saved states are left aside.
    tell : callable
        Takes lines about saved states and room on the disk.
    """
    config, seed = work.config, work.seed
    write_model = None
    with enough_memory():
        stream = load(config, seed)
    claim(folder)
    with waiting(), enough_memory():  # a signal waits until the run is saved or finished
        watcher.start(seed, len(stream.tasks))
        room = expected_size(config, stream)
        states = Checkpoints(
            state_folder(folder, seed), _state_identity(work, device), tell, 2 * room
        )
        state = None if anew else states.latest(device)
        if state is None:
            state = start_run(config, seed, stream, device)
        else:
            tell(f"seed {seed} continues {state.place}")
            for event in state.history():
                watcher(event)
        if keep is not None:
            room += sum(
                each.numel() * each.element_size() for each in state.learner.net.parameters()
            )
        check_room(folder, room)
        with led(config, seed, stream, state, device) as (shared, ranks):
            result = run(
                config,
                seed,
                stream=shared,
                device=device,
                listener=watcher,
                state=state,
                checkpoint=states,
                between_steps=states,
                ranks=ranks,
            )
        if keep is not None:
            try:
                write_model = keep(config, seed, stream, state)
            except FaircilError as error:
                result = replace(result, notes=(*result.notes, f"{NO_MODEL}: {error}"))
        made_on = environment(command, str(device), work.code)
        written = write_finished(
            seed_folder(folder, seed), result, made_on, work.code, write_model, tell
        )
        states.clear()  # not before the run is on disk
    return written


def _state_identity(work: Work, device: torch.device) -> dict[str, Any]:
    """Return what a state must be of, so that going on from it changes no bit."""
    return work.identity | {"torch": str(torch.__version__), "device": device.type}
