"""Data in the plane."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from faircil.plots import COLOURS
from faircil.reproduction.measurements.tsne import Plane, strangers

# Ten colours are not told apart by everybody: every class has its name in its midst, too.
CLASS_COLOURS = (*COLOURS, "#999999", "#F0E442", "#882255")
MIXED = 0.5  # neighbours of other classes: beyond, a class has no midst to put its name in
MARKS = ("o", "x")  # of the attribute's values


def draw_planes(planes: Mapping[str, Plane]) -> Figure:
    """Draw a panel for each dataset, a colour and a name for each class."""
    rows = (len(planes) + 1) // 2
    figure = Figure(figsize=(11, 4.9 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes in panels[len(planes) :]:
        axes.set_visible(False)
    for axes, (title, plane) in zip(panels, planes.items(), strict=False):
        _draw_plane(axes, plane)
        axes.set_title(title, fontsize=11)
    return figure


def _draw_plane(axes: Axes, plane: Plane) -> None:
    points, labels = np.array(plane.points), np.array(plane.labels)
    values = np.array(plane.attributes) if plane.attributes else np.zeros(len(labels))
    for label, name in enumerate(plane.names):
        colour = CLASS_COLOURS[label % len(CLASS_COLOURS)]
        axes.scatter([], [], s=25, color=colour, label=name)
        for value, mark in enumerate(MARKS):
            x, y = points[(labels == label) & (values == value)].T
            size = 7 if mark == "o" else 16
            axes.scatter(x, y, s=size, color=colour, marker=mark, linewidths=0.8, alpha=0.6)
    if strangers(plane).mean() > MIXED:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=3, frameon=False)
    else:
        _name_classes(axes, plane)
        axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    axes.set_xticks([])
    axes.set_yticks([])


def _name_classes(axes: Axes, plane: Plane) -> None:
    points, labels = np.array(plane.points), np.array(plane.labels)
    for label, name in enumerate(plane.names):
        x, y = np.median(points[labels == label], axis=0).tolist()
        text = axes.annotate(name, (x, y), ha="center", va="center", fontsize=10)
        text.set(fontweight="bold", path_effects=[withStroke(linewidth=3, foreground="white")])
