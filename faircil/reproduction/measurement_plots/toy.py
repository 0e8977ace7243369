"""Figure 1: data, forgetting, gradients, and what weights do about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from faircil.plots import COLOURS, MARKERS
from faircil.reproduction.drawing import finish_axes
from faircil.reproduction.measurements.gradients import Point, Vectors
from faircil.reproduction.measurements.toy import ToySeed
from faircil.weighting.groups import Floats

CLASSES = (COLOURS[0], COLOURS[4], COLOURS[2])  # blue, orange and green, as in the paper
WEIGHTED = "#000000"


def draw_toy(shown: ToySeed, replay: Floats, fsw: Floats) -> Figure:
    """Draw four panels.

    Parameters
    ----------
    shown : ToySeed
        The seed whose data and gradients are drawn.
    replay, fsw : ndarray, shape (seeds, 1 + epochs, 3)
        Accuracy of each class before the second task and after each of its epochs.
    """
    figure = Figure(figsize=(10.5, 8.6), layout="constrained")
    (data, forgetting), (gradients, mitigation) = figure.subplots(2, 2)
    _draw_data(data, shown.data)
    _draw_accuracy(forgetting, replay, "(b) Forgetting: accuracy with replay alone")
    _draw_vectors(gradients, shown.vectors)
    _draw_accuracy(mitigation, fsw, "(d) Mitigation: accuracy with FSW")
    return figure


def _draw_data(axes: Axes, data: Sequence[Sequence[Point]]) -> None:
    for label, points in enumerate(data):
        x, y = np.array(points).T
        colour, marker = CLASSES[label], MARKERS[label]
        axes.scatter(x, y, s=12, color=colour, marker=marker, alpha=0.7)
        # Class 2 lies below class 1, and so does its name.
        place = (float(x.mean()), float(y.min() - 0.8 if label == 2 else y.max() + 0.3))
        task = "task 1" if label < 2 else "task 2"
        axes.annotate(f"class {label} ({task})", place, ha="center", color=colour, weight="bold")
    axes.margins(y=0.12)
    axes.set_title("(a) Data", loc="left", fontsize=11)
    axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    finish_axes(axes)


def _draw_accuracy(axes: Axes, values: Floats, title: str) -> None:
    epochs = np.arange(values.shape[1])
    for label, colour in enumerate(CLASSES):
        part, mean = values[:, :, label], values[:, :, label].mean(axis=0)
        axes.plot(epochs, mean, color=colour, marker=MARKERS[label], ms=4, label=f"class {label}")
        axes.fill_between(
            epochs, part.min(axis=0), part.max(axis=0), color=colour, alpha=0.15, lw=0
        )
    axes.set_ylim(-0.03, 1.06)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("epoch of the second task")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("accuracy on test data")
    axes.legend(frameon=False, loc="center right")
    finish_axes(axes)


def _draw_vectors(axes: Axes, vectors: Vectors) -> None:
    for x, y in vectors.samples:
        axes.plot([0, x], [0, y], color=CLASSES[2], alpha=0.12, lw=0.8)
    arrows = {
        "$g_0$": (vectors.means[0], CLASSES[0], "right"),
        "$g_1$": (vectors.means[1], CLASSES[1], "left"),
        "$g_2$": (vectors.means[2], CLASSES[2], "right"),
        "$g_2^*$": (vectors.weighted, WEIGHTED, "left"),
    }
    for name, ((x, y), colour, side) in arrows.items():
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
        reach = 1 + 0.07 / float(np.hypot(x, y))
        axes.annotate(name, (x * reach, y * reach), ha=side, va="center", color=colour, fontsize=13)
    axes.set_aspect("equal")
    axes.set_xlim(-1.15, 1.25)
    axes.set_ylim(-0.4, 1.2)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    axes.set_title("(c) Gradients at the start of the second task", loc="left", fontsize=11)
    axes.set_xlabel("along $g_1$")
    axes.set_ylabel("across")
    finish_axes(axes)
    axes.grid(False)
