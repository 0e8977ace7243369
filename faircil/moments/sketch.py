"""Compressed moments: each cell keeps its main directions, and all cells share the remainder.

A cell's second moments are ``S = ssᵀ/n + UᵀU + E``: its mean, at most r rows U, (r, d), and the
remainder E. That takes r·d numbers instead of d²/2. U comes from Frequent Directions (Liberty 2013;
Ghashami et al. 2016) of rows minus their mean: when rows no longer fit, all rows are rotated to
their main axes, and the smallest are *shed*. Only the last ``SHRUNK`` of the kept rows shrink with
them, which is more accurate in practice (Desai et al. 2016).

What is shed is not lost. ``E = Σ_c E_c`` over all cells is kept, one matrix (d, d), as is ``t_c =
tr E_c`` of each cell. A cell is then approximated by

    S̃_c = s_c s_cᵀ/n_c + U_cᵀU_c + (t_c/t) E,  t = Σ_c t_c.

- Each S̃_c has the trace of S_c and a positive semi-definite covariance, so no loss is negative.
  ``Σ_c S̃_c = Σ_c S_c``, so the solution is exact if all rows have the same weight. Everything is
  exact as long as no cell has more than r rows.
- When rows are shed with a threshold δ, at most δ is removed in any direction, and δ is removed in
  at least k + 1 directions, where k is the number of kept rows that shrink. So
  ``‖E_c‖₂ ≤ t_c/(k + 1)``, and in sum ``‖E‖₂ ≤ t/(k + 1)``. Together,
  ``‖S̃_c − S_c‖₂ ≤ t_c/(k + 1)``: a computable bound.
- Two parts of a cell with means μ, μ' and n, n' rows combine to the rows of both and one more,
  ``√(n n'/(n + n')) (μ − μ')``: this is how batches are added and sites merged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from faircil.compute import chunks_of, share_tasks
from faircil.errors import UsageError
from faircil.moments.group_moments import ROWS, FeatureMap, GroupMoments
from faircil.samples import Samples

SHRUNK = 0.2  # of the kept rows that shrink when others are shed
MEMORY = 2**31  # bytes of exact second moments, at most, if their size is not set
COMPRESSED = 3 * 2**29  # and of compressed ones, which leaves room to solve for many groups
TRACED = 512  # rows whose products with a matrix stay in cache
LEAST = 50  # directions of a cell, below which the number of features is reduced instead
SOLVING = 10  # matrices (d, d) that two simultaneous solutions need in addition to the moments


@dataclass
class SketchedMoments(GroupMoments):
    """Moments of the rows seen so far, with at most ``rank`` directions for each cell.

    Parameters
    ----------
    rank : int
        r.
    """

    separate: ClassVar[bool] = False  # shed rows are summed in a fixed order

    rank: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows: list[Tensor] = []  # U of each cell, (at most r, d)
        self.shed: list[float] = []  # t_c
        self.rest = torch.zeros(self.width, self.width, dtype=self.dtype, device=self.device)  # E

    @property
    def bounds(self) -> Tensor:
        """Largest possible ``‖S̃_c − S_c‖₂`` of each cell, (cells,)."""
        return torch.tensor(self.shed, dtype=torch.float64) / (self._shrunk + 1)

    def merge(self, other: GroupMoments) -> None:
        """Add the sums of other rows, computed with the same features."""
        super().merge(other)
        assert isinstance(other, SketchedMoments)
        self.rest += other.rest.to(self.device)

    def remove(self, samples: Samples, features: FeatureMap) -> None:
        """Raise an error: shed rows can no longer be separated."""
        del features
        raise UsageError(
            f"{len(samples):,} rows cannot be removed from compressed moments, which keep "
            f"{self.rank} directions of each group; learn with `rank='full'` to remove rows later"
        )

    def combined(self, weights: Tensor) -> Tensor:
        """Return ``Σ weights_c S̃_c`` over the cells, (d, d)."""
        total = self.panels.packed(self.rest).mul_(weights @ self._parts())
        panels = list(self.panels.of(total))
        for cells, rows, cell in self._stacked():
            weighted = rows * weights[cells][cell, None]

            def add(number: int, rows: Tensor = rows, weighted: Tensor = weighted) -> None:
                columns, panel = panels[number]
                panel.addmm_(weighted[:, columns].T, rows[:, columns.start :])

            share_tasks(add, range(len(panels)), threads=self.threaded)
        return self.panels.unpacked(total)

    def traces(self, matrix: Tensor) -> Tensor:
        """Return ``tr(matrix · S̃_c)`` of a symmetric matrix for each cell, (cells,)."""
        found = self._parts() * (self.rest * matrix).sum()
        panels = list(self.panels.of(self.panels.doubled(matrix)))
        for cells, rows, cell in self._stacked():

            def traced(part: slice, rows: Tensor = rows) -> Tensor:
                own = rows[part]
                summed = own.new_zeros(len(own))
                for columns, panel in panels:
                    summed += ((own[:, columns.start :] @ panel.T) * own[:, columns]).sum(dim=1)
                return summed

            parts = share_tasks(traced, chunks_of(len(rows), TRACED), threads=self.threaded)
            found[cells].index_add_(0, cell, torch.cat(parts))
        return found

    def squares(self, x: Tensor) -> Tensor:
        """Return ``tr(xᵀ S̃_c x)`` for x of shape (d, k) and each cell, (cells,)."""
        found = self._parts() * (x * (self.rest @ x)).sum()
        for cells, rows, cell in self._stacked():
            found[cells].index_add_(0, cell, (rows @ x).square().sum(dim=1))
        return found

    def products(self, x: Tensor, cells: Sequence[int] | None = None) -> Tensor:
        """Return ``S̃_c x`` for x, (d, k), and each of the cells, (cells, d, k)."""
        chosen = list(range(len(self)) if cells is None else cells)
        found = self._parts()[chosen, None, None] * (self.rest @ x)

        def add(place: int) -> None:
            rows = self._with_mean(chosen[place])
            found[place].addmm_(rows.T, rows @ x)

        share_tasks(add, range(len(chosen)), threads=self.threaded)
        return found

    @property
    def _shrunk(self) -> int:
        return max(1, round(SHRUNK * self.rank))

    def _parts(self) -> Tensor:
        """Return ``t_c/t``, the fraction of E attributed to each cell, (cells,)."""
        shed = torch.tensor(self.shed, dtype=self.dtype, device=self.device)
        return shed / shed.sum().clamp(min=torch.finfo(self.dtype).tiny)

    def _stacked(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield cells, their rows stacked, and the cell of each row, from 0."""
        for cells in chunks_of(len(self), max(1, ROWS // self.rank)):
            rows = [self._with_mean(cell) for cell in range(cells.start, cells.stop)]
            sizes = torch.tensor([len(own) for own in rows], device=self.device)
            yield cells, torch.cat(rows), torch.repeat_interleave(sizes)

    def _with_mean(self, cell: int) -> Tensor:
        """Return U with s/√n as the last row, (at most r + 1, d)."""
        mean = self.first[cell] / max(self.count[cell], 1) ** 0.5
        return torch.cat([self.rows[cell], mean[None]])

    def _open_second(self, number: int) -> None:
        empty = torch.zeros(0, self.width, dtype=self.dtype, device=self.device)
        self.rows += [empty] * number
        self.shed += [0.0] * number

    def _add_second(self, cell: int, phi: Tensor, sign: int) -> None:
        assert sign > 0  # removal is refused
        mean = phi.mean(dim=0)
        self._add_rows(cell, phi - mean, mean, len(phi))

    def _merge_second(self, cell: int, other: GroupMoments, theirs: int) -> None:
        assert isinstance(other, SketchedMoments)  # checked by `merge`
        rows, first = (part.to(self.device) for part in (other.rows[theirs], other.first[theirs]))
        self._add_rows(cell, rows, first / other.count[theirs], other.count[theirs])
        self.shed[cell] += other.shed[theirs]

    def _fade_second(self, cell: int, factor: float) -> None:
        """Multiply S̃ of a cell by a factor, leaving the other cells unchanged.

        Its fraction t_c/t of E shrinks. E is multiplied by ``t'/t``, and ``t_j/t' · t'/t`` leaves
        every other cell its part. The bound remains valid, since both sides shrink alike.
        """
        self.rows[cell] = self.rows[cell] * factor**0.5
        whole = sum(self.shed)
        self.shed[cell] *= factor
        if whole:
            self.rest *= sum(self.shed) / whole

    def _add_rows(self, cell: int, centred: Tensor, mean: Tensor, number: float) -> None:
        """Add ``number`` rows, given by their mean and rows with their centred second moments."""
        before = self.count[cell]
        if before:
            apart = (before * number / (before + number)) ** 0.5
            centred = torch.cat([centred, apart * (self.first[cell] / before - mean)[None]])
        for part in chunks_of(len(centred), 2 * self.rank):
            rows = torch.cat([self.rows[cell], centred[part]])
            self.rows[cell] = self._shed(cell, rows) if len(rows) > self.rank else rows

    def _shed(self, cell: int, rows: Tensor) -> Tensor:
        """Reduce rows to at most r; move the difference to the shared remainder.

        With the eigenvectors Q of ``XXᵀ``, the rows ``Y = QᵀX`` lie along the main axes, and ``YᵀY
        = XᵀX`` for any orthogonal Q, even an inexact one. A part of each ``y yᵀ`` is kept.
        """
        wide = rows.double()
        square, axes = torch.linalg.eigh(wide @ wide.T)
        square, axes = square.flip(0).clamp(min=0), axes.flip(1)
        threshold, first = square[self.rank], self.rank - self._shrunk
        kept = torch.ones_like(square)
        kept[first:] -= threshold / square[first:].clamp(min=torch.finfo(square.dtype).tiny)
        kept = kept.clamp(min=0)
        kept[self.rank :] = 0
        turned = axes.T.to(self.dtype) @ rows
        lost = turned[first:] * (1 - kept[first:]).sqrt().to(self.dtype)[:, None]
        self.rest.addmm_(lost.T, lost)
        self.shed[cell] += float(((1 - kept) * square).sum())
        left: Tensor = turned[: self.rank] * kept[: self.rank].sqrt().to(self.dtype)[:, None]
        return left


@dataclass(frozen=True)
class Plan:
    """The planned size of moments.

    Parameters
    ----------
    width : int
        Number of features d.
    cells : int
        Expected number of cells.
    dtype : torch.dtype
    rank : int or None
        Directions kept per cell; None: exact moments.
    """

    width: int
    cells: int
    dtype: torch.dtype = torch.float32
    rank: int | None = None

    @property
    def second(self) -> int:
        """Bytes of the second moments."""
        per_cell = self.width**2 // 2 if self.rank is None else self.rank * self.width
        return self.dtype.itemsize * self.cells * per_cell

    @property
    def needed(self) -> int:
        """Bytes of the moments and of solving with them."""
        return self.second + self.dtype.itemsize * self.width * (self.cells + SOLVING * self.width)

    def moments(self, device: torch.device) -> GroupMoments:
        """Return empty moments of this size."""
        if self.rank is None:
            return GroupMoments(self.width, self.dtype, device)
        return SketchedMoments(self.width, self.dtype, device, self.rank)

    def made_to_fit(
        self, rank: int | Literal["auto", "full"], free: int | None, *, fixed: bool
    ) -> Plan:
        """Choose the rank and, unless it is fixed, a smaller width.

        If the width is not fixed, the moments take at most ``MEMORY``, or ``COMPRESSED``, on any
        machine that has as much: the same data should give the same features everywhere. With
        ``auto``, they are compressed if exact ones would take more than that or, with a fixed
        width, more than half of the free memory.

        Parameters
        ----------
        rank : int, "auto" or "full"
        free : int or None
            Free memory in bytes; None: unknown.
        fixed : bool
            Whether the width must not be changed.

        Raises
        ------
        UsageError
            If more memory is needed than available.
        """
        most = COMPRESSED if isinstance(rank, int) else MEMORY
        room = most if free is None else min(most, free)
        plan = replace(self, rank=rank if isinstance(rank, int) else None)
        if rank == "auto" and plan.second > (max(room, (free or 0) // 2) if fixed else room):
            room = min(room, COMPRESSED)
            fitting = room // (self.dtype.itemsize * self.cells * self.width)
            plan = replace(self, rank=max(fitting, LEAST))
        if not fixed and plan.second > room:
            plan = replace(plan, width=plan.widest(room, lambda smaller: smaller.second))
        if free is not None and plan.needed > free:
            raise UsageError(plan._too_large(free))
        return plan

    def widest(self, room: int, size: Callable[[Plan], int]) -> int:
        """Return the largest width up to this one for which a size is at most ``room``."""
        fits = bisect_right(
            range(1, self.width + 1), room, key=lambda width: size(replace(self, width=width))
        )
        return max(1, fits)

    def _too_large(self, free: int) -> str:
        fits = [
            replace(self, rank=rank).widest(free, lambda smaller: smaller.needed)
            for rank in (self.rank, LEAST)
        ]
        advice = f"up to {fits[0]:,} fit, {fits[1]:,} with `rank={LEAST}`"
        return (
            f"{self.width:,} features need {in_gib(self.needed)} for the moments of {self.cells:,} "
            f"groups and their solution, and {in_gib(free)} are free; {advice}: choose a smaller "
            "`width`"
        )


def in_gib(size: int) -> str:
    """Format a number of bytes for display."""
    return f"{size / 2**30:,.3g} GiB"
