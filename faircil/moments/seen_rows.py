"""Checksums of the rows in each cell: rows that were never added cannot be removed."""

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

ROWS = 4096  # whose checksums are computed together
Key = tuple[int, ...]  # class and attribute values


class SeenRows:
    """Checksums of the rows added to each cell, used to reject the removal of other rows.

    A row's checksum is ``Σ_j m_j · bits_j`` modulo 2⁶⁴ over the bits of its inputs, with fixed odd
    random factors m: two different rows have the same one with a probability of about 2⁻⁶³. It
    reveals whether a given row was added, but not the content of the row.

    Parameters
    ----------
    most : int or None
        Number of rows above which only their number is kept, since a checksum takes 8 bytes; then
        no row can be removed. None: all checksums are kept.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.counts: dict[Key, int] = {}
        self.sums: dict[Key, Tensor] = {}  # a row added twice occurs twice

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def kept(self) -> bool:
        """Whether the checksum of every row is kept."""
        return self.most is None or len(self) <= self.most

    @property
    def copies(self) -> float:
        """Fraction of rows that equal an earlier row of their cell, as far as known."""
        self.settle()
        again = sum(int((sums[1:] == sums[:-1]).sum()) for sums in self.sums.values())
        return again / max(len(self), 1)

    def settle(self) -> None:
        """Sort the checksums of each cell, so that they do not reveal the order of the rows."""
        # NumPy sorts whole numbers in an eighth of torch's time on processors with AVX-512.
        self.sums = {key: torch.from_numpy(np.sort(own.numpy())) for key, own in self.sums.items()}

    def add(self, samples: Samples) -> None:
        """Record rows."""
        if self.most == 0:  # nothing is kept, so skip the computation
            self._take(group_counts(samples), {})
            return
        sums = _sums_by_cell(samples)
        self._take({key: len(own) for key, own in sums.items()}, sums)

    def merge(self, other: SeenRows) -> None:
        """Record the rows of another instance."""
        if not other.kept:
            self.most = min(self.most or 0, len(other) - 1)
        self._take(other.counts, other.sums)

    def move(self, key: Key, target: Key | None) -> None:
        """Move the rows of a cell to another cell; None: discard them."""
        count, sums = self.counts.pop(key), self.sums.pop(key, None)
        if target is not None:
            self._take({target: count}, {} if sums is None else {target: sums})

    def remove(self, samples: Samples) -> None:
        """Remove rows; raise a DataError, and change nothing, if some were never added."""
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

        A row is counted in its own cell or, if that was too small, in another cell of its class.
        Rows that are in no cell keep their values.
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
    """Return samples of the same classes with other group keys, (n, 1 + attributes)."""
    z = None if samples.z is None else keys[:, 1:].reshape(samples.z.shape)
    return Samples(samples.x, samples.y, z)


def row_sums(x: Tensor) -> Tensor:
    """Return the checksum of each row of inputs (n, ...), int64, (n,), on the same device."""
    x = x.detach().flatten(1).float()
    generator = torch.Generator().manual_seed(2718281828)
    words = -(-x.shape[1] // 2)
    factors = torch.randint(-(2**62), 2**62, (words,), generator=generator) * 2 + 1
    factors = factors.to(x.device)

    def summed(rows: slice) -> Tensor:
        # Two numbers form one 64-bit word; an odd number of them is padded.
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
