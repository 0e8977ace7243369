"""Measure solvers on weighting programs: all in one process, in turns, size after size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from faircil.bench.lp.cases import Case
from faircil.bench.lp.pace import Pace
from faircil.bench.lp.programs import NamedProgram, resized
from faircil.bench.lp.record import LpOptions, Measurement, Skipped
from faircil.bench.timing import seconds_of
from faircil.errors import SolverError
from faircil.weighting.result import WHOLE
from faircil.weighting.solver import Solution

SLOW = 1.0  # seconds: what a solve of this length starts up is nothing against it


def measure(
    programs: Sequence[NamedProgram], cases: Sequence[Case], options: LpOptions
) -> Iterator[Measurement | Skipped]:
    """Measure every solver on every program, from the smallest size to the largest.

    Parameters
    ----------
    programs : sequence of NamedProgram
    cases : sequence of Case
    options : LpOptions

    Yields
    ------
    Measurement or Skipped
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
                    if isinstance(outcome, Measurement):
                        pace.note(outcome.solver, outcome.n, outcome.median)
                    yield outcome


def _sizes(options: LpOptions) -> Sequence[int | None]:
    return sorted(set(options.sizes)) or [None]


def _compare(
    named: NamedProgram, size: int | None, cases: Sequence[Case], options: LpOptions
) -> Iterator[Measurement | Skipped]:
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
) -> Measurement:
    program, weights = named.program, solution.weights
    return Measurement(
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
