"""The weighting program in standard form for general LP solvers, scaled.

An absolute value splits into two nonnegative parts, ``o − R w = p − q`` with cost ``p + q``, so the
program has K + m rows, whatever the number of samples:

    minimise  cost·w + 1·p + 1·q
    R w + p − q = o,   F w ≤ f,   0 ≤ w ≤ 1,   p, q ≥ 0

Rows with a fixed sign are eliminated: a floor that always holds is dropped, and a gap with constant
sign s is linear, ``|o − R w| = s (o − R w)``, so its row is added to the costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from faircil.errors import SolverError, shortened
from faircil.weighting.groups import Floats
from faircil.weighting.program import PROOF, Dual, Solution, WeightProgram, certify

TOLERANCE = 1e-9  # for the scaled program, whose entries are at most 1
FACTORS = (1.0, 1e3, 1e6, 1e9, 1e12)  # factors of the costs, tried until optimality is proven
TINY = 1e-100  # a row whose entries are all smaller counts as zero
MOST_ENTRIES = 2**31 - 1  # limit of 32-bit indices


@dataclass(frozen=True)
class StandardForm:
    """Minimise ``cost · x`` with ``0 ≤ x ≤ upper``; x holds w, then p, then q.

    With n weights, K' open gap rows and R' open rows in all:

    Parameters
    ----------
    program : WeightProgram
    sign : ndarray, shape (K,)
        ±1 for a gap with constant sign, 0 for an open one.
    still_open : ndarray of bool, shape (K + m,)
        The rows of the program that remain.
    cost, upper : ndarray, shape (n + 2K',)
    offsets : ndarray, shape (R',)
        Right-hand sides: equalities for the first K' rows, upper bounds for the others.
    starts : ndarray of int32, shape (n + 2K' + 1,)
        Where each column begins in ``index`` and ``values``, and where the last one ends.
    index, values : ndarray, shape (entries,)
        Row and value of each entry, column by column.
    row_scale : ndarray, shape (R',)
    cost_scale : float
    """

    program: WeightProgram
    sign: Floats
    still_open: NDArray[np.bool_]
    cost: Floats
    upper: Floats
    offsets: Floats
    starts: NDArray[np.int32]
    index: NDArray[np.int32]
    values: Floats
    row_scale: Floats
    cost_scale: float

    @property
    def equations(self) -> int:
        """K', the number of open gap rows."""
        return int(self.still_open[: len(self.sign)].sum())

    def prices(self, row_dual: Floats, factor: float = 1.0) -> Dual:
        """Convert row duals of this form, (R',), with costs times ``factor``, to a dual."""
        # Rows and costs were scaled, so duals are multiplied by row scale over cost scale. Solvers
        # return the change of the optimum per offset, which is not positive for a floor.
        prices = np.zeros(len(self.still_open))
        prices[self.still_open] = row_dual * self.row_scale / self.cost_scale / factor
        k = len(self.sign)
        return Dual(self.sign + prices[:k], -prices[k:])


# A solver with a loaded form maps costs, (n + 2K',), to column values and row duals. It raises
# SolverError if it finds no optimum, and may warm-start from its last run.
Engine = Callable[[Floats], tuple[Floats, Floats]]


def standard_form(program: WeightProgram) -> StandardForm:
    """Convert a program, with the largest entry of every row and of the costs scaled to 1.

    Solvers have absolute tolerances, while α scales the numbers.
    """
    n = len(program)
    sign, still_open = _settle(program)
    rows = np.vstack([program.gap_rows, program.floor_rows])[still_open]
    offsets = np.concatenate([program.gap_offsets, program.floor_offsets])[still_open]
    k = int(still_open[: len(sign)].sum())
    if rows.size + 2 * k > MOST_ENTRIES:
        raise SolverError(
            f"a program of {n} weights and {len(rows)} rows has {rows.size} entries, expected at "
            f"most {MOST_ENTRIES}: use fewer samples, or `granularity=group`"
        )
    largest = np.abs(rows).max(axis=1, initial=0.0)
    row_scale = 1 / np.where(largest > TINY, largest, 1.0)
    part_cost = 1 / row_scale[:k]
    cost = np.concatenate([program.cost - sign @ program.gap_rows, part_cost, part_cost])
    cost_scale = 1 / max(float(np.abs(cost).max(initial=0.0)), 1e-300)
    gap = np.arange(k)
    return StandardForm(
        program,
        sign,
        still_open,
        cost=cost * cost_scale,
        upper=np.concatenate([np.ones(n), np.full(2 * k, np.inf)]),
        offsets=offsets * row_scale,
        # Columns of w are dense; p and q have one entry each, +1 and −1 in their gap row.
        starts=np.concatenate(
            [np.arange(n) * len(rows), rows.size + np.arange(2 * k + 1)], dtype=np.int32
        ),
        index=np.concatenate([np.tile(np.arange(len(rows)), n), gap, gap], dtype=np.int32),
        values=np.concatenate(
            [np.multiply(rows.T, row_scale, order="C").ravel(), np.ones(k), -np.ones(k)]
        ),
        row_scale=row_scale,
        cost_scale=cost_scale,
    )


def _settle(program: WeightProgram) -> tuple[Floats, NDArray[np.bool_]]:
    """Return signs of gaps with constant sign, (K,), else 0, and the open rows, (K + m,)."""
    # The sums of a row's negative and positive entries bound its range.
    low = np.minimum(program.gap_rows, 0).sum(axis=1)
    high = np.maximum(program.gap_rows, 0).sum(axis=1)
    above, below = program.gap_offsets >= high, program.gap_offsets <= low
    sign = np.where(above, 1.0, np.where(below, -1.0, 0.0))
    binding = program.floor_offsets < np.maximum(program.floor_rows, 0).sum(axis=1)
    return sign, np.concatenate([sign == 0, binding])


def solve_to_proof(
    program: WeightProgram, load: Callable[[StandardForm], Engine], words: str
) -> Solution:
    """Solve by an engine that returns a vertex, until its dual proves optimality.

    If some rows have large numbers, the costs of others can be below an absolute tolerance. Without
    a proof, the engine therefore continues from its vertex with the costs times 1000, repeatedly.

    Parameters
    ----------
    program : WeightProgram
    load : callable
        Loads the form into the solver.
    words : str
        Name of the solver, for ``status``.
    """
    start = time.perf_counter()
    form = standard_form(program)
    run = load(form)
    found: Solution | None = None
    for factor in FACTORS:
        try:
            values, row_dual = run(form.cost * factor)
        except SolverError:
            if found is None:
                raise
            break
        prices = form.prices(row_dual, factor)
        now = certify(program, values[: len(program)], prices, f"optimal ({words})", 0.0)
        found = now if found is None or now.gap < found.gap else found
        if found.gap <= PROOF * (1 + abs(found.objective)):
            return replace(found, seconds=time.perf_counter() - start)
    assert found is not None  # the first run raises or returns
    status = f"within {found.gap:.1e} of the optimum ({words})"
    return replace(found, status=status, seconds=time.perf_counter() - start)


def no_optimum(solver: str, ending: str, program: WeightProgram) -> SolverError:
    """Return the error for an unsolved program, naming floors that may be the cause."""
    rows = len(program.gap_offsets) + len(program.floor_offsets)
    negative = [
        f"floor_offsets[{row}] = {program.floor_offsets[row]:.6g}"
        for row in np.flatnonzero(program.floor_offsets < 0)
    ]
    advice = "they are, so its numbers may be too far apart"
    if negative:
        advice = f"check {shortened(negative)}"
    return SolverError(
        f"{solver} ended with '{ending}' on a program of {len(program)} weights and {rows} rows; "
        f"with floor_offsets ≥ 0 every program has a solution: {advice}"
    )
