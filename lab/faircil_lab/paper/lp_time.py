"""How the time of one program grows with the samples of the task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import linregress, t

from faircil.report.plots import COLOURS, MARKERS
from faircil.report.statistics import Interval
from faircil.results.record import environment
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_stream
from faircil.weighting.weights import FairSampleWeights
from faircil_lab.bench.lp import LpOptions, Skipped, measure
from faircil_lab.bench.lp_page import CPLEX
from faircil_lab.bench.lp_programs import RECORDER, NamedProgram, all_cases, recording
from faircil_lab.bench.measuring import busy, described
from faircil_lab.paper.drawing import REFERENCE, finish_axes, write_png
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section, Verdict, WithoutRuns
from faircil_lab.paper.published import Value, published
from faircil_lab.paper.store import Measurement, Statement, look_up, not_run, page_of
from faircil_lab.wording import mean_text, seconds_text, sentence

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
        lam, floor = config.settings.weights.lam, config.settings.weights.floor
        weigh = FairSampleWeights(config.measure, lam=lam, floor=floor, solver=RECORDER)
        generator = torch.Generator().manual_seed(0)
        for size in self.sizes:
            for _ in range(self.draws if size <= len(current) else 0):
                rows = torch.randperm(len(current), generator=generator)[:size]
                weigh(state.learner.net, current.take(rows), state.buffer.samples)


LEVEL = 0.95


@dataclass(frozen=True)
class PowerLaw:
    """``seconds = exp(offset) · n ** exponent`` by least squares of logarithms.

    Parameters
    ----------
    sizes, seconds : tuple
        What it is fitted to.
    exponent : Interval
        With its interval at 95 %.
    offset : float
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    exponent: Interval
    offset: float

    def at(self, n: float) -> float:
        """Return the seconds at n samples."""
        return math.exp(self.offset + self.exponent.mean * math.log(n))


def fit_power(times: Sequence[SolveTime]) -> PowerLaw:
    """Fit times of one solver at several sizes."""
    sizes, seconds = zip(*((time.n, time.seconds) for time in times), strict=True)
    line = linregress(np.log(sizes), np.log(seconds))
    half = float(t.ppf((1 + LEVEL) / 2, len(times) - 2)) * float(line.stderr)
    slope = float(line.slope)
    return PowerLaw(
        sizes, seconds, Interval(slope, slope - half, slope + half), float(line.intercept)
    )


def draw_times(fits: Mapping[str, PowerLaw]) -> Figure:
    """Draw seconds against samples, both logarithmic, with a fitted line for each solver."""
    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.subplots()
    ends = [min(min(fit.sizes) for fit in fits.values()), max(max(f.sizes) for f in fits.values())]
    for number, (name, fit) in enumerate(fits.items()):
        colour, marker = COLOURS[number], MARKERS[number]
        axes.scatter(fit.sizes, fit.seconds, s=18, color=colour, marker=marker)
        label = f"{name}: $n^{{{fit.exponent.mean:.2f}}}$"
        axes.plot(ends, [fit.at(n) for n in ends], color=colour, lw=1.6, label=label)
    label = f"CPLEX as published: $n^{{{CPLEX.exponent}}}$"
    published = [CPLEX.at(n) for n in ends]
    axes.plot(ends, published, color=REFERENCE, ls="--", lw=1.4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = np.unique([*next(iter(fits.values())).sizes])
    shown = [int(n) for n in ticks if str(int(n))[0] in "1248"]
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.minorticks_off()
    axes.set_xlabel("samples of the task, n")
    axes.set_ylabel("seconds for one program")
    axes.legend(frameon=False)
    finish_axes(axes)
    return figure


NAMES = {"exact": "ours (exact)", "highs": "HiGHS", "cplex": "CPLEX"}
FEWEST = 3  # sizes that a slope takes; CPLEX without a licence solves the smallest only
SAYS = "Exponent of the time against the samples, {}"
ABOUT = (
    "Programs of the second task of MNIST (EER) after its first epoch, on random parts of it: "
    "three of each size, α = 12/n, one thread, the median of five solves. The exponent is the "
    "slope of a straight line through the logarithms, with its 95 % interval. The published one is "
    "of CPLEX on another machine: `same` where our interval contains it, else `different`."
)


@dataclass(frozen=True)
class LpTime(WithoutRuns):
    """Time of a single program."""

    title: str = "Time of a single linear program"
    paper: str = "Fig. 7"

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        found, command = look_up(LpTimes(), results), "faircil reproduce lp-time"
        if found.values is None:
            problem = str(found.problem)
            statements = [_not_run(solver, problem) for solver in SOLVERS]
            return page_of(sentence(problem), statements, ABOUT, command)
        times = found.values
        by_solver = {s: [time for time in times.times if time.solver == s] for s in SOLVERS}
        fits = {
            solver: fit_power(own)
            for solver, own in by_solver.items()
            if len({time.n for time in own}) >= FEWEST
        }
        notes = {solver: _note(solver, times) for solver in SOLVERS if solver not in fits}
        statements = [
            _compare(solver, fits[solver])
            if solver in fits
            else _not_run(solver, f"not run: {notes[solver]}")
            for solver in SOLVERS
        ]
        sections = [_section(fits, times)] if fits else []
        return page_of(_answer(fits), statements, ABOUT, command, *sections)


def _published() -> Value:
    value = published("lp-time").value("mnist eer", "cplex", "exponent")
    assert value is not None
    return value


def _not_run(solver: str, problem: str) -> Statement:
    return not_run(SAYS.format(NAMES[solver]), problem, str(_published()))


def _note(solver: str, times: SolveTimes) -> str:
    """Say why a solver has no times, or not all."""
    own = [note for note in times.notes if note.startswith(f"{solver}: ")]
    return own[0].removeprefix(f"{solver}: ") if own else "it was not measured"


def _compare(solver: str, fit: PowerLaw) -> Statement:
    paper, (low, high) = _published(), (fit.exponent.low, fit.exponent.high)
    assert low is not None
    assert high is not None
    if low - paper.rounding <= paper.mean <= high + paper.rounding:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.DIFFERENT  # another solver on another machine is no better or worse FSW
    return Statement(SAYS.format(NAMES[solver]), str(paper), mean_text(fit.exponent, 3), verdict)


def _answer(fits: Mapping[str, PowerLaw]) -> str:
    if not fits:
        return f"No solver has times at {FEWEST} sizes."
    parts = [
        f"{NAMES[solver]} n^{fit.exponent.mean:.2f}, {_time_text(fit, max(fit.sizes))} at "
        f"{max(fit.sizes):,} samples"
        for solver, fit in fits.items()
    ]
    return f"The time grows as {'; '.join(parts)}. Published: CPLEX n^{_published()}."


def _time_text(fit: PowerLaw, size: int) -> str:
    """Write the median over programs of a size; a dash where the solver has none."""
    own = [s for n, s in zip(fit.sizes, fit.seconds, strict=True) if n == size]
    return seconds_text(median(own)) if own else "–"


def _section(fits: Mapping[str, PowerLaw], times: SolveTimes) -> Section:
    sizes = sorted({n for fit in fits.values() for n in fit.sizes})
    rows = tuple(
        (NAMES[solver], *(_time_text(fit, size) for size in sizes)) for solver, fit in fits.items()
    )
    of_solvers = {f"{solver}: ": solver for solver in SOLVERS}
    busy = [note for note in times.notes if not note.startswith(tuple(of_solvers))]
    partly = [
        f"{NAMES[solver]} was not measured on all programs: {_note(solver, times)}"
        for start, solver in of_solvers.items()
        if solver in fits and any(note.startswith(start) for note in times.notes)
    ]

    def draw(path: Path, fits: Mapping[str, PowerLaw]) -> None:
        write_png(draw_times({NAMES[solver]: fit for solver, fit in fits.items()}), path)

    return Section(
        "Times",
        " ".join([f"Machine: {times.machine}.", *(f"{note}." for note in (*busy, *partly))]),
        Grid(("solver", *(f"n = {size:,}" for size in sizes)), rows),
        Picture(
            "lp-time.png",
            "Seconds for one program against the samples of the task. The dashed line has the "
            "published exponent and goes through the published mean of a run of Biased MNIST.",
            partial(draw, fits=fits),
        ),
    )
