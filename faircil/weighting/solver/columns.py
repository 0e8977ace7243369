"""The columns of a program, read in passes: in memory, or on a device, stored or computed.

For samples whose gradients are outer products δ h̃ᵀ, a row of the program is an inner product with
one matrix, ``row_r(i) = δ̂_iᵀ M_r ĥ_i`` (hats: unit vectors). A pass then requires no stored rows:

- prices combine all rows into one matrix, ``reduced_i = δ̂_iᵀ (M_cost − Σ_r p_r M_r) ĥ_i``;
- the sum of rows over weighted columns is ``⟨M_r, Σ_i w_i δ̂_i ĥ_iᵀ⟩``, again one small matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.compute import chunks_of
from faircil.weighting.groups import Floats, Integers

CHUNK = 8192  # columns per chunk: a dozen rows of them fit in the L2 cache
NONE = np.zeros(0, dtype=np.int64)
OPEN = 2  # state of a column that is fixed neither at 0 nor at 1
COMPUTED_CHUNK = 1 << 16  # computed columns per chunk


@dataclass(frozen=True)
class Part:
    """Some columns in memory: ``cost`` (k,), ``rows`` (R, k) with the floors negated."""

    rows: Floats
    cost: Floats

    def times(self, factor: float) -> Part:
        """Return columns that each represent ``factor`` equal columns."""
        return Part(self.rows * factor, self.cost * factor)


@dataclass(frozen=True)
class Check:
    """The result of checking prices and states in one pass.

    Parameters
    ----------
    wrong : ndarray of int64
        Columns fixed against the sign of their reduced cost.
    loss : float
        Sum of their absolute reduced costs: their contribution to the duality gap.
    fixed : ndarray, shape (R,)
        Sum of the rows over the columns fixed at 1.
    fixed_cost : float
        Sum of their costs.
    negative : float
        Sum of the negative reduced costs of all columns, for the bound.
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

    def near(self, prices: Floats, width: float) -> tuple[Band, Floats]:
        """Fix all columns by the sign of their reduced cost, except those within ``width`` of 0.

        Returns the open columns, and the sum of the rows over the columns fixed at 1, (R,).
        """

    def reopen(self) -> None:
        """Open all columns."""

    def check(self, prices: Floats) -> Check:
        """Compute the reduced costs of all columns and compare them with the states."""

    def put(self, index: Integers, states: NDArray[np.int8]) -> None:
        """Set the states of some columns."""

    def states(self, index: Integers) -> NDArray[np.int8]:
        """Return the states of some columns."""

    def weights(self, index: Integers, weights: Floats) -> Floats:
        """Return all weights, (N,): as fixed, and those at ``index`` as given."""


class Band(Protocol):
    """The columns that a pass left open, as separate columns."""

    def __len__(self) -> int: ...

    @property
    def columns(self) -> Columns:
        """The columns, all open at first."""

    def origin(self, index: Integers) -> Integers:
        """Return the indices of some of them among all columns."""

    def settle(self) -> None:
        """Transfer the states of these columns to all columns."""


@dataclass(frozen=True)
class HostBand:
    """Open columns, copied to the memory of one process; see :class:`Band`."""

    parent: HostColumns | DeviceColumns
    inside: Integers

    def __len__(self) -> int:
        return len(self.inside)

    @cached_property
    def columns(self) -> HostColumns:
        """See :class:`Band`."""
        return HostColumns.of(self.parent.take(self.inside))

    def origin(self, index: Integers) -> Integers:
        """See :class:`Band`."""
        return self.inside[index]

    def settle(self) -> None:
        """See :class:`Band`."""
        self.parent.put(self.inside, self.columns.state)


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
        """Wrap a part, whose floor rows are already negated."""
        return cls(part.rows, part.rows[:0], part.cost)

    def __len__(self) -> int:
        return len(self.cost)

    def take(self, index: Integers) -> Part:
        """Copy some columns."""
        k, m = len(self.gap_rows), len(self.floor_rows)
        rows = np.empty((k + m, len(index)))
        # No range checks: the indices are valid, and buffering would double the time.
        np.take(self.gap_rows, index, axis=1, out=rows[:k], mode="clip")
        np.take(self.floor_rows, index, axis=1, out=rows[k:], mode="clip")
        np.negative(rows[k:], out=rows[k:])
        return Part(rows, self.cost[index])

    def near(self, prices: Floats, width: float) -> tuple[Band, Floats]:
        """See :class:`Columns`."""
        inside, fixed = self.fix(prices, width)
        return HostBand(self, inside), fixed

    def reopen(self) -> None:
        """See :class:`Columns`."""
        self.state[:] = OPEN

    def fix(self, prices: Floats, width: float) -> tuple[Integers, Floats]:
        """Fix columns as :meth:`near` does; return the indices of the open columns."""
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
        """Iterate over chunks of columns with their reduced costs."""
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


class Rows(Protocol):
    """R rows with the floors negated, plus the cost as a last row; n columns."""

    @property
    def device(self) -> torch.device:
        """Device of the data."""

    @property
    def chunk(self) -> int:
        """Columns per chunk."""

    def __len__(self) -> int: ...

    def mix(self, factors: Tensor, part: slice) -> Tensor:
        """Return ``factors @ rows``, (R + 1,) times (R + 1, k), for a slice of columns."""

    def add(self, weights: Tensor, part: slice) -> Tensor:
        """Return ``rows @ weights``, (R + 1,), over a slice of columns."""

    def take(self, index: Tensor) -> Tensor:
        """Return some columns, (R + 1, k)."""


@dataclass(frozen=True)
class StoredRows:
    """Rows and cost as one matrix, (R + 1, n) in float64."""

    matrix: Tensor

    @property
    def device(self) -> torch.device:
        """Device of the matrix."""
        return self.matrix.device

    @property
    def chunk(self) -> int:
        """All columns in one chunk."""
        return len(self)

    def __len__(self) -> int:
        return self.matrix.shape[1]

    def mix(self, factors: Tensor, part: slice) -> Tensor:
        """See :class:`Rows`."""
        return factors @ self.matrix[:, part]

    def add(self, weights: Tensor, part: slice) -> Tensor:
        """See :class:`Rows`."""
        return self.matrix[:, part] @ weights

    def take(self, index: Tensor) -> Tensor:
        """See :class:`Rows`."""
        return self.matrix.index_select(1, index)


@dataclass(frozen=True)
class FactorRows:
    """Rows as inner products with the gradients of n samples.

    Parameters
    ----------
    delta : Tensor, shape (n, classes)
        Gradient with respect to the logits, with norm 1 or zero.
    features : Tensor, shape (n, d)
        Input of the last layer, without the constant 1.
    shrink : Tensor of float64, shape (n,)
        One over the norm of ``[1; h]``, or of h if the layer has no bias.
    directions : Tensor of float64, shape (R + 1, classes, 1 + d) or (R + 1, classes, d)
        The matrices M.
    """

    delta: Tensor
    features: Tensor
    shrink: Tensor
    directions: Tensor

    @property
    def device(self) -> torch.device:
        """Device of the factors."""
        return self.delta.device

    @property
    def chunk(self) -> int:
        """Columns per chunk."""
        return COMPUTED_CHUNK

    def __len__(self) -> int:
        return len(self.delta)

    @property
    def _bias(self) -> bool:
        return self.directions.shape[2] > self.features.shape[1]

    def mix(self, factors: Tensor, part: slice) -> Tensor:
        """See :class:`Rows`."""
        direction = torch.tensordot(factors, self.directions, dims=1)
        return self._inner(direction[None], self.delta[part], self.features[part], part)[0]

    def add(self, weights: Tensor, part: slice) -> Tensor:
        """See :class:`Rows`."""
        delta = self.delta[part].double() * (weights * self.shrink[part])[:, None]
        total = delta.T @ self.features[part].double()
        if self._bias:
            total = torch.cat([delta.sum(dim=0)[:, None], total], dim=1)
        sums: Tensor = torch.tensordot(self.directions, total, dims=2)
        return sums

    def take(self, index: Tensor) -> Tensor:
        """See :class:`Rows`."""
        pieces = [
            self._inner(self.directions, self.delta[rows], self.features[rows], rows)
            for rows in torch.split(index, COMPUTED_CHUNK)
        ]
        return torch.cat(pieces, dim=1)

    def _inner(
        self, directions: Tensor, delta: Tensor, features: Tensor, part: Tensor | slice
    ) -> Tensor:
        """Return ``δ̂ᵀ M ĥ`` for all given matrices, (matrices, k)."""
        d = features.shape[1]
        product = features.double() @ directions[:, :, -d:].transpose(1, 2)
        if self._bias:
            product += directions[:, None, :, 0]
        return (product * delta.double()).sum(dim=2) * self.shrink[part]


class DeviceColumns:
    """Columns on a torch device; see :class:`faircil.weighting.solver.columns.Columns`."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.state = torch.full((len(rows),), OPEN, dtype=torch.int8, device=rows.device)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Integers) -> Part:
        """Copy some columns to the host."""
        taken = self.rows.take(self._put(index)).cpu().numpy()
        return Part(taken[:-1], taken[-1])

    def near(self, prices: Floats, width: float) -> tuple[Band, Floats]:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        inside, fixed = self.fix(prices, width)
        return HostBand(self, inside), fixed

    def reopen(self) -> None:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        self.state.fill_(OPEN)

    def fix(self, prices: Floats, width: float) -> tuple[Integers, Floats]:
        """Fix columns as :meth:`near` does; return the indices of the open columns."""
        fixed = torch.zeros(len(prices) + 1, dtype=torch.float64, device=self.rows.device)
        for part, reduced in self._priced(prices):
            one = reduced < -width
            self.state[part] = torch.where(reduced.abs() <= width, OPEN, one.to(torch.int8))
            fixed += self.rows.add(one.double(), part)
        inside = torch.nonzero(self.state == OPEN).squeeze(1)
        return inside.cpu().numpy(), fixed[:-1].cpu().numpy()

    def check(self, prices: Floats) -> Check:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        fixed = torch.zeros(len(prices) + 1, dtype=torch.float64, device=self.rows.device)
        sums = torch.zeros(2, dtype=torch.float64, device=self.rows.device)
        wrong = torch.zeros(len(self), dtype=torch.bool, device=self.rows.device)
        for part, reduced in self._priced(prices):
            state = self.state[part]
            one = state == 1
            wrong[part] = other = (state != OPEN) & (one != (reduced < 0))
            fixed += self.rows.add(one.double(), part)
            sums += torch.stack([(reduced.abs() * other).sum(), reduced.clamp(max=0).sum()])
        loss, negative = sums.tolist()
        host = fixed.cpu().numpy()
        indices = torch.nonzero(wrong).squeeze(1).cpu().numpy()
        return Check(indices, loss, host[:-1], float(host[-1]), negative)

    def put(self, index: Integers, states: NDArray[np.int8]) -> None:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        self.state[self._put(index)] = self._put(states)

    def states(self, index: Integers) -> NDArray[np.int8]:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        states: NDArray[np.int8] = self.state[self._put(index)].cpu().numpy()
        return states

    def weights(self, index: Integers, weights: Floats) -> Floats:
        """See :class:`~faircil.weighting.solver.columns.Columns`."""
        result: Floats = self.state.cpu().numpy().astype(np.float64)
        result[index] = weights
        return result

    def _put(self, array: Integers | NDArray[np.int8] | Floats) -> Tensor:
        return torch.from_numpy(array).to(self.rows.device)

    def _priced(self, prices: Floats) -> Iterator[tuple[slice, Tensor]]:
        factors = self._put(np.append(-prices, 1.0))
        for part in chunks_of(len(self), self.rows.chunk):
            yield part, self.rows.mix(factors, part)
