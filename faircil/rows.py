"""Rows that belong together: those with equal keys, and those of a group."""

from __future__ import annotations

import torch
from torch import Tensor


def unique_rows(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows, sorted, and the number of each row among them.

    Column by column, since numbers are told apart much faster than rows.

    Parameters
    ----------
    keys : Tensor of int64, shape (n, columns)
    """
    index = keys.new_zeros(len(keys))
    for column in keys.T:
        place, count = _numbered(column)
        index, _ = _numbered(index * count + place)
    groups = int(index.max()) + 1 if len(keys) else 0
    rows = torch.arange(len(keys), device=keys.device)
    first = rows.new_full((groups,), len(keys)).scatter_reduce(0, index, rows, "amin")
    return keys[first], index


def rows_of_groups(index: Tensor, groups: int) -> tuple[Tensor, ...]:
    """Return the row numbers of each group's samples, given each sample's group (none below 0)."""
    order = torch.argsort(index, stable=True)
    order = order[int((index < 0).sum()) :]
    sizes = torch.bincount(index[order], minlength=groups)
    return torch.split(order, sizes.tolist())


def _numbered(values: Tensor) -> tuple[Tensor, int]:
    """Return the place of each value among the distinct ones, (n,), and how many these are."""
    if not len(values):
        return values, 0
    shifted = values - values.min()
    reach = int(shifted.max()) + 1
    if reach > 4 * len(values) + 1024:
        distinct, place = torch.unique(values, return_inverse=True)
        return place, len(distinct)
    # Values that lie close together need no sorting: mark those there are, and count the marks.
    number = (torch.bincount(shifted, minlength=reach) > 0).cumsum(0)
    return number[shifted] - 1, int(number[-1])
