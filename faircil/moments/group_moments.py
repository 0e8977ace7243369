"""First and second moments of the features of each group, as sums: add rows, remove them, merge.

A *cell* is a class with the values of the sensitive attributes. With features φ in R^d, a cell has

- n, the number of its rows,
- s = Σ φ, (d,),
- S = Σ φφᵀ, (d, d), symmetric: only its upper triangle is stored, in *panels* of ``PANEL`` rows,
  each from the diagonal block to the right. All panels of a cell are one flat array, so that a
  weighted sum over cells is a single pass over memory.

All of them are sums over rows. So the order of rows, batches, tasks and workers does not matter,
and removed rows leave no trace but rounding. Earlier rows may count less: n, s and S are then
weighted sums, and n need not be an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from faircil.compute import chunks_of, map_tasks, share_tasks
from faircil.errors import UsageError
from faircil.moments.on_gpu import WideSum, multiplies_wide, on_device, rows_at_once
from faircil.moments.seen_rows import Key as Key, SeenRows
from faircil.samples import Samples, group_counts, rows_of_groups, unique_rows

PANEL = 256
THREADED = 512  # features from which several threads share a pass over the sums
SLICE = 2**18  # entries of a sum over cells that stay in cache while cells are added
ROWS = 4096  # per product: enough to keep the cores busy, few enough to bound memory
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FeatureMap = Callable[[Tensor], Tensor]  # from inputs, (m, ...), to features, (m, d)


@dataclass(frozen=True)
class Panels:
    """The layout of the upper triangle of a symmetric (d, d) matrix in a flat array.

    Parameters
    ----------
    width : int
        d.
    """

    width: int

    @cached_property
    def places(self) -> tuple[tuple[slice, slice], ...]:
        """Rows of each panel, and its slice of the flat array."""
        rows = chunks_of(self.width, PANEL)
        sizes = [(part.stop - part.start) * (self.width - part.start) for part in rows]
        ends = list(accumulate(sizes))
        return tuple(
            (part, slice(end - size, end))
            for part, size, end in zip(rows, sizes, ends, strict=True)
        )

    @property
    def size(self) -> int:
        """Length of the flat array."""
        return int(self.places[-1][1].stop)

    def of(self, flat: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows and the view of each panel, (..., rows, d − first row)."""
        for rows, place in self.places:
            shape = (rows.stop - rows.start, self.width - rows.start)
            yield rows, flat[..., place].view(*flat.shape[:-1], *shape)

    def unpacked(self, flat: Tensor) -> Tensor:
        """Return the symmetric matrix, (d, d)."""
        matrix = flat.new_empty(self.width, self.width)
        for rows, panel in self.of(flat):
            matrix[rows, rows.start :] = panel
            matrix[rows.stop :, rows] = panel[:, rows.stop - rows.start :].T
        return matrix

    def packed(self, matrix: Tensor) -> Tensor:
        """Return the flat array of a symmetric matrix."""
        flat = matrix.new_empty(self.size)
        for rows, panel in self.of(flat):
            panel.copy_(matrix[rows, rows.start :])
        return flat

    def doubled(self, matrix: Tensor) -> Tensor:
        """Return the flat array whose product with that of M is ``tr(matrix · M)``.

        Entries to the right of a panel's diagonal block count for their mirror images as well.
        """
        flat = self.packed(matrix)
        for rows, panel in self.of(flat):
            panel[:, rows.stop - rows.start :] *= 2
        return flat

    def add_products(self, out: Tensor, flat: Tensor, x: Tensor) -> None:
        """Add symmetric matrices times x, (d, k), to ``out``, (..., d, k), without unpacking."""
        for rows, panel in self.of(flat):
            out[..., rows, :] += panel @ x[rows.start :]
            out[..., rows.stop :, :] += panel[..., rows.stop - rows.start :].mT @ x[rows]


@dataclass
class GroupMoments:
    """Moments of the rows seen so far, by class and attribute values.

    Parameters
    ----------
    width : int
        Number of features d.
    dtype : torch.dtype
        Type of the sums. float32 halves the memory; with float64, the order of rows changes the
        sums by a relative error below 1e-12.
    device : torch.device
    """

    separate: ClassVar[bool] = True  # cells are independent: threads may add to several at once

    width: int
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        self.panels = Panels(self.width)
        self.keys: list[Key] = []
        self.count: list[float] = []
        self.first: list[Tensor] = []  # (d,) each
        self.second: list[Tensor] = []  # blocks of cells that were added together, (cells, size)
        self.seen = SeenRows()
        self.faded: set[Key] = set()  # cells with rows that count less than others

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def threaded(self) -> bool:
        """Whether a pass over the sums pays off on several threads."""
        return self.device.type == "cpu" and self.width >= THREADED

    def add(self, samples: Samples, features: FeatureMap) -> None:
        """Add rows in one pass; moments on a GPU also accept rows in host memory."""
        for part in on_device(samples, self.device):
            self.seen.add(part)
            self._sum(part, features, sign=1)

    def remove(self, samples: Samples, features: FeatureMap) -> None:
        """Remove rows that were added, leaving the sums over the others.

        Raises
        ------
        DataError
            If some of the rows were never added with this class and these attribute values, or
            were already removed; nothing is changed then.
        UsageError
            If earlier rows of their cells count less than later ones.
        """
        faded = self.faded.intersection(group_counts(samples))
        if faded:
            raise UsageError(
                f"rows of the groups {', '.join(map(str, sorted(faded)))} (class, attribute "
                "values) cannot be removed: their earlier rows count less than later ones, by an "
                "age that is not stored; learn with `decay=1` to remove rows later"
            )
        self.seen.remove(samples)
        for part in on_device(samples, self.device):
            self._sum(part, features, sign=-1)
        self._close()

    def fade(self, new: Mapping[Key, float], factor: float) -> None:
        """Decay the weight of existing rows by ``factor`` in cells with new rows.

        This is the decay if as many new rows arrive as exist. For m new rows and n existing ones it
        is ``factor^(m/n)``, so that a few rows do not displace many. Cells without new rows are
        unchanged.

        Parameters
        ----------
        new : mapping
            Number of new rows of each cell.
        factor : float
        """
        if factor == 1:
            return
        for place, key in enumerate(self.keys):
            if key in new:
                own = factor ** min(1.0, new[key] / self.count[place])
                self.faded.add(key)
                self._fade_second(place, own)
                self.count[place] *= own
                self.first[place] *= own

    def merge(self, other: GroupMoments) -> None:
        """Add the sums of other rows, computed with the same features."""
        if (other.width, other.dtype) != (self.width, self.dtype):
            raise UsageError(
                f"moments of {other.width} features in {other.dtype} cannot be merged with those "
                f"of {self.width} in {self.dtype}; use the same features and precision"
            )
        if type(other) is not type(self):
            raise UsageError(
                f"{type(other).__name__} cannot be merged with {type(self).__name__}: one is "
                "exact and the other compressed; compute both in the same way"
            )
        self.seen.merge(other.seen)
        self.faded |= other.faded
        self._open([key for key in other.keys if key not in self.keys])
        for theirs, key in enumerate(other.keys):
            place = self.keys.index(key)
            self._merge_second(place, other, theirs)
            self.count[place] += other.count[theirs]
            self.first[place] += other.first[theirs].to(self.device)

    def renumbered(self, number: Callable[[Key], Key]) -> GroupMoments:
        """Return the same sums under other keys; both share the tensors."""
        found = copy(self)
        found.keys = [number(key) for key in self.keys]
        found.faded = {number(key) for key in self.faded}
        found.seen = copy(self.seen)
        found.seen.counts = {number(key): n for key, n in self.seen.counts.items()}
        found.seen.sums = {number(key): sums for key, sums in self.seen.sums.items()}
        return found

    def regroup(self, targets: Mapping[Key, Key | None]) -> None:
        """Merge the sums of some cells into others.

        Parameters
        ----------
        targets : mapping
            For each cell to remove, the existing cell to which its rows are added; None: its rows
            are dropped.
        """
        new = {key for key in targets.values() if key is not None} - {*self.keys}
        self._open(sorted(new))
        for key, target in targets.items():
            own = self.keys.index(key)
            if target is not None:
                place = self.keys.index(target)
                self._merge_second(place, self, own)
                self.count[place] += self.count[own]
                self.first[place] += self.first[own]
                self.faded |= {target} if key in self.faded else set()
            self.seen.move(key, target)
            self.count[own] = 0
        self.faded -= targets.keys()
        self._close()

    def combined(self, weights: Tensor) -> Tensor:
        """Return ``Σ weights_c S_c`` over the cells, (d, d)."""
        total = torch.zeros(self.panels.size, dtype=self.dtype, device=self.device)
        parts = torch.split(weights, [len(block) for block in self.second])
        size = SLICE if self.device.type == "cpu" else len(total)

        def add(place: slice) -> None:
            for block, part in zip(self.second, parts, strict=True):
                total[place].addmv_(block[:, place].T, part)

        share_tasks(add, chunks_of(len(total), size), threads=self.threaded)
        return self.panels.unpacked(total)

    def traces(self, matrix: Tensor) -> Tensor:
        """Return ``tr(matrix · S_c)`` of a symmetric matrix for each cell, (cells,)."""
        flat = self.panels.doubled(matrix)
        found = share_tasks(lambda block: block @ flat, self.second, threads=self.threaded)
        return torch.cat(found)

    def squares(self, x: Tensor) -> Tensor:
        """Return ``tr(xᵀ S_c x)`` for x of shape (d, k) and each cell, (cells,)."""
        return self.traces(x @ x.T)

    def products(self, x: Tensor, cells: Sequence[int] | None = None) -> Tensor:
        """Return ``S_c x``, (cells, d, k), for x, (d, k), and each of the cells, ascending."""
        chosen = range(len(self)) if cells is None else cells
        found = x.new_zeros(len(chosen), *x.shape)
        if self.device.type != "cpu" and len(chosen) == len(self):
            # Few kernel launches: process all cells of a block at once.
            for out, block in zip(
                torch.split(found, [len(block) for block in self.second]), self.second, strict=True
            ):
                self.panels.add_products(out, block, x)
            return found
        flats = self.cells()
        share_tasks(
            lambda place: self.panels.add_products(found[place], flats[chosen[place]], x),
            range(len(chosen)),
            threads=self.threaded,
        )
        return found

    def cells(self) -> list[Tensor]:
        """Return views of the flat arrays, one per cell."""
        return [flat for block in self.second for flat in block]

    def _open(self, keys: list[Key]) -> None:
        """Allocate new cells."""
        if not keys:
            return
        self.keys += keys
        self.count += [0] * len(keys)
        empty = torch.zeros(len(keys), self.width, dtype=self.dtype, device=self.device)
        self.first += list(empty)
        self._open_second(len(keys))

    def _open_second(self, number: int) -> None:
        shape = (number, self.panels.size)
        self.second.append(torch.zeros(shape, dtype=self.dtype, device=self.device))

    def _add_second(self, cell: int, phi: Tensor, sign: int) -> None:
        """Add ``sign · φᵀφ`` of features φ, (m, d), to a cell, before n and s change."""
        for columns, panel in self.panels.of(self.cells()[cell]):
            panel.addmm_(phi[:, columns].T, phi[:, columns.start :], alpha=sign)

    def _merge_second(self, cell: int, other: GroupMoments, theirs: int) -> None:
        """Add the second moments of another cell, before n and s change."""
        self.cells()[cell].add_(other.cells()[theirs].to(self.device))

    def _fade_second(self, cell: int, factor: float) -> None:
        """Multiply the second moments of a cell."""
        self.cells()[cell].mul_(factor)

    def _close(self) -> None:
        """Drop empty cells."""
        kept = [n > 0 for n in self.count]
        if all(kept):
            return  # nothing to copy
        places = iter(kept)
        blocks = [block[[next(places) for _ in block]] for block in self.second]
        self.second = [block for block in blocks if len(block)]
        for name in ("keys", "count", "first"):
            values = getattr(self, name)
            setattr(self, name, [value for value, keep in zip(values, kept, strict=True) if keep])

    def _sum(self, samples: Samples, features: FeatureMap, sign: int) -> None:
        keys, index = unique_rows(samples.keys())
        named = [tuple(key) for key in keys.tolist()]
        self._open([key for key in named if key not in self.keys])
        rows_of = rows_of_groups(index, len(named))
        if self.separate and self.device.type != "cpu":
            self._sum_on_gpu(samples, features, sign, dict(zip(named, rows_of, strict=True)))
            return

        def sum_cell(number: int) -> None:
            place, rows = self.keys.index(named[number]), rows_of[number]
            for part in chunks_of(len(rows), ROWS):
                phi = features(samples.x.index_select(0, rows[part])).to(self.dtype)
                self._add_second(place, phi, sign)
                self.count[place] += sign * len(phi)
                self.first[place].add_(phi.sum(dim=0), alpha=sign)

        # Largest first: the last task to start should be short.
        order = sorted(range(len(named)), key=lambda number: -len(rows_of[number]))
        map_tasks(sum_cell, order, threads=self.separate and self.device.type == "cpu")

    def _sum_on_gpu(
        self, samples: Samples, features: FeatureMap, sign: int, cells: Mapping[Key, Tensor]
    ) -> None:
        """Add the rows of each cell, given by their indices, in float64, one cell after another."""
        wide = self.dtype == torch.float64 or multiplies_wide(self.device)
        summed, second = WideSum(self.panels, self.device, wide=wide), self.cells()
        for key, rows in cells.items():
            summed.clear()
            for part in chunks_of(len(rows), rows_at_once(self.width)):
                summed.add(features(samples.x.index_select(0, rows[part])).to(self.dtype))
            place = self.keys.index(key)
            summed.move(self.first[place], second[place], sign)
            self.count[place] += sign * len(rows)


def penalties_for(moments: GroupMoments) -> list[float]:
    """Return the candidate relative penalties: those above the rounding error of the sums.

    Sums with a relative error of ε differ by a matrix of norm up to ``ε ‖S‖ ≤ ε d · mean(diag)``.
    A smaller penalty could not even keep the matrix positive definite.
    """
    rounding = torch.finfo(moments.dtype).eps * moments.width
    return [penalty for penalty in PENALTIES if penalty > rounding]
