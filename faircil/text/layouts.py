"""Fixed shapes in which the texts of a training step pass through an encoder.

A step that is recorded as a CUDA graph is replayed with the shapes that it was recorded with. Texts
differ in length, so a *layout* says beforehand how many texts pass together, and how wide: texts
are sorted by length, the longest first, and cut into ``PARTS`` of equally many, each as wide as its
longest text, rounded up. Lengths of a batch are drawn from the same data in every step, so few
layouts come again and again; and a batch fits in the layout of another that is nowhere narrower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

PARTS = 4  # more would have less padding, and products too small for a GPU
GRAIN = 32  # tokens; widths are multiples of it
SLACK = 1.15  # tokens of a known layout, by those of a batch's own, with which it is taken


@dataclass(frozen=True)
class Shape:
    """Texts that pass together.

    Parameters
    ----------
    rows : int
    width : int
        Tokens of each, with padding.
    padded : bool
        Whether some may be shorter; if none is, attention needs no mask.
    """

    rows: int
    width: int
    padded: bool

    def covers(self, other: Shape) -> bool:
        """Whether texts of another shape, as many, fit in this one."""
        return self.width >= other.width and (
            self.padded or (not other.padded and self.width == other.width)
        )


@dataclass(frozen=True)
class Layout:
    """The shapes of a step.

    Parameters
    ----------
    parts : tuple of Shape
        From the longest texts to the shortest.
    """

    parts: tuple[Shape, ...]

    @property
    def rows(self) -> int:
        """Texts."""
        return sum(part.rows for part in self.parts)

    @property
    def tokens(self) -> int:
        """Tokens, with padding."""
        return sum(part.rows * part.width for part in self.parts)

    @property
    def chunks(self) -> tuple[Shape, ...]:
        """The parts, with those of the same width together."""
        together = (list(parts) for _, parts in groupby(self.parts, lambda p: (p.width, p.padded)))
        return tuple(
            Shape(sum(part.rows for part in parts), parts[0].width, parts[0].padded)
            for parts in together
        )

    def covers(self, other: Layout) -> bool:
        """Whether texts of another layout, as many, fit in this one."""
        return all(own.covers(their) for own, their in zip(self.parts, other.parts, strict=True))


def layout_of(lengths: Tensor, longest: int) -> Layout:
    """Return the layout of texts.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        Tokens of each text, at least 1; on the CPU.
    longest : int
        Tokens that a row has room for.
    """
    parts = []
    for own in torch.tensor_split(lengths.sort(descending=True).values, PARTS):
        if len(own):
            width = min(-(-int(own[0]) // GRAIN) * GRAIN, longest)
            parts.append(Shape(len(own), width, int(own[-1]) < width))
    return Layout(tuple(parts))


def suitable(own: Layout, known: Sequence[Layout], *, room: bool) -> Layout:
    """Return a known layout that a batch fits in without much padding, else its own.

    Parameters
    ----------
    own : Layout
    known : sequence of Layout
        Of as many texts.
    room : bool
        Whether another layout may become known; else any that it fits in is taken.
    """
    fitting = [layout for layout in known if layout.covers(own)]
    best = min(fitting, key=lambda layout: layout.tokens, default=own)
    return best if not room or best.tokens <= SLACK * own.tokens else own


@dataclass
class Use:
    """A layout, and how often texts passed in it.

    Parameters
    ----------
    layout : Layout
    times : int
    """

    layout: Layout
    times: int = 0


_used: ContextVar[Use | None] = ContextVar("used", default=None)


@contextmanager
def fixed_shapes(layout: Layout) -> Iterator[Use]:
    """Let as many texts as the layout has pass in its shapes, in the block, where they train."""
    use = Use(layout)
    token = _used.set(use)
    try:
        yield use
    finally:
        _used.reset(token)


def fixed_for(rows: int) -> Layout | None:
    """Return the layout in which so many texts are to pass now; None: any shapes will do."""
    use = _used.get()
    if use is None or use.layout.rows != rows:
        return None
    use.times += 1
    return use.layout
