"""Groups of samples by class and attribute, and the membership of each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.counts import Floats as Floats, Integers as Integers
from faircil.errors import DataError
from faircil.samples import Samples, unique_rows

Seen = Mapping[Any, int]  # keyed y, (y,) or (y, z, …); a mapping is invariant in its keys


@dataclass(frozen=True)
class Groups:
    """The G groups of a program, sorted by class and attribute.

    Parameters
    ----------
    label : ndarray of int64, shape (G,)
        Class.
    attribute : ndarray of int64, shape (G,) or (G, attributes)
        Attribute value(s); 0 if groups are classes.
    current : ndarray of bool, shape (G,)
        Whether the group occurs in the current task; other groups are measured on the buffer.
    size : ndarray of int64, shape (G,)
        Number of samples used for its statistics.
    seen : ndarray of int64, shape (G,), or None
        Training samples seen so far, including the current task; None if unknown.
    seen_with_attribute : ndarray of int64, shape (G,), or None
        The same, summed over all classes for the group's attribute value.
    """

    label: Integers
    attribute: Integers
    current: NDArray[np.bool_]
    size: Integers
    seen: Integers | None = None
    seen_with_attribute: Integers | None = None

    def __len__(self) -> int:
        return len(self.label)

    def take(self, chosen: Integers | NDArray[np.bool_]) -> Groups:
        """Return some groups, selected by index or by a boolean mask."""
        columns: dict[str, Any] = {n: c for n, c in vars(self).items() if c is not None}
        return replace(self, **{name: column[chosen] for name, column in columns.items()})


@dataclass(frozen=True)
class Membership:
    """Groups, with the group of each sample.

    Parameters
    ----------
    groups : Groups
        G groups.
    current : Tensor of int64, shape (n,)
        Group of each current sample.
    memory : Tensor of int64, shape (m,)
        Group of each buffer sample; −1 where the group is measured on the current task.
    """

    groups: Groups
    current: Tensor
    memory: Tensor


def find_groups(
    current: Samples, memory: Samples | None, *, by_attribute: bool, seen: Seen | None = None
) -> Membership:
    """Group the samples by class, or by class and attribute values.

    A group in both the task and the buffer is measured on the task.

    Parameters
    ----------
    current, memory : Samples
        Training data of the task, n samples, and the buffer, m samples or None.
    by_attribute : bool
        Whether attribute values split a class.
    seen : mapping, optional
        ``{(y,): n}`` or ``{(y, z, ...): n}``, samples seen so far; a plain ``y`` means ``(y,)``.
    """
    if by_attribute and current.z is None:
        raise DataError("this measure compares attribute values, but the samples have no z")
    parts = [current] if memory is None else [current, memory]
    columns = [part.keys(by_attribute) for part in parts]
    if (widths := [part.shape[1] - 1 for part in columns])[0] != widths[-1]:
        raise DataError(
            f"the current samples have {widths[0]} attribute(s) and the memory {widths[-1]}; "
            "give z with the same attributes to both"
        )
    rows, index = unique_rows(torch.cat(columns))
    unique: Integers = rows.cpu().numpy()
    size = _counts(index[: len(current)], len(unique))
    now = size > 0
    old = index[len(current) :]
    size += np.where(now, 0, _counts(old, len(unique)))
    counts = None if seen is None else _seen_counts(unique, seen)
    attribute = unique[:, 1:] if unique.shape[1] > 1 else np.zeros((len(unique), 1), dtype=np.int64)
    groups = Groups(
        label=unique[:, 0],
        attribute=attribute[:, 0] if attribute.shape[1] == 1 else attribute,
        current=now,
        size=size,
        seen=None if counts is None else counts[0],
        seen_with_attribute=None if counts is None else counts[1],
    )
    is_now = torch.from_numpy(now).to(old.device)
    return Membership(groups, index[: len(current)], torch.where(is_now[old], -1, old))


def _counts(index: Tensor, groups: int) -> Integers:
    counts: Integers = torch.bincount(index, minlength=groups).cpu().numpy()
    return counts


def _seen_counts(unique: Integers, seen: Seen) -> tuple[Integers, Integers]:
    """Count the samples seen in each group, and with its attribute value over all classes."""
    width = unique.shape[1]
    table: dict[tuple[int, ...], int] = {}
    totals: dict[tuple[int, ...], int] = {}
    for key, count in seen.items():
        cut = (tuple(key) if isinstance(key, tuple) else (key,))[:width]
        table[cut] = table.get(cut, 0) + count
        totals[cut[1:]] = totals.get(cut[1:], 0) + count
    keys = [tuple(row) for row in unique.tolist()]
    missing = [key for key in keys if table.get(key, 0) < 1]
    if missing:
        raise DataError(
            f"`seen` has no count for {missing}; give {{(y, z): samples seen so far}} for every "
            "group, the current task included"
        )
    return (
        np.array([table[key] for key in keys], dtype=np.int64),
        np.array([totals[key[1:]] for key in keys], dtype=np.int64),
    )
