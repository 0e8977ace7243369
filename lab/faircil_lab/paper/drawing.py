"""Lines with intervals, in rows of panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from faircil.report.plots import COLOURS, MARKERS
from faircil.report.statistics import interval

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


PANELS = 3  # in a row


def draw_panels(title: str, draws: Sequence[Callable[[Axes], None]]) -> Figure:
    """Draw panels in rows of three, with one legend of all below them.

    Parameters
    ----------
    title : str
    draws : sequence of callable
        Each draws one panel.
    """
    rows = max(1, -(-len(draws) // PANELS))
    figure = Figure(figsize=(4.1 * PANELS, 3.3 * rows + 0.9), layout="constrained")
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(rows, PANELS, squeeze=False).ravel()
    for place, draw in zip(axes, draws, strict=False):
        draw(place)
    for place in axes[len(draws) :]:
        place.set_axis_off()
    handles = {
        label: handle
        for place in axes
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9
    )
    return figure


@dataclass(frozen=True)
class Line:
    """A line with an interval around each point.

    Parameters
    ----------
    name : str
        In the legend.
    style : Style
    x : tuple of float
    middle, low, high : ndarray, shape (len(x),)
        NaN where there is none.
    """

    name: str
    style: Style
    x: tuple[float, ...]
    middle: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class LinePanel:
    """Lines over one axis."""

    title: str
    x_label: str
    lines: tuple[Line, ...]


def make_line(
    name: str, style: Style, x: Sequence[float], values: Sequence[Sequence[float | None]]
) -> Line:
    """Make a line of means over seeds with their 95 % intervals.

    Parameters
    ----------
    name : str
    style : Style
    x : sequence of float
    values : sequence of sequence
        The values of all seeds at each x; a gap where one is None.
    """
    points = []
    for at_x in values:
        known = [value for value in at_x if value is not None]
        if len(known) < len(at_x):
            points.append((np.nan, np.nan, np.nan))
            continue
        found = interval(known)
        low, high = (np.nan if end is None else end for end in (found.low, found.high))
        points.append((found.mean, low, high))
    middle, low, high = np.array(points, dtype=np.float64).T
    return Line(name, style, tuple(x), middle, low, high)


def draw_lines(
    rows: Sequence[Sequence[LinePanel]], title: str, *, doubling: bool = False
) -> Figure:
    """Draw rows of panels, a legend to the right of each row.

    Parameters
    ----------
    rows : sequence of sequence of LinePanel
        Of equal length; the panels of a row show the same lines.
    title : str
    doubling : bool
        Whether x doubles from point to point.
    """
    n_columns = len(rows[0])
    figure = Figure(figsize=(3.9 * n_columns + 2.2, 3.1 * len(rows) + 0.3), layout="constrained")
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(len(rows), n_columns, squeeze=False)
    for row, panels in zip(axes, rows, strict=True):
        for place, panel in zip(row, panels, strict=True):
            _draw_panel(place, panel, doubling)
        row[-1].legend(
            *row[0].get_legend_handles_labels(),
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
            frameon=False,
            fontsize=9,
        )
    return figure


def _draw_panel(axes: Axes, panel: LinePanel, doubling: bool) -> None:
    for line in panel.lines:
        style = line.style
        axes.plot(
            line.x,
            line.middle,
            label=line.name,
            color=style.colour,
            marker=style.marker,
            markersize=4.5,
            linestyle=style.dashes,
            lw=style.width,
        )
        axes.fill_between(line.x, line.low, line.high, color=style.colour, alpha=0.13, lw=0)
    if doubling:
        axes.set_xscale("log", base=2)
    axes.set_xticks(ticks := sorted({x for line in panel.lines for x in line.x}))
    axes.set_xticklabels([f"{tick:g}" for tick in ticks])
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylim(*_limits(panel.lines))
    finish_axes(axes)


def _limits(lines: Sequence[Line]) -> tuple[float, float]:
    """Return limits around all lines but the bounds, which would press the others together."""
    compared = [line for line in lines if line.style.colour != REFERENCE] or lines
    ends = np.concatenate(
        [part for line in compared for part in (line.middle, line.low, line.high)]
    )
    low, high = np.nanmin(ends), np.nanmax(ends)
    if all(np.nanmin(line.middle) >= 0 for line in compared):
        low = max(low, 0)  # an interval may go below what the value can be
    margin = 0.05 * (high - low) or 0.05
    return float(low - margin), float(high + margin)
