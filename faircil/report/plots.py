"""Plots of metrics over tasks, of two-dimensional samples and of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.spatial import KDTree

from faircil.errors import FaircilError
from faircil.metrics import METRICS
from faircil.report import Row
from faircil.report.table import LEVELS, levels_down
from faircil.results.record import spread

# Okabe and Ito's palette, which is safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HOLLOW = "hollow: lower than another line, but nobody gains by it (levelling down)"


FINE = 240  # grid cells of a region along an axis


class Panel(Protocol):
    """A panel above the lines of metrics."""

    def draw(self, axes: Axes) -> None:
        """Draw the panel."""


@dataclass(frozen=True)
class Plane:
    """Test samples with two features, and a method's predictions for them.

    Parameters
    ----------
    title : str
    x : ndarray of float, shape (n, 2)
    classes, predicted : sequence of str, length n
        Name of the true class of each sample, and of the predicted one.
    """

    title: str
    x: NDArray[np.floating[Any]]
    classes: Sequence[str]
    predicted: Sequence[str]

    def draw(self, axes: Axes) -> None:
        """Draw samples in the colour of their class, with a cross on wrong predictions.

        The regions of the classes are behind them: the colour at a point is that of the prediction
        for the nearest sample.
        """
        labels, predicted = np.array(self.classes), np.array(self.predicted)
        names = list(dict.fromkeys(self.classes))
        colours = [COLOURS[position % len(COLOURS)] for position in range(len(names))]
        right = labels == predicted
        for name, colour in zip(names, colours, strict=True):
            chosen = labels == name
            told = f"class {name}: {right[chosen].mean():.0%} right"
            across, up = self.x[chosen].T
            axes.scatter(across, up, s=7, alpha=0.55, lw=0, color=colour, label=told)
        across, up = self.x[~right].T
        axes.scatter(across, up, s=14, marker="x", lw=0.7, color="#333333", label="predicted wrong")
        low, high = self.x.min(axis=0), self.x.max(axis=0)
        margin = 0.03 * (high - low)
        (left, bottom), (end, top) = low - margin, high + margin
        grid = np.stack(
            np.meshgrid(np.linspace(left, end, FINE), np.linspace(bottom, top, FINE)), axis=-1
        )
        nearest = KDTree(self.x).query(grid.reshape(-1, 2))[1].reshape(FINE, FINE)
        number = np.array([names.index(name) if name in names else 0 for name in predicted])
        axes.imshow(
            number[nearest],
            extent=(left, end, bottom, top),
            origin="lower",
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=len(names) - 0.5,
            alpha=0.16,
            interpolation="nearest",
            zorder=0,
        )
        axes.set_title(self.title, fontsize=11)
        axes.set_aspect("equal", adjustable="datalim")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False, markerscale=2, loc="best")


@dataclass(frozen=True)
class GroupPanel:
    """Accuracy of every group of the test data by a final model, class by class.

    Parameters
    ----------
    title : str
    accuracy : mapping
        From class and attribute value, by name, to accuracy.
    """

    title: str
    accuracy: Mapping[tuple[str, str], float]

    def draw(self, axes: Axes) -> None:
        """Draw a marker for each attribute value; those of a class are joined by a line."""
        classes = list(dict.fromkeys(label for label, _ in self.accuracy))
        values = list(dict.fromkeys(value for _, value in self.accuracy))
        for place, label in enumerate(classes):
            own = [
                self.accuracy[label, value] for value in values if (label, value) in self.accuracy
            ]
            axes.plot([place, place], [min(own), max(own)], color="#999999", lw=4, zorder=1)
        for position, value in enumerate(values):
            places = [n for n, label in enumerate(classes) if (label, value) in self.accuracy]
            heights = [self.accuracy[classes[n], value] for n in places]
            colour, marker = COLOURS[-1 - position % len(COLOURS)], MARKERS[position % len(MARKERS)]
            axes.scatter(places, heights, color=colour, marker=marker, label=value, s=38)
        axes.set_xticks(range(len(classes)), classes, fontsize=8)
        axes.set_xlabel("class, in the order of tasks", fontsize=9)
        axes.set_ylim(0, 1.02)
        axes.set_title(self.title, fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize=8, frameon=False, loc="lower left")


def over_tasks(
    rows: Sequence[Row], metrics: Sequence[str], title: str, above: Sequence[Panel] = ()
) -> Figure:
    """Draw metrics after each task, one panel per metric, one line per configuration.

    A line is the mean over seeds, its band one standard deviation; it has a gap where a metric is
    undefined. In the panel of a disparity, a hollow marker indicates levelling down: the disparity
    is lower than on another line, but no group gains (:func:`faircil.report.table.levels_down`).

    Parameters
    ----------
    rows : sequence of Row
    metrics : sequence of str
    title : str
    above : sequence of Panel
        Panels above the lines.
    """
    height = 4.2 * (2 if above else 1)
    figure = Figure(figsize=(4.6 * len(metrics), height), layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(2 if above else 1, 1)
    if above:
        first = grid[0].subgridspec(1, len(above)).subplots(squeeze=False)[0]
        for axes, panel in zip(first, above, strict=True):
            panel.draw(axes)
    panels = grid[-1].subgridspec(1, len(metrics)).subplots(squeeze=False)[0]
    hollow = False
    for axes, metric in zip(panels, metrics, strict=True):
        for position, row in enumerate(rows):
            hollow |= _line(axes, row, metric, position, rows)
        axes.set_title(METRICS[metric].axis_title, fontsize=11)
        axes.set_xlabel("after task")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(*_limits(metric, *axes.get_ylim()))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    if hollow:
        handles.append(Line2D([], [], color="#555555", marker="o", mfc="white", lw=0))
        labels.append(HOLLOW)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _line(axes: Axes, row: Row, metric: str, position: int, rows: Sequence[Row]) -> bool:
    """Draw the line of a configuration; return whether one of its markers is hollow."""
    tasks = range(1, len(row.runs[0].per_task) + 1)
    mean, std = np.array([_after(row, task, metric) for task in tasks], dtype=np.float64).T
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    axes.plot(tasks, mean, label=row.name, color=colour, marker=marker, lw=1.8)
    if len(row.runs) > 1:
        axes.fill_between(tasks, mean - std, mean + std, color=colour, alpha=0.15, lw=0)
    low = [
        task
        for task in tasks
        if METRICS[metric].is_disparity and any(_levels_down(row, r, task, metric) for r in rows)
    ]
    if low:
        heights = mean[[task - 1 for task in low]]
        axes.plot(low, heights, color=colour, marker=marker, mfc="white", mew=1.6, lw=0, zorder=3)
    return bool(low)


def _after(row: Row, task: int, metric: str) -> tuple[float | None, float | None]:
    """Return mean and deviation of a metric after a task; None where undefined."""
    tasks = [run.per_task[task - 1] if task <= len(run.per_task) else {} for run in row.runs]
    return spread([values.get(metric) for values in tasks])


def _levels_down(row: Row, other: Row, task: int, metric: str) -> bool:
    own, theirs = (
        {name: _after(some, task, name)[0] for name in (metric, *LEVELS)} for some in (row, other)
    )
    return levels_down(own, theirs, metric)


def _limits(metric: str, lowest: float, highest: float) -> tuple[float, float]:
    """Return the ends of an axis, which are those of the metric if it has any."""
    bottom, top = METRICS[metric].limits
    margin = 0.02  # otherwise a marker at the top is cut off
    return min(0.0, lowest) if bottom is None else bottom, highest if top is None else top + margin


def save(figure: Figure, stem: Path, *, math: bool = False) -> list[Path]:
    """Write a figure as ``stem.png`` and ``stem.svg``; return the files.

    Parameters
    ----------
    figure : Figure
    stem : Path
    math : bool
        Whether ``$…$`` in texts is mathematics; in names from user files it is not.
    """
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(math)
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "faircil", "savefig.dpi": 150}):
            for file in files:
                figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except OSError as error:
        raise FaircilError(
            f"cannot write the figure {stem}: {error.strerror or error}; free space, or choose "
            "another folder"
        ) from None
    return files
