"""A whole dataset before it is cut into tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from faircil.data.stream import Part


@dataclass(frozen=True)
class Parts:
    """Training and test part with the names of classes and attribute values.

    ``notes`` and ``texts`` are those of :class:`faircil.data.stream.TaskStream`.
    """

    train: Part
    test: Part
    class_names: tuple[str, ...]
    attribute: str | None = None
    attribute_values: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    texts: tuple[str, ...] | None = field(default=None, repr=False)
