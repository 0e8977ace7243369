"""What a sweep is made of: runs to be made, how one is made, what its time is spent on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import torch

from faircil.compute import enough_memory
from faircil.data.stream import TaskStream
from faircil.learners import LEARNERS
from faircil.results.folder import write_run
from faircil.results.identity import environment
from faircil.results.record import RunSummary
from faircil.results.reuse import claim, seed_folder
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Event, Listener, run
from faircil.runs.loading import load_stream
from faircil.text.embeddings import EmbeddingProgress

Load = Callable[[RunConfig, int], TaskStream]


def make_run(
    config: RunConfig,
    seed: int,
    folder: Path,
    *,
    command: str,
    device: torch.device,
    begin: Callable[[TaskStream], None] = lambda _: None,
    listener: Listener = lambda _: None,
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
    load: Load | None = None,
) -> RunSummary:
    """Make a run and write it to the folder of its configuration.

    Parameters
    ----------
    config, seed
        The run.
    folder : Path
        Of the configuration; the run is in ``seed-N`` below.
    command : str
        What makes it again.
    device : torch.device
    begin : callable
        Is given the stream when it is loaded.
    listener : callable
        Is told of every epoch and every evaluation.
    progress : callable
        Is told how far the embedding of new texts is.
    load : callable, optional
        Loads the stream; if not given, :func:`faircil.runs.loading.load_stream`.
    """
    load = load or partial(load_stream, device=device, progress=progress)
    with enough_memory():
        stream = load(config, seed)
        claim(folder)
        begin(stream)
        result = run(config, seed, stream=stream, device=device, listener=listener)
    return write_run(seed_folder(folder, seed), result, environment(command, str(device)))


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
    """Times one piece of work, from now on."""

    def __init__(self) -> None:
        self._start = self._touched = self._loaded = self._evaluated = time.perf_counter()
        self._cpu = time.process_time()
        self._device = 0.0

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

    def listen(self, _: Event) -> None:
        """Note the time; the last that a run tells of is its last evaluation."""
        self._evaluated = time.perf_counter()

    def spent(self) -> Spent:
        """Say what the time of a run, now on disk, went to."""
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

    @property
    def data(self) -> str:
        """What two pieces of work share only if they train on the same data."""
        config, settings = self.config, self.config.settings
        source = (config.dataset, config.own, config.data_sha256, config.evaluate_on)
        encoding = (config.encoder_sha256, config.text)
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

    ``diverged`` says that the problem is the training itself: these settings do not work. ``spent``
    is what the time went to, where the run was made now.
    """

    work: Work
    run: RunSummary | None
    problem: str | None = None
    diverged: bool = False
    spent: Spent | None = field(default=None, compare=False)


# Training samples; only the proportions matter.
SAMPLES = {
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "biased-mnist": 60_000,
    "drug": 1_300,
    "biasbios": 253_000,
}
OTHER_SAMPLES = 10_000
# A step against one of plain replay.
EFFORT = {"joint": 2.5, "gss": 3.0, "ocs": 2.0, "fairl": 2.0, "finetune": 0.5}
WIDE = {"biased-mnist": 2.0}  # inputs of three channels
TRAINED_ENCODER = 100.0


def effort(work: Work) -> float:
    """Return the cost of a run in steps of plain replay on MNIST."""
    config, training = work.config, work.config.settings.training
    steps = SAMPLES.get(config.dataset, OTHER_SAMPLES) / training.batch_size * training.epochs
    wide = TRAINED_ENCODER if config.trains_encoder else WIDE.get(config.dataset, 1.0)
    return steps * EFFORT.get(config.method, 1.0) * wide


def suits_gpu(work: Work) -> bool:
    """Whether a GPU replays the steps as graphs, or they are large; else CPUs are faster."""
    return LEARNERS[work.config.method].graphable or work.config.trains_encoder
