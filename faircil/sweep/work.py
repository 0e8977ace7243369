"""The units of a sweep: runs to execute, the code they depend on, outcomes, time spent."""

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
# Takes the configuration, seed, data and final state of a run; returns a function that writes its
# model.
Keep = Callable[[RunConfig, int, TaskStream, RunState], Callable[[Path], None]]
NO_MODEL = "no model is kept"  # beginning of the note that gives the reason


class Watcher(Protocol):
    """Receives the progress of a run, in the process that executes it."""

    def start(self, seed: int, tasks: int) -> None:
        """Receive the seed and number of tasks of a run that begins."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Receive the number of texts of the next run embedded so far."""

    def __call__(self, event: Event) -> None:
        """Receive an epoch or an evaluation."""


class Unwatched:
    """Ignores all progress."""

    def start(self, seed: int, tasks: int) -> None:
        """Ignore the start of a run."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Ignore the embedding."""

    def __call__(self, event: Event) -> None:
        """Ignore the event."""


@dataclass(frozen=True)
class Both:
    """Passes all progress on to two watchers."""

    first: Watcher
    second: Watcher

    def start(self, seed: int, tasks: int) -> None:
        """Pass on the start of a run."""
        self.first.start(seed, tasks)
        self.second.start(seed, tasks)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Pass on the number of embedded texts."""
        self.first.embedding(progress)
        self.second.embedding(progress)

    def __call__(self, event: Event) -> None:
        """Pass on an event."""
        self.first(event)
        self.second(event)


@dataclass(frozen=True)
class Spent:
    """Seconds spent on a run, from receiving it to returning the answer.

    Parameters
    ----------
    process : int
        Process id.
    device : float
        Initialising the device, which takes long on a GPU the first time.
    load : float
        Loading the data, or finding it in the cache.
    run : float
        From then to the last evaluation; the run's summary has the details.
    write : float
        From then until the run is on disk.
    total : float
        Total time.
    cpu : float
        CPU time in total, over all threads.
    """

    process: int
    device: float
    load: float
    run: float
    write: float
    total: float
    cpu: float


class Watch:
    """Measures the time of a run from now on, and passes on its progress."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._start = self._touched = self._loaded = self._evaluated = time.perf_counter()
        self._cpu = time.process_time()
        self._device = 0.0
        self._watcher = watcher or Unwatched()

    def loading(self, load: Load, device: torch.device) -> Load:
        """Return ``load`` with time measurement, after initialising the device."""

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
        """Pass on the start of a run."""
        self._watcher.start(seed, tasks)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Pass on the number of embedded texts."""
        self._watcher.embedding(progress)

    def __call__(self, event: Event) -> None:
        """Pass on an event and record the time; the last event of a run is its last evaluation."""
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
    """A run to be executed: a configuration and a seed."""

    config: RunConfig
    seed: int

    @cached_property
    def key(self) -> str:
        """Key that is equal only for the same run."""
        content = json.dumps([self.config.model_dump(mode="json"), self.seed], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def code(self) -> str:
        """Hash of the code that can affect its result, computed on first use."""
        return code_digest(self.config)

    @property
    def identity(self) -> dict[str, Any]:
        """Identity in the files of its stored run."""
        return identity(self.config.model_dump(mode="json"), self.seed, self.code)

    @property
    def data(self) -> str:
        """Key that is equal only for training on the same data."""
        config, settings = self.config, self.config.settings
        source = (config.dataset, config.own, config.data_sha256, config.evaluate_on)
        encoding = (config.encoder_sha256, config.settings.media)
        order = (settings.data.class_order, settings.data.classes_per_task)
        return repr((*source, *encoding, *order, self.seed))

    @property
    def name(self) -> str:
        """Name of the run, for messages."""
        config = self.config
        part = " (validation)" * (config.evaluate_on == "validation")
        return f"{config.dataset} {config.label} {config.measure}{part} seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: the finished run, or the problem.

    Parameters
    ----------
    work : Work
    run : RunSummary or None
    problem : str or None
    diverged : bool
        Whether training itself is the problem: these settings do not work.
    spent : Spent or None
        Where time was spent, if the run was executed now.
    kind : type of FaircilError
        Type of the problem, to raise it.
    replaced : str or None
        Why an existing run could not be used, if this one replaced it.
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
    """Execute a run and write it to the folder of its configuration.

    A stopped run is resumed from its last state, and its watcher receives the earlier events again.

    Parameters
    ----------
    work : Work
    folder : Path
        Folder of the configuration; the run is in its subfolder ``seed-N``.
    command : str
        The command line that repeats the run.
    device : torch.device
    load : callable
        Loads the stream.
    watcher : Watcher
    keep : callable, optional
        Stores the final model in the folder of the run; by default it is not stored. Failure to
        store it is a note of the run.
    anew : bool
        Whether to ignore saved states.
    tell : callable
        Receives messages about saved states and disk space.
    """
    config, seed = work.config, work.seed
    write_model = None
    with enough_memory():
        stream = load(config, seed)
    claim(folder)
    with waiting(), enough_memory():  # signals are deferred until the run is saved or finished
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
    """Return the identity of a state from which the run can be resumed without changing any bit."""
    return work.identity | {"torch": str(torch.__version__), "device": device.type}
