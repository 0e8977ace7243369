"""HiGHS, given its arrays directly.

An absolute value splits into two nonnegative parts, ``o − R w = p − q`` with cost ``p + q``, so the
program has K + m rows, whatever the number of samples:

    minimise  cost·w + 1·p + 1·q
    R w + p − q = o,   F w ≤ f,   0 ≤ w ≤ 1,   p, q ≥ 0
"""

from __future__ import annotations

import time

import highspy
import numpy as np

from faircil.errors import SolverError
from faircil.weighting.groups import Floats
from faircil.weighting.program import Dual, WeightProgram
from faircil.weighting.solver.solution import Solution, certify

TOLERANCE = 1e-9  # of the scaled program, whose entries are at most 1
LARGEST_OFFSET = 1e7  # after scaling: noise blown up to 1 would take its offset beyond HiGHS' reach
TINY = 1e-100  # a row without larger numbers counts as zero


def solve_with_highs(program: WeightProgram) -> Solution:
    """Solve by HiGHS' dual simplex; the result is a vertex."""
    start = time.perf_counter()
    k, n = program.gap_rows.shape
    # Rows to largest entry 1 and costs likewise: HiGHS' tolerances are absolute, α is not.
    gap_scale = _row_scale(program.gap_rows, program.gap_offsets)
    floor_scale = _row_scale(program.floor_rows, program.floor_offsets)
    slack_cost = 1 / gap_scale
    cost_scale = 1 / max(np.abs(program.cost).max(initial=0.0), slack_cost.max(initial=0.0), 1e-300)
    columns = np.vstack(
        [program.gap_rows * gap_scale[:, None], program.floor_rows * floor_scale[:, None]]
    )
    offsets = np.concatenate([program.gap_offsets * gap_scale, program.floor_offsets * floor_scale])
    lower = offsets.copy()
    lower[k:] = -highspy.kHighsInf
    cost = np.concatenate([program.cost, slack_cost, slack_cost]) * cost_scale
    upper = np.concatenate([np.ones(n), np.full(2 * k, highspy.kHighsInf)])
    weights, row_dual = _run(columns, k, cost, upper, lower, offsets)
    # Rows and costs were scaled, so duals go back by row scale over cost scale.
    dual = Dual(row_dual[:k] * gap_scale / cost_scale, -row_dual[k:] * floor_scale / cost_scale)
    seconds = time.perf_counter() - start
    return certify(program, weights, dual, "optimal (HiGHS dual simplex)", seconds)


def _row_scale(rows: Floats, offsets: Floats) -> Floats:
    """One over the largest entry of each row; less for a row of rounding noise, 1 for zeros."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    size = np.maximum(largest, np.abs(offsets) / LARGEST_OFFSET)
    return 1 / np.where(size > TINY, size, 1.0)


def _run(
    columns: Floats, k: int, cost: Floats, upper: Floats, lower: Floats, offsets: Floats
) -> tuple[Floats, Floats]:
    """Hand the arrays to HiGHS; return the weights and the row duals."""
    rows, n = columns.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + 2 * k, rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(n + 2 * k), upper
    lp.row_lower_, lp.row_upper_ = lower, offsets
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    # Columns of w are dense; p and q have one entry each, +1 and −1 in their gap row.
    lp.a_matrix_.start_ = np.concatenate(
        [np.arange(n) * rows, n * rows + np.arange(2 * k + 1)]
    ).astype(np.int32)
    gap = np.arange(k)
    lp.a_matrix_.index_ = np.concatenate([np.tile(np.arange(rows), n), gap, gap]).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate([columns.T.ravel(), np.ones(k), -np.ones(k)])
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("parallel", "off"),
        ("solver", "simplex"),
        ("presolve", "off"),  # dense columns: there is nothing to find
        ("simplex_scale_strategy", 0),  # scaled above
        ("small_matrix_value", 1e-12),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(
            f"HiGHS ended with '{solver.modelStatusToString(status)}' on a program of {n} weights "
            f"and {rows} rows; with floor_offsets ≥ 0 every program has a solution: check these"
        )
    solution = solver.getSolution()
    return np.array(solution.col_value)[:n], np.array(solution.row_dual)
