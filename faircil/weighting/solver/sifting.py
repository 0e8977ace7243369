"""Solve the weighting program on the few columns that matter, and prove it on all of them.

The program has few rows, so at an optimum almost every weight is 0 or 1 by the sign of its reduced
cost. A sample of the columns gives a good dual; columns whose reduced cost it puts far from zero
are fixed by sign, and HiGHS solves for the band around zero. Its dual prices all columns: those
that were fixed on the wrong side join the band, until there is none. Then the weights are optimal,
and the bound proves it.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from faircil.errors import SolverError
from faircil.weighting.groups import Floats
from faircil.weighting.program import Dual, WeightProgram
from faircil.weighting.solver.highs import solve_with_highs
from faircil.weighting.solver.solution import Solution, certify

SAMPLE = 1500  # columns of the first, rough program
GAP = 1e-9  # relative distance to the bound that counts as proof
ROUNDS = 20


def solve_by_sifting(program: WeightProgram) -> Solution:
    """Solve exactly; falls back to HiGHS on the whole program, and says so in ``status``."""
    start = time.perf_counter()
    n = len(program)
    if n <= 3 * SAMPLE:
        return solve_with_highs(program)
    rows = np.random.default_rng(0).choice(n, SAMPLE, replace=False)
    # The sample's dual is off by about 1/√SAMPLE in rank, so this band holds most of what is open.
    band = 4 * int(n / np.sqrt(SAMPLE))
    try:
        dual = solve_with_highs(program.columns(rows, scale=n / SAMPLE)).dual
        found = _narrow(program, dual, band)
    except SolverError:  # a floor that only columns outside the sample can keep
        found = None
    if found is None:
        solution = solve_with_highs(program)
        status = f"{solution.status}, on all columns since sifting did not end"
        return replace(solution, status=status, seconds=time.perf_counter() - start)
    weights, dual = found
    seconds = time.perf_counter() - start
    return certify(program, weights, dual, "optimal (sifting, HiGHS dual simplex)", seconds)


def _narrow(program: WeightProgram, dual: Dual, band: int) -> tuple[Floats, Dual] | None:
    """Fix columns by sign, solve the rest, price all; None if that does not end in a proof."""
    reduced = program.reduced_cost(dual)
    free = _closest_to_zero(reduced, band)
    for _ in range(ROUNDS):
        fixed = np.where(free, 0.0, reduced < 0)
        inside = np.flatnonzero(free)
        try:
            solution = solve_with_highs(program.without(fixed).columns(inside))
        except SolverError:  # what is fixed at 1 breaks a floor: the band is too narrow
            band *= 4
            if band >= len(program):
                return None
            free |= _closest_to_zero(reduced, band)
            continue
        weights = fixed
        weights[inside] = solution.weights
        objective = program.objective(weights)
        if objective - program.bound(solution.dual) <= GAP * (1 + abs(objective)):
            return weights, solution.dual
        before, reduced = reduced, program.reduced_cost(solution.dual)
        wrong = ~free & ((before < 0) != (reduced < 0))
        if not wrong.any():
            return None
        free |= wrong
    return None


def _closest_to_zero(reduced: Floats, size: int) -> NDArray[np.bool_]:
    """Mark the ``size`` columns whose sign is least certain."""
    mask = np.zeros(len(reduced), dtype=bool)
    mask[np.argpartition(np.abs(reduced), size)[:size]] = True
    return mask
