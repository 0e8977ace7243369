"""The solver that ``auto`` takes: exact, with a proof, and HiGHS where it fails."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from faircil.weighting.program import WeightProgram
from faircil.weighting.solver.ascent import StuckError
from faircil.weighting.solver.bands import solve_columns
from faircil.weighting.solver.columns import HostColumns
from faircil.weighting.solver.highs import solve_with_highs, solve_with_ipm
from faircil.weighting.solver.solution import PROOF, Solution, certify

PERTURBATION = 0.1 * PROOF  # of all costs together
MANY = 20_000  # columns from which on HiGHS' interior point is faster than its simplex


def solve_exactly(program: WeightProgram) -> Solution:
    """Solve to the vertex and prove it; HiGHS where that fails, with the reason in ``status``."""
    start = time.perf_counter()
    try:
        solution = _attempt(program)
    except StuckError:
        try:
            solution = _perturbed(program)
        except StuckError as reason:
            general = solve_with_highs if len(program) <= MANY else solve_with_ipm
            solution = general(program)
            status = f"{solution.status}, since the own solver failed: {reason}"
            solution = replace(solution, status=status)
    return replace(solution, seconds=time.perf_counter() - start)


def _attempt(program: WeightProgram) -> Solution:
    columns = HostColumns(program.gap_rows, program.floor_rows, program.cost)
    return solve_columns(columns, program.offsets, len(program.gap_offsets))


def _perturbed(program: WeightProgram) -> Solution:
    """Solve with costs that differ by less than a proof allows: ties are no longer ties.

    Where cost and rows let all reduced costs vanish at once (the cost is a sum of floor rows, so no
    gap and a price λ on every floor do it), an ascent can go round in circles.
    """
    n = len(program)
    noise = np.random.default_rng(0).uniform(0.5, 1.0, n)
    noise *= PERTURBATION / n
    rough = _attempt(replace(program, cost=program.cost + noise))
    solution = certify(program, rough.weights, rough.dual, f"{rough.status}, ties broken", 0.0)
    if solution.gap > PROOF * (1 + abs(solution.objective)):
        raise StuckError(f"a gap of {solution.gap:.1e} is left")
    return replace(solution, passes=(rough.passes or 0) + 2)  # objective and bound read them, too
