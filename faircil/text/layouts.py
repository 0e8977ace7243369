"""Fixed shapes in which the texts of a training step pass through an encoder.

A step that is recorded as a CUDA graph is replayed with the shape that it was recorded with. So the
width of a batch, its longest text, is rounded up to a multiple of ``GRAIN``: few widths come again
and again, and a batch fits in any that is larger. All texts pass together. Sorted by length and cut
into several parts they would have less padding, but every part takes its own kernels for gradients
of weights and biases: two parts were no faster on an H200, four slower, with lengths drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

GRAIN = 16  # tokens; widths are multiples of it
SLACK = 1.15  # width of a known layout, by that of a batch's own, with which it is taken


@dataclass(frozen=True)
class Layout:
    """The shape of a step.

    Parameters
    ----------
    rows : int
        Texts.
    width : int
        Tokens of each, with padding.
    """

    rows: int
    width: int

    @property
    def tokens(self) -> int:
        """Tokens in all, with padding."""
        return self.rows * self.width


def layout_of(rows: int, longest: int, room: int) -> Layout:
    """Return the layout of texts.

    Parameters
    ----------
    rows : int
        Texts.
    longest : int
        Tokens of the longest.
    room : int
        Tokens that a row has room for.
    """
    return Layout(rows, min(-(-longest // GRAIN) * GRAIN, room))


def suitable(own: Layout, known: Sequence[Layout], *, room: bool) -> Layout:
    """Return a known layout that a batch fits in without much more padding, else its own.

    Parameters
    ----------
    own : Layout
    known : sequence of Layout
        Of as many texts.
    room : bool
        Whether another layout may become known; else any that it fits in is taken.
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
    """Let as many texts as the layout has pass in its shape, in the block, where they train."""
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
