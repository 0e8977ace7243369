"""The trade-off between accuracy and disparity: which trials nothing else beats, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.plots import COLOURS, TITLES

Point = tuple[float, float]  # accuracy and disparity


def front(points: Sequence[Point]) -> list[int]:
    """Return the positions of points that no other beats, from the fairest to the most accurate.

    A point beats another if it is no worse in both values and better in one. Equal points beat
    neither: the first stands for all.
    """
    found: list[int] = []
    # By disparity, the most accurate of equals first: a point is beaten unless it is more accurate
    # than all before it.
    for position in sorted(range(len(points)), key=lambda i: (points[i][1], -points[i][0], i)):
        if not found or points[position][0] > points[found[-1]][0]:
            found.append(position)
    return found


def draw_front(
    points: Sequence[Point],
    chosen: int | None,
    *,
    disparity: str,
    bound: float | None,
    title: str,
) -> Figure:
    """Draw accuracy against disparity of all trials, numbered as they are ranked.

    Parameters
    ----------
    points : sequence of (accuracy, disparity)
        The best first.
    chosen : int or None
        Position of the chosen one.
    disparity : str
        Name of the metric.
    bound : float or None
        Largest disparity that is allowed.
    title : str
    """
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    # A title that can be as long as the picture is wide.
    figure.suptitle(title, fontsize=11, wrap=True)
    best = front(points)
    rest = [position for position in range(len(points)) if position not in best]
    blue, orange, green = COLOURS[:3]
    _scatter(axes, [points[i] for i in rest], "beaten by another", c="#999999", s=36)
    line = [points[i] for i in best]
    # Steps, since nothing is known to lie between two points.
    x, y = [gap for _, gap in line], [accuracy for accuracy, _ in line]
    axes.plot(x, y, color=blue, lw=1.6, drawstyle="steps-post", zorder=2)
    _scatter(axes, line, "nothing is fairer and more accurate (number: rank)", c=blue, s=46)
    if chosen is not None:
        _scatter(axes, [points[chosen]], "chosen", c=orange, s=230, marker="*")
    if bound is not None:
        axes.axvline(bound, color=green, ls="--", lw=1.4, label=f"allowed: up to {bound:g}")
    for position in {*best, *([] if chosen is None else [chosen])}:
        accuracy, gap = points[position]
        axes.annotate(
            str(position + 1), (gap, accuracy), (7, -12), textcoords="offset points", fontsize=9
        )
    axes.set_xlabel(TITLES[disparity])
    axes.set_ylabel(TITLES["accuracy"])
    axes.margins(0.08)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if min(d for _, d in points) < 0 else 0.0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _scatter(axes: Axes, points: Sequence[Point], label: str, **style: Any) -> None:
    if points:
        axes.scatter([d for _, d in points], [a for a, _ in points], label=label, zorder=3, **style)
