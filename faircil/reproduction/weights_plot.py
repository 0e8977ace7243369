"""Mean weights of groups as bars, one panel per task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.plots import COLOURS
from faircil.reproduction.drawing import finish_axes

WORSE = "larger loss"
WRAP = 14  # letters of a class's name on a line


@dataclass(frozen=True)
class Bar:
    """The mean weight of a group, with its interval.

    ``name`` is that of the class, ``value`` that of the attribute value, empty where there is none;
    ``worse``: the loss is larger than that of all groups it is compared with.
    """

    name: str
    value: str
    mean: float
    low: float | None
    high: float | None
    worse: bool


@dataclass(frozen=True)
class BarPanel:
    """A task: one place per class, side by side its attribute values."""

    title: str
    bars: tuple[Bar, ...]


def draw_bars(panels: Sequence[BarPanel], title: str, attribute: str) -> Figure:
    """Draw bars, one panel per task.

    Parameters
    ----------
    panels : sequence of BarPanel
    title : str
    attribute : str
        Its name heads the legend; empty where classes are compared.
    """
    figure = Figure(figsize=(2.7 * len(panels) + 2.0, 3.4), layout="constrained")
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    values = tuple(dict.fromkeys(bar.value for panel in panels for bar in panel.bars))
    for place, panel in zip(axes, panels, strict=True):
        _draw_panel(place, panel, values)
    axes[0].set_ylabel("mean weight", fontsize=9)
    axes[0].set_ylim(0, 1.12)
    figure.align_xlabels()
    handles, labels = axes[0].get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    order = [label for label in (*values, WORSE) if label in by_label]
    axes[-1].legend(
        [by_label[label] for label in order],
        order,
        title=attribute or None,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
    )
    return figure


def _draw_panel(axes: Axes, panel: BarPanel, values: Sequence[str]) -> None:
    names = list(dict.fromkeys(bar.name for bar in panel.bars))
    width = 0.8 / len(values)
    for number, value in enumerate(values):
        bars = [bar for bar in panel.bars if bar.value == value]
        x = np.array([names.index(bar.name) for bar in bars])
        places = x + width * (number - (len(values) - 1) / 2)
        means = [bar.mean for bar in bars]
        axes.bar(places, means, width * 0.92, color=COLOURS[number], label=value)
        for place, bar in zip(places, bars, strict=True):
            if bar.low is not None and bar.high is not None:
                ends = np.clip([bar.low, bar.high], 0, 1)  # no weight is outside
                axes.plot([place, place], ends, color="black", lw=1.1)
        worse = [
            (place, min(max(bar.mean, bar.high or 0), 1))
            for place, bar in zip(places, bars, strict=True)
            if bar.worse
        ]
        if worse:
            at, top = np.array(worse).T
            axes.plot(at, top + 0.05, "v", color="black", markersize=6, label=WORSE)
    axes.set_xticks(range(len(names)), [fill(name, WRAP) for name in names])
    axes.set_xlabel("class", fontsize=9)
    axes.set_title(panel.title, fontsize=10)
    finish_axes(axes)
