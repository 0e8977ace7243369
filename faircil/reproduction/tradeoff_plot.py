"""Accuracy against disparity: a curve, and the points of others around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from faircil.reproduction.drawing import EMPHASIS, Style, finish_axes

Points = NDArray[np.float64]
NEAR = 0.05  # of an axis: labels as near as this are written as one


@dataclass(frozen=True)
class Cloud:
    """Points (n, 2) of accuracy and disparity; ``ours`` are drawn hollow."""

    name: str
    style: Style
    points: Points
    ours: bool = False


@dataclass(frozen=True)
class Curve:
    """Points (n, 2) of accuracy and disparity in the order of what moves along the curve."""

    name: str
    labels: tuple[str, ...]
    points: Points


def draw_tradeoff(curve: Curve, clouds: Sequence[Cloud], title: str, disparity: str) -> Figure:
    """Draw all points on the left, and what surrounds the curve on the right.

    Parameters
    ----------
    curve : Curve
    clouds : sequence of Cloud
    title : str
    disparity : str
        Name of the second axis.
    """
    figure = Figure(figsize=(11.2, 4.3), layout="constrained")
    figure.suptitle(title, fontsize=13)
    whole, near = figure.subplots(1, 2)
    for axes in (whole, near):
        for cloud in clouds:
            axes.plot(
                *cloud.points.T,
                label=cloud.name,
                color=cloud.style.colour,
                marker=cloud.style.marker,
                markerfacecolor="none" if cloud.ours else cloud.style.colour,
                markersize=7,
                lw=0,
            )
        axes.plot(*curve.points.T, label=curve.name, color=EMPHASIS, marker="o", ms=5, lw=1.6)
        axes.set_xlabel("accuracy", fontsize=9)
        finish_axes(axes)
    whole.set_ylabel(disparity, fontsize=9)
    whole.set_title("all (better: right and down)", fontsize=10)
    near.set_title("around FSW, with its λ", fontsize=10)
    _zoom(near, curve.points)
    _write_labels(near, curve)
    near.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    return figure


def _zoom(axes: Axes, points: Points) -> None:
    """Set limits that leave half of the curve's own extent around it, and at least .01."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.maximum(0.5 * (high - low), 0.01)
    (left, bottom), (right, top) = low - margin, high + margin
    axes.set_xlim(left, right)
    axes.set_ylim(max(bottom, 0), top)


def _write_labels(axes: Axes, curve: Curve) -> None:
    """Write labels beside the points, those of points that lie together as one."""
    extent = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    together: list[tuple[Points, list[str]]] = []
    for point, label in zip(curve.points, curve.labels, strict=True):
        for place, labels in together:
            if np.abs((point - place) / extent).max() < NEAR:
                labels.append(label)
                break
        else:
            together.append((point, [label]))
    for place, labels in together:
        axes.annotate(
            ", ".join(labels),
            (place[0], place[1]),
            xytext=(7, -9),
            textcoords="offset points",
            fontsize=8.5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
