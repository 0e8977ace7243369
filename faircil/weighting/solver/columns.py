"""All columns of a program, read in one pass at a time.

A pass prices every column and, while it is in cache, adds up what the weights of its columns
contribute: the matrix is read once for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from faircil.weighting.groups import Floats, Integers

CHUNK = 8192  # columns at a time: a dozen rows of them stay in the second-level cache
NONE = np.zeros(0, dtype=np.int64)
OPEN = 2  # state of a column that is neither fixed at 0 nor at 1


@dataclass(frozen=True)
class Part:
    """Some columns in memory: ``cost`` (k,), ``rows`` (R, k) with the floors negated."""

    rows: Floats
    cost: Floats

    def times(self, factor: float) -> Part:
        """Return columns that stand for ``factor`` of their kind."""
        return Part(self.rows * factor, self.cost * factor)


@dataclass(frozen=True)
class Check:
    """What one pass says about prices and states.

    Parameters
    ----------
    wrong : ndarray of int64
        Columns that are fixed on the wrong side of zero.
    loss : float
        Sum of their distances from zero: what they keep the objective from the bound.
    fixed : ndarray, shape (R,)
        Sum of the rows over the columns that are fixed at 1.
    fixed_cost : float
        Sum of their costs.
    negative : float
        Sum of the negative reduced costs of all columns: what the bound needs.
    """

    wrong: Integers
    loss: float
    fixed: Floats
    fixed_cost: float
    negative: float


class Columns(Protocol):
    """N columns, each in a state: fixed at 0, fixed at 1, or open."""

    def __len__(self) -> int: ...

    def take(self, index: Integers) -> Part:
        """Copy some columns."""

    def fix(self, prices: Floats, width: float) -> tuple[Integers, Floats]:
        """Fix all columns by the sign of their reduced cost, but those within ``width`` of zero.

        Returns the open columns, and the sum of the rows over the columns fixed at 1, (R,).
        """

    def check(self, prices: Floats) -> Check:
        """Price all columns and compare with their states."""

    def put(self, index: Integers, states: NDArray[np.int8]) -> None:
        """Set the states of some columns."""

    def states(self, index: Integers) -> NDArray[np.int8]:
        """Return the states of some columns."""

    def weights(self, index: Integers, weights: Floats) -> Floats:
        """Return all weights, (N,): as fixed, and those at ``index`` as given."""


class HostColumns:
    """Columns in memory.

    Parameters
    ----------
    gap_rows, floor_rows : ndarray, shape (K, N) and (m, N)
    cost : ndarray, shape (N,)
    """

    def __init__(self, gap_rows: Floats, floor_rows: Floats, cost: Floats) -> None:
        self.gap_rows, self.floor_rows, self.cost = gap_rows, floor_rows, cost
        self.state = np.full(len(cost), OPEN, dtype=np.int8)

    @classmethod
    def of(cls, part: Part) -> HostColumns:
        """Take over a part, whose floor rows are negated already."""
        return cls(part.rows, part.rows[:0], part.cost)

    def __len__(self) -> int:
        return len(self.cost)

    def take(self, index: Integers) -> Part:
        """Copy some columns."""
        k, m = len(self.gap_rows), len(self.floor_rows)
        rows = np.empty((k + m, len(index)))
        # Range checks off: the indices come from here, and buffering would double the time.
        np.take(self.gap_rows, index, axis=1, out=rows[:k], mode="clip")
        np.take(self.floor_rows, index, axis=1, out=rows[k:], mode="clip")
        np.negative(rows[k:], out=rows[k:])
        return Part(rows, self.cost[index])

    def fix(self, prices: Floats, width: float) -> tuple[Integers, Floats]:
        """See :class:`Columns`."""
        fixed = np.zeros(len(prices))
        inside = [NONE]
        for rows, reduced in self._priced(prices):
            one = reduced < -width
            state = self.state[rows]
            np.copyto(state, one)
            near = np.flatnonzero(np.abs(reduced) <= width)
            state[near] = OPEN
            inside.append(near + rows.start)
            fixed += self._sum(rows, one)
        return np.concatenate(inside), fixed

    def check(self, prices: Floats) -> Check:
        """See :class:`Columns`."""
        fixed, loss, fixed_cost, negative = np.zeros(len(prices)), 0.0, 0.0, 0.0
        wrong = [NONE]
        for rows, reduced in self._priced(prices):
            state = self.state[rows]
            below = reduced < 0
            other = np.flatnonzero(state ^ below == 1)
            loss += float(np.abs(reduced[other]).sum())
            wrong.append(other + rows.start)
            one = state == 1
            fixed += self._sum(rows, one)
            fixed_cost += float(self.cost[rows] @ one)
            negative += float(reduced @ below)
        return Check(np.concatenate(wrong), loss, fixed, fixed_cost, negative)

    def put(self, index: Integers, states: NDArray[np.int8]) -> None:
        """See :class:`Columns`."""
        self.state[index] = states

    def states(self, index: Integers) -> NDArray[np.int8]:
        """See :class:`Columns`."""
        return self.state[index]

    def weights(self, index: Integers, weights: Floats) -> Floats:
        """See :class:`Columns`."""
        result = self.state.astype(np.float64)
        result[index] = weights
        return result

    def _priced(self, prices: Floats) -> Iterator[tuple[slice, Floats]]:
        """Go over the columns in chunks with their reduced costs."""
        gap, floor = np.split(prices, [len(self.gap_rows)])
        for start in range(0, len(self.cost), CHUNK):
            rows = slice(start, start + CHUNK)
            reduced = self.cost[rows] - gap @ self.gap_rows[:, rows]
            if len(floor):
                reduced += floor @ self.floor_rows[:, rows]
            yield rows, reduced

    def _sum(self, rows: slice, chosen: NDArray[np.bool_]) -> Floats:
        weights = chosen.astype(np.float64)
        return np.concatenate(
            [self.gap_rows[:, rows] @ weights, -(self.floor_rows[:, rows] @ weights)]
        )
