"""What the time of a piece of work goes to, as the process that does it sees it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import torch

from faircil.config import RunConfig
from faircil.data.stream import TaskStream
from faircil.experiment import Event
from faircil.sweep.make import Load


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
