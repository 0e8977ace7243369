"""Labelled samples (inputs, classes, attribute values) and their grouping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from faircil.errors import DataError, raise_all

# Inputs of a net: a tensor, (n, ...), or a tuple, list or mapping of tensors.
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]


def rows_of(x: Inputs, index: Tensor | slice | None) -> Any:
    """Return ``x[index]``; for inputs with several parts, index each part."""
    if isinstance(x, Tensor):
        return x[index]
    if isinstance(x, Mapping):
        return {name: rows_of(part, index) for name, part in x.items()}
    return tuple(rows_of(part, index) for part in x)


def unique_rows(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows, sorted, and the index of each row among them.

    Works column by column: comparing scalars is much faster than comparing rows.

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
    """Return the rows of each group, given each sample's group (negative: none)."""
    order = torch.argsort(index, stable=True)
    order = order[int((index < 0).sum()) :]
    sizes = torch.bincount(index[order], minlength=groups)
    return torch.split(order, sizes.tolist())


def _numbered(values: Tensor) -> tuple[Tensor, int]:
    """Return the rank of each value among the distinct values, (n,), and how many are distinct."""
    if not len(values):
        return values, 0
    shifted = values - values.min()
    reach = int(shifted.max()) + 1
    if reach > 4 * len(values) + 1024:
        distinct, place = torch.unique(values, return_inverse=True)
        return place, len(distinct)
    # A small range of values needs no sorting: mark the values that occur, and count the marks.
    number = (torch.bincount(shifted, minlength=reach) > 0).cumsum(0)
    return number[shifted] - 1, int(number[-1])


@dataclass(frozen=True)
class Samples:
    """Inputs with their classes and, optionally, their sensitive attribute.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs, ready for the net.
    y : Tensor of int64, shape (n,)
        Classes.
    z : Tensor of int64, shape (n,) or (n, attributes), optional
        Values of the sensitive attribute; negative values such as −1 are unknown. Several columns
        are several attributes: a group is then a class with a combination of values. None: no
        attribute.
    """

    x: Tensor
    y: Tensor
    z: Tensor | None = None

    def __post_init__(self) -> None:
        mistakes = [
            f"{name} is a {type(part).__name__}, expected a tensor: torch.as_tensor({name})"
            for name, part in vars(self).items()
            if not isinstance(part, Tensor) and (name != "z" or part is not None)
        ]
        raise_all(mistakes, DataError)
        if self.y.ndim != 1 or self.y.dtype != torch.int64:
            mistakes.append(
                f"y has shape {tuple(self.y.shape)} and type {self.y.dtype}, "
                "expected (n,) and torch.int64"
            )
        if self.x.layout is not torch.strided:
            mistakes.append(f"x has the layout {self.x.layout}, expected a dense one: x.to_dense()")
        if self.x.shape[:1] != self.y.shape[:1]:
            mistakes.append(self._unequal("x", self.x))
        if self.z is not None:
            if self.z.ndim not in (1, 2) or self.z.dtype != torch.int64:
                mistakes.append(
                    f"z has shape {tuple(self.z.shape)} and type {self.z.dtype}, "
                    "expected (n,) or (n, attributes) and torch.int64"
                )
            if self.z.shape[:1] != self.y.shape[:1]:
                mistakes.append(self._unequal("z", self.z))
        raise_all(mistakes, DataError)

    def _unequal(self, name: str, part: Tensor) -> str:
        return (
            f"{name} has shape {tuple(part.shape)} and y {tuple(self.y.shape)}, "
            "expected one row per sample in both"
        )

    def __len__(self) -> int:
        return len(self.y)

    def digest(self) -> str:
        """Return a hash of the content that identifies the samples."""
        whole = sha256()
        for part in (self.x, self.y, self.z):
            if part is not None:
                whole.update(part.cpu().contiguous().numpy().data)
        return whole.hexdigest()

    def take(self, index: Tensor | slice) -> Samples:
        """Return the samples at ``index``: row numbers or a mask (copied), or a slice (a view)."""

        def part(values: Tensor) -> Tensor:
            if isinstance(index, Tensor) and index.dtype == torch.int64:
                return values.index_select(0, index)  # several times faster than values[index]
            return values[index]

        return Samples(part(self.x), part(self.y), None if self.z is None else part(self.z))

    def part(self, index: Tensor) -> Samples:
        """Return the samples at ``index``; those divided among processes keep to their process."""
        return self.take(index)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the result of a function of the inputs, (n, ...)."""
        return function(self.x)

    def joined(self, others: Sequence[Samples]) -> Samples:
        """Return these samples followed by others; either all or none have an attribute."""
        parts = [self, *others]
        attributes = [part.z for part in parts if part.z is not None]
        return Samples(
            torch.cat([part.x for part in parts]),
            torch.cat([part.y for part in parts]),
            torch.cat(attributes) if attributes else None,
        )

    def to(self, device: torch.device | str) -> Samples:
        """Return the samples on ``device``, without a copy if they are already there."""
        z = None if self.z is None else self.z.to(device)
        return Samples(self.x.to(device), self.y.to(device), z)

    @property
    def unknown(self) -> Tensor:
        """Whether each sample has an unknown attribute value, (n,)."""
        negative: Tensor = (self.keys()[:, 1:] < 0).any(dim=1)
        return negative

    def keys(self, by_attribute: bool = True) -> Tensor:
        """Return the group key of each sample: its class and attribute values.

        Returns
        -------
        Tensor of int64, shape (n, 1 + attributes)
            Only the class column if there is no attribute or ``by_attribute`` is false.
        """
        columns = [self.y[:, None]]
        if by_attribute and self.z is not None:
            columns.append(self.z if self.z.ndim == 2 else self.z[:, None])
        return torch.cat(columns, dim=1)


def concatenate(parts: Sequence[Samples]) -> Samples:
    """Concatenate samples in order; either all or none have an attribute."""
    attributes = [part.z for part in parts if part.z is not None]
    if attributes and len(attributes) < len(parts):
        raise DataError(
            f"{len(attributes)} of {len(parts)} sets of samples have an attribute z and the rest "
            "do not; give z to all of them or to none"
        )
    return parts[0].joined(parts[1:])


def refuse_unknown(samples: Samples, what: str) -> None:
    """Raise a DataError if attribute values are unknown, since ``what`` needs all of them."""
    number = int(samples.unknown.sum())
    if number:
        raise DataError(
            f"{number:,} of {len(samples):,} samples have an unknown attribute value (z < 0), and "
            f"{what} needs all of them; fill them in, leave these samples out, or use the method "
            "'moments' without post-processing"
        )


def group_counts(samples: Samples) -> dict[tuple[int, ...], int]:
    """Count the samples of each group, keyed ``(y,)`` or ``(y, z, ...)``."""
    keys, index = unique_rows(samples.keys())
    counts = torch.bincount(index, minlength=len(keys)).tolist()
    return {tuple(key): count for key, count in zip(keys.tolist(), counts, strict=True)}
