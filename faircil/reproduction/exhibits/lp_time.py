"""How the time of one program grows with the samples of the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from faircil.bench.timing import written as written_seconds
from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import Results
from faircil.reproduction.measurement_plots.lp_time import draw_times
from faircil.reproduction.measurements.lp_fit import Fit, fit_power
from faircil.reproduction.measurements.lp_time import SOLVERS, LpTimes, SolveTimes
from faircil.reproduction.measurements.statements import (
    Statement,
    look_up,
    not_run,
    page_of,
    sentence,
    written,
)
from faircil.reproduction.measurements.without_runs import WithoutRuns
from faircil.reproduction.page import Grid, Page, Picture, Section, Verdict
from faircil.reproduction.published import Value, published

NAMES = {"exact": "ours (exact)", "highs": "HiGHS", "cplex": "CPLEX"}
FEWEST = 3  # sizes that a slope takes; CPLEX without a licence solves the smallest only
SAYS = "Exponent of the time against the samples, {}"
ABOUT = (
    "Programs of the second task of MNIST (EER) after its first epoch, on random parts of it: "
    "three of each size, α = 12/n, one thread, the median of five solves. The exponent is the "
    "slope of a straight line through the logarithms, with its 95 % interval. The published one is "
    "of CPLEX; a smaller one is better."
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
        return page_of(_answer(fits), statements, ABOUT, command, _section(fits, times))


def _published() -> Value:
    value = published("lp-time").value("mnist eer", "cplex", "exponent")
    assert value is not None
    return value


def _not_run(solver: str, problem: str) -> Statement:
    return not_run(SAYS.format(NAMES[solver]), problem, str(_published()))


def _note(solver: str, times: SolveTimes) -> str:
    """Say why a solver has no times."""
    own = [note for note in times.notes if note.startswith(f"{solver}: ")]
    return own[0].removeprefix(f"{solver}: ") if own else "it was not measured"


def _compare(solver: str, fit: Fit) -> Statement:
    paper, (low, high) = _published(), (fit.exponent.low, fit.exponent.high)
    assert low is not None
    assert high is not None
    if low - paper.rounding <= paper.mean <= high + paper.rounding:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.BETTER if high < paper.mean else Verdict.WORSE
    return Statement(SAYS.format(NAMES[solver]), str(paper), written(fit.exponent, 3), verdict)


def _answer(fits: Mapping[str, Fit]) -> str:
    largest = max(max(fit.sizes) for fit in fits.values())
    parts = [
        f"{NAMES[solver]} n^{fit.exponent.mean:.2f}, {written_seconds(_median(fit, largest))} at "
        f"{largest:,} samples"
        for solver, fit in fits.items()
    ]
    return f"The time grows as {'; '.join(parts)}. Published: CPLEX n^{_published()}."


def _median(fit: Fit, size: int) -> float:
    return median(s for n, s in zip(fit.sizes, fit.seconds, strict=True) if n == size)


def _section(fits: Mapping[str, Fit], times: SolveTimes) -> Section:
    sizes = sorted({n for fit in fits.values() for n in fit.sizes})
    rows = tuple(
        (NAMES[solver], *(written_seconds(_median(fit, size)) for size in sizes))
        for solver, fit in fits.items()
    )
    busy = [note for note in times.notes if not note.startswith(SOLVERS)]

    def draw(path: Path, fits: Mapping[str, Fit]) -> None:
        write_png(draw_times({NAMES[solver]: fit for solver, fit in fits.items()}), path)

    return Section(
        "Times",
        " ".join([f"Machine: {times.machine}.", *(f"{note}." for note in busy)]),
        Grid(("solver", *(f"n = {size:,}" for size in sizes)), rows),
        Picture(
            "lp-time.png",
            "Seconds for one program against the samples of the task. The dashed line has the "
            "published exponent and goes through the published mean of a run of Biased MNIST.",
            partial(draw, fits=fits),
        ),
    )
