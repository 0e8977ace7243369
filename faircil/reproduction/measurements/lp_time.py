"""Time to solve one weighting program against the number of its samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from faircil.bench.lp.cases import all_cases
from faircil.bench.lp.measure import measure
from faircil.bench.lp.programs import RECORDER, NamedProgram, recording
from faircil.bench.lp.record import LpOptions, Skipped
from faircil.bench.machine import busy, described
from faircil.config import RunConfig, resolve
from faircil.experiment import run
from faircil.loading import load_stream
from faircil.reproduction.measurements.store import Measurement
from faircil.results.environment import environment
from faircil.state import RunState
from faircil.weighting.weights import FairSampleWeights

SOLVERS = ("exact", "highs", "cplex")
SIZES = (1000, 2000, 3000, 4000, 6000, 8000, 10000, 12000)
LIMIT = 60.0  # seconds for one solve


@dataclass(frozen=True)
class SolveTime:
    """Median seconds of a solver on a program of n samples."""

    solver: str
    n: int
    seconds: float


@dataclass(frozen=True)
class SolveTimes:
    """Times, what a reader should know about them, and the machine that they are of."""

    times: tuple[SolveTime, ...]
    notes: tuple[str, ...]
    machine: str


@dataclass(frozen=True)
class LpTimes(Measurement[SolveTimes]):
    """Programs of the second task of a dataset, on random parts of it.

    Parameters
    ----------
    dataset : str
    sizes : tuple of int
        Samples; one that is larger than the task is left out.
    draws : int
        Parts of each size.
    repeats : int
        Timed solves of each program.
    overrides : tuple of str
        ``name=value`` settings of the run that makes the programs.
    """

    name: ClassVar[str] = "lp-time"
    values: ClassVar[type[SolveTimes]] = SolveTimes

    dataset: str = "mnist"
    sizes: tuple[int, ...] = SIZES
    draws: int = 3
    repeats: int = 5
    overrides: tuple[str, ...] = ()

    def compute(self) -> SolveTimes:
        """Make the programs, then time the solvers in turns."""
        notes = busy()
        cases = [all_cases()[solver] for solver in SOLVERS]
        options = LpOptions(repeats=self.repeats, limit=LIMIT)
        outcomes = list(measure(self.programs(), cases, options))
        timed = [outcome for outcome in outcomes if not isinstance(outcome, Skipped)]
        left_out = {o.solver: o.why for o in outcomes if isinstance(o, Skipped)}
        return SolveTimes(
            times=tuple(SolveTime(o.solver, o.n, o.median) for o in timed),
            notes=(*notes, *(f"{solver}: {why}" for solver, why in left_out.items())),
            machine=described(environment("", "cpu")),
        )

    def programs(self) -> list[NamedProgram]:
        """Make programs at the second epoch of the second task, of random parts of that task.

        The first epoch of a task often keeps all samples, so that there is little to solve. Alpha
        is ``auto``, 12 over the number of samples, the shipped .001 at 12,000: with a fixed alpha
        a small part could keep all samples, too.
        """
        config = resolve(
            dataset=self.dataset, method="fsw", overrides=["epochs=1", *self.overrides]
        )
        stream = load_stream(config, 0)
        short = replace(stream, tasks=stream.tasks[:2])

        def look(state: RunState) -> None:
            if state.buffer.samples is not None:
                self._weigh_parts(config, state)

        with recording() as programs:
            run(config, 0, stream=short, checkpoint=look)
        return [NamedProgram(f"{len(program)} samples", program) for program in programs]

    def _weigh_parts(self, config: RunConfig, state: RunState) -> None:
        """Let the recorder solve the program of each part."""
        assert state.task is not None
        current = state.task.material.current
        lam, floor = config.settings.lam, config.settings.floor
        weigh = FairSampleWeights(config.measure, lam=lam, floor=floor, solver=RECORDER)
        generator = torch.Generator().manual_seed(0)
        for size in self.sizes:
            for _ in range(self.draws if size <= len(current) else 0):
                rows = torch.randperm(len(current), generator=generator)[:size]
                weigh(state.learner.net, current.take(rows), state.buffer.samples)
