"""Check sums of the rows in each cell: what was never added cannot be removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from faircil.compute import chunk_size, map_chunks
from faircil.errors import DataError, UsageError, shortened
from faircil.samples import Samples, group_counts, rows_of_groups, unique_rows

ROWS = 4096  # whose check sums are computed together
Key = tuple[int, ...]  # class and attribute values


class SeenRows:
    """Check sums of the rows that were added to each cell, to refuse the removal of others.

    A row's check sum is ``Σ_j m_j · bits_j`` modulo 2⁶⁴ over the bits of its inputs, with fixed odd
    random factors m: two different rows share one with a chance of about 2⁻⁶³. It tells whether a
    given row was added, and not what is in the row.

    Parameters
    ----------
    most : int or None
        Rows from which on only their number is kept, since a check sum takes 8 bytes: then none can
        be removed. None: all check sums are kept.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.counts: dict[Key, int] = {}
        self.sums: dict[Key, Tensor] = {}  # a row added twice occurs twice

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def kept(self) -> bool:
        """Whether there is a check sum of every row."""
        return self.most is None or len(self) <= self.most

    @property
    def copies(self) -> float:
        """Share of the rows that equal an earlier one of their cell, as far as that is known."""
        self.settle()
        again = sum(int((sums[1:] == sums[:-1]).sum()) for sums in self.sums.values())
        return again / max(len(self), 1)

    def settle(self) -> None:
        """Sort the check sums of each cell: their order does not reveal that of the rows."""
        # NumPy sorts whole numbers in an eighth of torch's time on processors with AVX-512.
        self.sums = {key: torch.from_numpy(np.sort(own.numpy())) for key, own in self.sums.items()}

    def add(self, samples: Samples) -> None:
        """Take note of rows."""
        if self.most == 0:  # nothing is computed that is not kept
            self._take(group_counts(samples), {})
            return
        sums = _sums_by_cell(samples)
        self._take({key: len(own) for key, own in sums.items()}, sums)

    def merge(self, other: SeenRows) -> None:
        """Take note of the rows of another."""
        if not other.kept:
            self.most = min(self.most or 0, len(other) - 1)
        self._take(other.counts, other.sums)

    def move(self, key: Key, target: Key | None) -> None:
        """Count the rows of a cell in another one; None: in none any more."""
        count, sums = self.counts.pop(key), self.sums.pop(key, None)
        if target is not None:
            self._take({target: count}, {} if sums is None else {target: sums})

    def remove(self, samples: Samples) -> None:
        """Strike rows out; raise a DataError, and change nothing, if some were never added."""
        if not self.kept:
            raise UsageError(
                f"rows cannot be removed: {len(self):,} were added, and for so many no checksums "
                "are kept, which detect rows that were never added; learn them with "
                "`forgettable=true`, which takes 8 bytes per row"
            )
        left, refused = {}, 0
        wrong = torch.zeros(len(samples), dtype=torch.bool)
        every = row_sums(samples.x).cpu()
        for key, rows in _rows_by_cell(samples.keys().cpu()).items():
            known, there = _counted(self.sums.get(key, every[:0]))
            gone, times = _counted(every[rows])
            place = torch.searchsorted(known, gone)
            found = torch.isin(gone, known)
            missing = times.clone()
            missing[found] -= there[place[found]]
            refused += int(missing.clamp(min=0).sum())
            wrong[rows] = torch.isin(every[rows], gone[~found])
            there = there.index_add(0, place[found], -times[found])
            left[key] = torch.repeat_interleave(known, there.clamp(min=0))
        if refused:
            numbers = [str(row + 1) for row in wrong.nonzero()[:, 0].tolist()]
            which = f" (row {shortened(numbers)})" if numbers else ""
            raise DataError(
                f"{refused:,} of {len(samples):,} rows to remove{which} were not added, or "
                "not so often, with this class and these attribute values; give rows exactly as "
                "they were learned. Nothing was removed"
            )
        self.sums = {key: sums for key, sums in (self.sums | left).items() if len(sums)}
        self.counts = {key: len(sums) for key, sums in self.sums.items()}

    def placed(self, samples: Samples) -> Samples:
        """Return rows with the attribute values of the cells in which they are counted.

        A row counts in its own cell or, where that was too small, in another one of its class. Rows
        that are in none keep their values.
        """
        keys = samples.keys()
        there: dict[Key, Counter[int]] = {}
        for number, found in enumerate(row_sums(samples.x).tolist()):
            own = tuple(keys[number].tolist())
            for key in (own, *(key for key in self.sums if key[0] == own[0] and key != own)):
                if key not in there:
                    there[key] = Counter(self.sums[key].tolist() if key in self.sums else ())
                if there[key][found] > 0:
                    there[key][found] -= 1
                    keys[number] = torch.tensor(key)
                    break
        return with_keys(samples, keys)

    def _take(self, counts: Mapping[Key, int], sums: Mapping[Key, Tensor]) -> None:
        for key, count in counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        if not self.kept:
            self.sums = {}
            return
        for key, own in sums.items():
            before = self.sums.get(key)
            self.sums[key] = own if before is None else torch.cat([before, own])


def with_keys(samples: Samples, keys: Tensor) -> Samples:
    """Return samples with other group keys, (n, 1 + attributes), of the same classes."""
    z = None if samples.z is None else keys[:, 1:].reshape(samples.z.shape)
    return Samples(samples.x, samples.y, z)


def row_sums(x: Tensor) -> Tensor:
    """Return the check sum of each row of inputs (n, ...), int64, (n,), where they are."""
    x = x.detach().flatten(1).float()
    generator = torch.Generator().manual_seed(2718281828)
    words = -(-x.shape[1] // 2)
    factors = torch.randint(-(2**62), 2**62, (words,), generator=generator) * 2 + 1
    factors = factors.to(x.device)

    def summed(rows: slice) -> Tensor:
        # Two numbers are one word of 64 bits; an odd number of them is filled up.
        bits = pad(x[rows], (0, 2 * words - x.shape[1])).view(torch.int64)
        return (bits * factors).sum(dim=1)

    parts = map_chunks(summed, len(x), chunk_size(x.device, ROWS), threads=not x.is_cuda)
    return torch.cat(parts) if parts else factors[:0]


def _sums_by_cell(samples: Samples) -> dict[Key, Tensor]:
    sums = row_sums(samples.x)
    return {key: sums[rows].cpu() for key, rows in _rows_by_cell(samples.keys()).items()}


def _rows_by_cell(keys: Tensor) -> dict[Key, Tensor]:
    keys, index = unique_rows(keys)
    rows = rows_of_groups(index, len(keys))
    return {tuple(key): own for key, own in zip(keys.tolist(), rows, strict=True)}


def _counted(sums: Tensor) -> tuple[Tensor, Tensor]:
    distinct, counts = torch.unique(sums, return_counts=True)
    return distinct, counts
