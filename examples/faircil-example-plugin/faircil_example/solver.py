"""A solver: the program as scipy takes it."""

import time

import numpy as np
from scipy.optimize import linprog

from faircil.errors import SolverError
from faircil.weighting.program import Dual, Solution, WeightProgram, certify


def solve_with_scipy(program: WeightProgram) -> Solution:
    """Solve by dual simplex of SciPy's linprog.

    Variables are the weights w and the gaps t: minimise ``cost·w + Σ t`` under
    ``±(offsets − rows w) ≤ t``, the floors, and ``0 ≤ w ≤ 1``.
    """
    start = time.perf_counter()
    k, n = program.gap_rows.shape
    largest = max(np.abs(a).max(initial=0) for a in (program.gap_rows, program.floor_rows))
    unit = largest or 1.0  # scipy ignores matrix entries below 1e-9
    gaps, floors = program.gap_rows / unit, program.floor_rows / unit
    offsets, floor_offsets = program.gap_offsets / unit, program.floor_offsets / unit
    result = linprog(
        np.concatenate([program.cost / unit, np.ones(k)]),
        A_ub=np.block(
            [[-gaps, -np.eye(k)], [gaps, -np.eye(k)], [floors, np.zeros((len(floors), k))]]
        ),
        b_ub=np.concatenate([-offsets, offsets, floor_offsets]),
        bounds=[(0, 1)] * n + [(0, None)] * k,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise SolverError(f"scipy found no optimum of {n} weights: {result.message}")
    prices = -result.ineqlin.marginals
    dual = Dual(gap=prices[:k] - prices[k : 2 * k], floor=prices[2 * k :])
    return certify(program, result.x[:n], dual, "optimal (scipy)", time.perf_counter() - start)
