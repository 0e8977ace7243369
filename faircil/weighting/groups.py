"""Who is compared with whom: the groups, and what one forward pass tells about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from faircil.errors import DataError
from faircil.samples import Samples
from faircil.weighting.gradients import cosines, find_head, last_layer, mean_gradients

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Seen = Mapping[tuple[int, ...], int]


@dataclass(frozen=True)
class Groups:
    """The groups that take part, sorted by class and attribute; G of them.

    Parameters
    ----------
    label : ndarray of int64, shape (G,)
        Class.
    attribute : ndarray of int64, shape (G,) or (G, attributes)
        Attribute value(s); 0 where groups are classes.
    current : ndarray of bool, shape (G,)
        Whether the group is in the current task; the others are measured on the buffer.
    size : ndarray of int64, shape (G,)
        Number of samples it is measured on.
    seen : ndarray of int64, shape (G,), or None
        Training samples seen so far, the current task included; None if not told.
    seen_with_attribute : ndarray of int64, shape (G,), or None
        The same summed over all classes with the group's attribute value.
    """

    label: Integers
    attribute: Integers
    current: NDArray[np.bool_]
    size: Integers
    seen: Integers | None = None
    seen_with_attribute: Integers | None = None

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class Membership:
    """Row numbers of each group's samples, in the current task or else in the buffer."""

    groups: Groups
    members: tuple[Tensor, ...]

    @property
    def current(self) -> list[int]:
        """Positions of the current groups."""
        return [int(g) for g in np.flatnonzero(self.groups.current)]


def find_groups(
    current: Samples, memory: Samples | None, *, by_attribute: bool, seen: Seen | None = None
) -> Membership:
    """Group the samples by class, or by class and attribute values.

    A group that occurs in both is measured on the current task.

    Parameters
    ----------
    current, memory : Samples
        Training data of the task, and the buffer (None or empty: there is none).
    by_attribute : bool
        Whether attribute values split a class.
    seen : mapping, optional
        ``{(y,): n}`` or ``{(y, z, ...): n}``, samples seen so far; a plain ``y`` is ``(y,)``.
    """
    if by_attribute and current.z is None:
        raise DataError("this measure compares attribute values, but the samples have no z")
    parts = [current] if memory is None or len(memory) == 0 else [current, memory]
    keys = torch.cat([part.keys(by_attribute) for part in parts]).cpu().numpy()
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    now = np.zeros(len(unique), dtype=bool)
    now[inverse[: len(current)]] = True
    here = np.where(now[inverse], np.arange(len(keys)) < len(current), True)
    order = np.flatnonzero(here)[np.argsort(inverse[here], kind="stable")]
    size = np.bincount(inverse[here], minlength=len(unique))
    rows = np.where(order < len(current), order, order - len(current))
    members = torch.split(torch.from_numpy(rows).to(current.y.device), size.tolist())
    attribute = unique[:, 1:] if unique.shape[1] > 1 else np.zeros((len(unique), 1), dtype=np.int64)
    counts = None if seen is None else _seen_counts(unique, seen)
    groups = Groups(
        label=unique[:, 0],
        attribute=attribute[:, 0] if attribute.shape[1] == 1 else attribute,
        current=now,
        size=size,
        seen=None if counts is None else counts[0],
        seen_with_attribute=None if counts is None else counts[1],
    )
    return Membership(groups, members)


def _seen_counts(unique: Integers, seen: Seen) -> tuple[Integers, Integers]:
    """Count what was seen of each group, and of its attribute value over all classes."""
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


@dataclass(frozen=True)
class GroupStatistics:
    """What the program needs to know, in float64.

    Parameters
    ----------
    losses : ndarray, shape (G,)
        Mean cross-entropy of each group.
    alignment : ndarray, shape (G, n)
        Cosine of each current sample's gradient with each group's mean gradient.
    """

    losses: Floats
    alignment: Floats


def group_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    head: nn.Linear | str | None = None,
) -> GroupStatistics:
    """Measure all groups with the net as it is: one forward pass over task and buffer."""
    layer = find_head(net, current.x, head)
    now = membership.groups.current
    factors = last_layer(net, layer, current.x, current.y)
    sides = [(factors, now)]
    if memory is not None and not now.all():
        sides.append((last_layer(net, layer, memory.x, memory.y), ~now))
    losses = torch.empty(len(now), dtype=torch.float64)
    gradients: list[Tensor] = [factors.delta] * len(now)
    for side, mask in sides:
        chosen = np.flatnonzero(mask).tolist()
        rows = [membership.members[g] for g in chosen]
        for g, mean in zip(chosen, mean_gradients(side, rows), strict=True):
            losses[g] = side.losses[membership.members[g]].double().mean()
            gradients[g] = mean
    alignment = cosines(factors, torch.stack(gradients))
    return GroupStatistics(losses.numpy(), alignment.double().cpu().numpy())
