"""What all figures share: colours, axes, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.plots import COLOURS, MARKERS

EMPHASIS = "#000000"  # of the method that a figure is about
REFERENCE = "#888888"  # of bounds, which take no part in the comparison
OTHERS = tuple(colour for colour in COLOURS if colour != EMPHASIS)


@dataclass(frozen=True)
class Style:
    """How a line looks."""

    colour: str
    marker: str
    dashes: str = "-"
    width: float = 1.6


def style_of(number: int) -> Style:
    """Return the look of the line with this number, from 0, among those that are compared."""
    return Style(OTHERS[number % len(OTHERS)], MARKERS[number % len(MARKERS)])


def finish_axes(axes: Axes) -> None:
    """Take away what carries nothing."""
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def write_png(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same file."""
    with matplotlib.rc_context({"savefig.dpi": 110}):
        figure.savefig(path, metadata={"Software": None})
