"""Ascent on the dual of the weighting program, with one dimension per row and exact line searches.

With prices p (y of the gaps, then μ of the floors), columns a_i (gap rows, then floor rows negated)
and offsets b (likewise) the dual is concave and piecewise linear in R = K + m dimensions:

    maximise  b·p + Σ_i min(0, r_i),   r_i = c_i − a_i·p,   −1 ≤ y ≤ 1,  0 ≤ μ

Where all r_i ≠ 0 its gradient is ``v = b − Σ_{r_i<0} a_i``: the residual of the offsets if the
negative columns have weight 1. Some columns are *active*, held at r_i = 0; some prices are
*clamped*, held at a limit. One step is

1. the direction: v minus its projection onto the span of the active columns. The least-squares
   coefficients of the projection are the weights of the active columns;
2. if the direction is zero, either these weights are in [0, 1] and no clamped price is pushed
   inwards, so the weights are optimal; or the worst violator is released, giving a direction;
3. the line search to the maximum along the direction: every column whose r passes zero on the way
   subtracts |a_i·d| from the slope, for any number of columns (a simplex step ends at the first).
   When the slope would become negative, that column becomes active, or a price that reaches its
   limit is clamped.

A new active column is not orthogonal to the direction, while the others are, so the active
columns stay linearly independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgels

from faircil.errors import SolverError
from faircil.weighting.groups import Floats, Integers

ROUNDING = 1e-12  # relative to the sum of magnitudes: what counts as zero in a gradient
TINY = 1e-200  # below this, products underflow: such a row counts as zero
OUTSIDE = 1e-9  # how far a weight may be outside [0, 1] before its column is released
SORTED = 256  # breakpoints sorted initially; the search rarely needs more


@dataclass(frozen=True)
class Limits:
    """Bounds of the prices, shape (R,) each."""

    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Vertex:
    """The result of an ascent with N columns and R rows.

    Parameters
    ----------
    prices : ndarray, shape (R,)
    weights : ndarray, shape (N,)
        Optimal for these columns.
    active : ndarray of int64
        Columns with a weight between 0 and 1.
    steps : int
    """

    prices: Floats
    weights: Floats
    active: Integers
    steps: int


class StuckError(SolverError):
    """The ascent did not terminate: rounding errors, or an infeasible program."""


def ascend(
    columns: Floats,
    cost: Floats,
    offsets: Floats,
    limits: Limits,
    prices: Floats,
    active: Integers | None = None,
) -> Vertex:
    """Maximise the dual.

    Parameters
    ----------
    columns : ndarray, shape (R, N)
        Gap rows, then floor rows negated.
    cost : ndarray, shape (N,)
    offsets : ndarray, shape (R,)
        Offsets of the gaps, then of the floors negated.
    limits : Limits
        Finite bounds of the prices.
    prices : ndarray, shape (R,)
        Starting point.
    active : ndarray of int64, optional
        Columns with reduced cost 0 at the start.
    """
    # Rows are scaled to equal size: gradients in different units are not comparable.
    size = row_size(columns)
    scale = 1 / np.where(size > 0, size, 1.0)
    climb = _Climb(
        columns * scale[:, None],
        cost,
        offsets * scale,
        Limits(limits.lower / scale, limits.upper / scale),
        np.clip(prices, limits.lower, limits.upper) / scale,
        [] if active is None else active.tolist(),
    )
    weights = climb.run()
    # A clamped price must equal its limit exactly, which scaling back may miss.
    limit = np.where(climb.prices >= climb.limits.upper, limits.upper, limits.lower)
    final = np.where(climb.clamped, limit, climb.prices * scale)
    return Vertex(final, weights, np.array(climb.active, dtype=np.int64), climb.steps)


def row_size(rows: Floats) -> Floats:
    """Return the root mean square of each row, (R,)."""
    size: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows) / max(rows.shape[1], 1))
    return size


class _Climb:
    """The state of an ascent: prices, reduced costs, gradient, active columns, clamped prices."""

    def __init__(
        self,
        columns: Floats,
        cost: Floats,
        offsets: Floats,
        limits: Limits,
        prices: Floats,
        active: list[int],
    ) -> None:
        self.columns, self.limits = columns, limits
        self.prices, self.active, self.steps = prices, active, 0
        self.stalled = 0  # consecutive steps of length 0, which occur at degenerate points
        self.reduced = cost - prices @ columns
        # Side of zero: −1 has weight 1, 1 has weight 0; an active column counts as weight 0.
        self.side = np.where(self.reduced < 0, -1.0, 1.0)
        self.side[active] = 1.0
        self.reduced[active] = np.inf  # never crosses zero
        self.gradient = offsets - columns @ (self.side < 0)
        self.zero = TINY + ROUNDING * (np.abs(columns).sum(axis=1) + np.abs(offsets))
        pushed_down = (prices <= limits.lower) & (self.gradient <= 0)
        pushed_up = (prices >= limits.upper) & (self.gradient >= 0)
        self.clamped: NDArray[np.bool_] = pushed_down | pushed_up

    def run(self) -> Floats:
        """Step until no improvement is possible; return the weights."""
        limit = 200 + 50 * len(self.prices)
        while self.steps < limit and self.stalled < 20 + 2 * len(self.prices):
            self.steps += 1
            free, direction, weights = self._project()
            if (np.abs(direction) <= self.zero[free]).all():
                if not self._let_go(weights):
                    return self._weights(weights)
                free, direction, _ = self._project()
                if (np.abs(direction) <= TINY).all():
                    raise StuckError("what was let go has nowhere to go")
            self._move(free, direction)
        raise StuckError(f"no end after {self.steps} steps, {self.stalled} of them without gain")

    def _project(self) -> tuple[Integers, Floats, Floats]:
        """Return the free prices, the direction there, and the weights of the active columns."""
        free = np.flatnonzero(~self.clamped)
        gradient = self.gradient[free]
        count = len(self.active)
        if not count:
            return free, gradient, gradient[:0]
        if count > len(free):
            raise StuckError("the active columns depend on each other")
        matrix = self.columns[:, self.active][free]
        _, solution, failed = dgels(matrix, gradient)
        if failed:
            raise StuckError("the active columns depend on each other")
        weights = solution[:count]
        return free, gradient - matrix @ weights, weights

    def _let_go(self, weights: Floats) -> bool:
        """Release the column or price with the largest violation; False if there is none."""
        if self.active:
            over = np.maximum(weights - 1, -weights)
            worst = int(over.argmax())
            if over[worst] > OUTSIDE:
                column = self.active.pop(worst)
                self.reduced[column] = 0.0
                if weights[worst] > 0:
                    self._flip(np.array([column]))
                return True
        gradient = self.gradient - self.columns[:, self.active] @ weights
        at_upper = self.prices >= self.limits.upper
        inwards = np.where(at_upper, -gradient, gradient) - self.zero
        inwards[~self.clamped] = -1.0
        if len(inwards) == 0 or inwards.max() <= 0:
            return False
        self.clamped[inwards.argmax()] = False
        return True

    def _move(self, free: Integers, along: Floats) -> None:
        """Move to the maximum along a direction in the free prices."""
        direction = np.zeros_like(self.prices)
        direction[free] = along = np.where(np.abs(along) <= TINY, 0.0, along)
        limit = np.where(along > 0, self.limits.upper[free], self.limits.lower[free])
        way = (limit - self.prices[free]) / np.where(along == 0, np.nan, along)
        first = int(np.nanargmin(way))
        step = float(way[first])
        change = direction @ self.columns
        passed, stop, step = self._search(change, float(along @ along), step)
        self.stalled = 0 if step > 0 else self.stalled + 1
        self.prices += step * direction
        self.reduced -= step * change
        self._flip(passed)
        if stop < 0:
            price = free[first]
            self.prices[price] = limit[first]
            self.clamped[price] = True
            return
        if self.side[stop] < 0:
            self._flip(np.array([stop]))
        self.active.append(stop)
        self.reduced[stop] = np.inf

    def _search(self, change: Floats, slope: float, step: float) -> tuple[Integers, int, float]:
        """Return the columns that cross zero, the one that ends the search or −1, and the step."""
        rate = change * self.side
        away = np.abs(self.reduced)
        near = np.flatnonzero((rate * step >= away) & (rate > 0))
        rate = rate[near]
        time = away[near] / rate
        if len(near) > 2 * SORTED:
            few = np.argpartition(time, SORTED)[:SORTED]
            if rate[few].sum() >= slope:
                near, time, rate = near[few], time[few], rate[few]
        order = time.argsort()
        place = int(np.cumsum(rate[order]).searchsorted(slope))
        if place == len(order):
            return near, -1, step
        stop = order[place]
        return near[order[:place]], int(near[stop]), float(time[stop])

    def _flip(self, passed: Integers) -> None:
        """Move columns to the other side of zero."""
        if len(passed):
            self.gradient -= self.columns[:, passed] @ self.side[passed]
            self.side[passed] *= -1.0

    def _weights(self, active: Floats) -> Floats:
        weights = np.where(self.side < 0, 1.0, 0.0)
        weights[self.active] = np.clip(active, 0.0, 1.0)
        return weights
