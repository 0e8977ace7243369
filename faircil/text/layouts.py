"""Fixed shapes in which the texts of a training step pass through an encoder.

A step recorded as a CUDA graph is replayed with the shape of its recording. So the width of a
batch, its longest text, is rounded up to a multiple of ``GRAIN``: few widths occur, and they recur;
a batch also fits into any larger one. All texts pass together. Sorting them by length and dividing
them into several parts would reduce padding, but each part needs its own kernels for gradients of
weights and biases: on an H200, two parts were no faster and four slower, with evenly drawn lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

GRAIN = 16  # tokens; widths are multiples of it
SLACK = 1.15  # largest relative width of a known layout that is used for a batch


@dataclass(frozen=True)
class Layout:
    """The shape of a step.

    Parameters
    ----------
    rows : int
        Number of texts.
    width : int
        Tokens of each text, with padding.
    """

    rows: int
    width: int

    @property
    def tokens(self) -> int:
        """Total number of tokens, with padding."""
        return self.rows * self.width


def layout_of(rows: int, longest: int, room: int) -> Layout:
    """Return the layout for some texts.

    Parameters
    ----------
    rows : int
        Number of texts.
    longest : int
        Tokens of the longest text.
    room : int
        Maximum number of tokens in a row.
    """
    return Layout(rows, min(-(-longest // GRAIN) * GRAIN, room))


def suitable(own: Layout, known: Sequence[Layout], *, room: bool) -> Layout:
    """Return a known layout that fits a batch without much more padding, else the batch's own.

    Parameters
    ----------
    own : Layout
    known : sequence of Layout
        With the same number of texts.
    room : bool
        Whether a new layout is allowed; otherwise any known one that fits is used.
    """
    fitting = [layout for layout in known if layout.width >= own.width]
    best = min(fitting, key=lambda layout: layout.width, default=own)
    return best if not room or best.width <= SLACK * own.width else own


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
    """Make training texts pass in this shape in the block, if they are as many as its rows."""
    use = Use(layout)
    token = _used.set(use)
    try:
        yield use
    finally:
        _used.reset(token)


def fixed_for(rows: int) -> Layout | None:
    """Return the layout in which this number of texts must currently pass; None: any shape."""
    use = _used.get()
    if use is None or use.layout.rows != rows:
        return None
    use.times += 1
    return use.layout
