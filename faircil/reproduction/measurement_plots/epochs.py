"""Values epoch by epoch, tasks side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.plots import COLOURS
from faircil.reproduction.drawing import finish_axes
from faircil.weighting.groups import Floats

DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class EpochPanel:
    """A panel.

    Parameters
    ----------
    title : str
    tasks : tuple of int
        Of each epoch, E of them in order.
    lines : mapping
        From a name to values, (seeds, E).
    """

    title: str
    tasks: tuple[int, ...]
    lines: Mapping[str, Floats]


def draw_errors(panels: Sequence[EpochPanel], label: str) -> Figure:
    """Draw lines on a logarithmic scale: mean over seeds, and a band from the least to the most."""
    figure = Figure(figsize=(9.5, 3.2 * len(panels) + 0.5), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        for number, (name, values) in enumerate(panel.lines.items()):
            _draw_line(axes, panel, values, name, COLOURS[number], DASHES[number])
        axes.set_yscale("log")
        axes.set_ylabel(label)
        _finish(axes, panel)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_together(panels: Sequence[EpochPanel]) -> Figure:
    """Draw the two lines of each panel, each on a scale of its own."""
    figure = Figure(figsize=(9.5, 3.2 * len(panels)), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        scales = (axes, axes.twinx())
        for number, (name, values) in enumerate(panel.lines.items()):
            scale, colour = scales[number], COLOURS[number]
            _draw_line(scale, panel, values, name, colour, DASHES[number])
            scale.set_ylabel(name, color=colour)
            scale.tick_params(axis="y", colors=colour)
            scale.set_ylim(bottom=0)
        _finish(axes, panel)
        scales[1].spines["top"].set_visible(False)
        scales[1].tick_params(labelsize=8.5)
    return figure


def _draw_line(
    axes: Axes, panel: EpochPanel, values: Floats, name: str, colour: str, dashes: str
) -> None:
    """Draw a line task by task: what lies between two tasks is no trend."""
    epochs = np.arange(1, len(panel.tasks) + 1)
    for task in dict.fromkeys(panel.tasks):
        rows = np.array(panel.tasks) == task
        part, label = values[:, rows], name if task == panel.tasks[0] else None
        (line,) = axes.plot(epochs[rows], part.mean(axis=0), label=label, color=colour)
        line.set(linestyle=dashes, linewidth=1.6, marker="o", markersize=3)
        if len(values) > 1:
            low, high = part.min(axis=0), part.max(axis=0)
            axes.fill_between(epochs[rows], low, high, color=colour, alpha=0.15, lw=0)


def _finish(axes: Axes, panel: EpochPanel) -> None:
    finish_axes(axes)
    axes.set_title(panel.title, fontsize=11, loc="left", pad=16)
    axes.set_xlabel("epoch of the task")
    axes.set_xlim(0.5, len(panel.tasks) + 0.5)
    starts = [k for k, task in enumerate(panel.tasks) if k == 0 or task != panel.tasks[k - 1]]
    ticks = [
        (start + epoch, epoch)
        for start, end in pairwise([*starts, len(panel.tasks)])
        for epoch in range(1, end - start + 1)
        if end - start <= 8 or epoch % 5 == 0
    ]
    axes.set_xticks(*zip(*ticks, strict=True))
    for start in starts:
        if start:
            axes.axvline(start + 0.5, color="0.8", lw=0.8, zorder=0)
        place = (start + 0.6, 1.01)
        axes.annotate(
            f"task {panel.tasks[start]}",
            place,
            xycoords=axes.get_xaxis_transform(),
            fontsize=8.5,
            color="0.35",
        )
