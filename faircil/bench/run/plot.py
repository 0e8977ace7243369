"""Where the time of runs goes, and how it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from matplotlib.figure import Figure

from faircil.bench.run.record import ScalePoint
from faircil.bench.run.scaling import LABELS
from faircil.bench.run.summary import MethodCost
from faircil.plots import COLOURS, MARKERS
from faircil.results.record import Seconds

PARTS = tuple(field.name for field in fields(Seconds) if field.name != "total")


def time_split(rows: Sequence[MethodCost]) -> Figure:
    """Draw a bar per method, split into what the time went to, one panel per dataset."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    height = 1.0 + sum(0.4 + 0.35 * sum(row.dataset == name for row in rows) for name in datasets)
    figure = Figure(figsize=(7.2, height), layout="constrained")
    panels = figure.subplots(len(datasets), 1, squeeze=False)[:, 0]
    for axes, dataset in zip(panels, datasets, strict=True):
        part = [row for row in rows if row.dataset == dataset]
        left = [0.0] * len(part)
        for name, colour in zip(PARTS, COLOURS, strict=False):
            widths = [getattr(row.seconds, name) for row in part]
            axes.barh([row.method for row in part], widths, left=left, color=colour, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_title(dataset, fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    panels[-1].set_xlabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def growth(points: Sequence[ScalePoint]) -> Figure:
    """Draw the time of an epoch's weights against each factor, both logarithmic."""
    factors = list(dict.fromkeys(point.factor for point in points))
    figure = Figure(figsize=(1.2 + 3.0 * len(factors), 3.6), layout="constrained")
    figure.suptitle("weights of one epoch, generated data")
    panels = figure.subplots(1, len(factors), squeeze=False, sharey=True)[0]
    for axes, factor in zip(panels, factors, strict=True):
        part = [point for point in points if point.factor == factor]
        values = [point.value for point in part]
        for position, (name, label) in enumerate((("statistics", "statistics"), ("lp", "LP"))):
            axes.plot(
                values,
                [getattr(point, name) for point in part],
                label=label,
                color=COLOURS[position],
                marker=MARKERS[position],
                lw=1.8,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
        axes.set_xlabel(LABELS.get(factor, factor))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure
