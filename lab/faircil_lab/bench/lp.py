"""Time of the solvers on weighting programs, against the number of columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from faircil.errors import SolverError
from faircil.weighting.choice import WHOLE
from faircil.weighting.solver import Solution
from faircil_lab.bench.lp_programs import NamedProgram, SolverCase, resized
from faircil_lab.bench.measuring import Circumstances, Growth, exponent, seconds_of
from faircil_lab.wording import seconds_text


@dataclass(frozen=True)
class LpOptions:
    """How to measure.

    Parameters
    ----------
    sizes : tuple of int
        Columns to bring every program to; empty: each at its own size.
    repeats : int
        Timed solves of each program by each solver.
    limit : float
        Seconds; a solver that would take longer for one solve is left out.
    threads : int
        Of the linear algebra.
    """

    sizes: tuple[int, ...] = ()
    repeats: int = 5
    limit: float = 60.0
    threads: int = 1


@dataclass(frozen=True)
class SolverTiming:
    """One solver on one program.

    Parameters
    ----------
    size : int or None
        Columns asked for; None: the program's own.
    program, solver : str
    n, gap_rows, floor_rows : int
        Columns and rows of the program.
    seconds : tuple of float
        Of every timed solve.
    objective, bound : float
        Recomputed from the weights and the dual that the solver returned.
    violation : float
        Largest amount by which a floor is broken.
    passes : int or None
        How often all columns were read, where the solver counts it.
    fractional : int
        Weights strictly between 0 and 1.
    status : str
        How the solver ended, in words.
    """

    size: int | None
    program: str
    solver: str
    n: int
    gap_rows: int
    floor_rows: int
    seconds: tuple[float, ...]
    objective: float
    bound: float
    violation: float
    passes: int | None
    fractional: int
    status: str

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return median(self.seconds)

    @property
    def gap(self) -> float:
        """Distance to the proven bound, relative to the objective."""
        return (self.objective - self.bound) / (1 + abs(self.objective))


@dataclass(frozen=True)
class Skipped:
    """A solver that was not measured at a size (None: own), or on one program of it, and why."""

    size: int | None
    program: str | None
    solver: str
    why: str


@dataclass(frozen=True)
class LpResults(Circumstances):
    """A benchmark of solvers.

    Parameters
    ----------
    outcomes : tuple of SolverTiming and Skipped
        In the order in which they came.
    options : LpOptions
    """

    outcomes: tuple[SolverTiming | Skipped, ...]
    options: LpOptions

    @property
    def measurements(self) -> tuple[SolverTiming, ...]:
        """What was measured."""
        return tuple(o for o in self.outcomes if isinstance(o, SolverTiming))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was not."""
        return tuple(o for o in self.outcomes if isinstance(o, Skipped))


ASSUMED = 1.7  # exponent where only one size is known: that of the simplex method on these programs
LOWEST = 1.0  # no solver gets by without reading all columns


class Pace:
    """What solvers took so far, and whether they would pass the limit.

    Parameters
    ----------
    limit : float
        Seconds for one solve.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._slowest: dict[str, dict[int, float]] = {}

    def note(self, solver: str, n: int, seconds: float) -> None:
        """Take note of a solve; of those at one size the slowest counts."""
        known = self._slowest.setdefault(solver, {})
        known[n] = max(seconds, known.get(n, 0.0))

    def too_slow(self, solver: str, n: int) -> str | None:
        """Say why the solver is left out at size ``n``; None if it is not, or if nothing is known.

        Its growth is that between the two largest sizes so far.
        """
        known = sorted(self._slowest.get(solver, {}).items())[-2:]
        if not known:
            return None
        last, seconds = known[-1]
        fitted = exponent(*zip(*known, strict=True))
        growth = Growth(last, seconds, ASSUMED if fitted is None else max(fitted, LOWEST))
        predicted = growth.at(n)
        if predicted <= self._limit:
            return None
        return (
            f"predicted {seconds_text(predicted)} for one solve, more than the limit of "
            f"{self._limit:g} s, from {seconds_text(seconds)} at n = {last:,} and growth "
            f"n^{growth.exponent:.2f}{' (assumed)' if fitted is None else ''}"
        )


SLOW = 1.0  # seconds: what a solve of this length starts up is nothing against it


def measure(
    programs: Sequence[NamedProgram], cases: Sequence[SolverCase], options: LpOptions
) -> Iterator[SolverTiming | Skipped]:
    """Measure every solver on every program, from the smallest size to the largest.

    Parameters
    ----------
    programs : sequence of NamedProgram
    cases : sequence of SolverCase
    options : LpOptions

    Yields
    ------
    SolverTiming or Skipped
        As they come, so that what is measured is not lost when the rest is interrupted.
    """
    pace = Pace(options.limit)
    with threadpool_limits(options.threads, user_api="blas"):
        for size in _sizes(options):
            running = []
            for case in cases:
                why = None if size is None else pace.too_slow(case.name, size)
                if why is None:
                    running.append(case)
                else:
                    yield Skipped(size, None, case.name, why)
            for position, named in enumerate(programs if running else ()):
                program = named.program
                if size is not None and size != len(program):
                    program = resized(program, size, seed=position)
                for outcome in _compare(NamedProgram(named.name, program), size, running, options):
                    if isinstance(outcome, SolverTiming):
                        pace.note(outcome.solver, outcome.n, outcome.median)
                    yield outcome


def _sizes(options: LpOptions) -> Sequence[int | None]:
    return sorted(set(options.sizes)) or [None]


def _compare(
    named: NamedProgram, size: int | None, cases: Sequence[SolverCase], options: LpOptions
) -> Iterator[SolverTiming | Skipped]:
    """Solve once to warm up and to check the solution, then time the solvers in turns."""
    solvers: dict[str, Callable[[], Solution]] = {}
    solutions: dict[str, Solution] = {}
    seconds: dict[str, list[float]] = {}
    for case in cases:
        try:
            solve = partial(case.solve, case.prepare(named.program))
            start = time.perf_counter()
            solutions[case.name] = solve()
            first = time.perf_counter() - start
        except SolverError as error:
            yield Skipped(size, named.name, case.name, str(error))
        else:
            seconds[case.name] = [first] if first > min(SLOW, options.limit) else []
            if first <= options.limit:
                solvers[case.name] = solve
    for _ in range(options.repeats):
        for solver, again in solvers.items():
            if len(seconds[solver]) < options.repeats:
                seconds[solver].append(seconds_of(again))
    for solver, solution in solutions.items():
        yield _measurement(named, size, solver, seconds[solver], solution)


def _measurement(
    named: NamedProgram, size: int | None, solver: str, seconds: Sequence[float], solution: Solution
) -> SolverTiming:
    program, weights = named.program, solution.weights
    return SolverTiming(
        size=size,
        program=named.name,
        solver=solver,
        n=len(program),
        gap_rows=len(program.gap_rows),
        floor_rows=len(program.floor_rows),
        seconds=tuple(seconds),
        objective=program.objective(weights),
        bound=program.bound(solution.dual),
        violation=program.violation(weights),
        passes=solution.passes,
        fractional=int(np.count_nonzero((weights > WHOLE) & (weights < 1 - WHOLE))),
        status=solution.status,
    )
