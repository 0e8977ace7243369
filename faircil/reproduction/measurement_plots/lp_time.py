"""Time of one program against its size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from faircil.bench.lp.published import CPLEX
from faircil.plots import COLOURS, MARKERS
from faircil.reproduction.drawing import REFERENCE, finish_axes
from faircil.reproduction.measurements.lp_fit import Fit


def draw_times(fits: Mapping[str, Fit]) -> Figure:
    """Draw seconds against samples, both logarithmic, with a fitted line for each solver."""
    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.subplots()
    ends = [min(min(fit.sizes) for fit in fits.values()), max(max(f.sizes) for f in fits.values())]
    for number, (name, fit) in enumerate(fits.items()):
        colour, marker = COLOURS[number], MARKERS[number]
        axes.scatter(fit.sizes, fit.seconds, s=18, color=colour, marker=marker)
        label = f"{name}: $n^{{{fit.exponent.mean:.2f}}}$"
        axes.plot(ends, [fit.at(n) for n in ends], color=colour, lw=1.6, label=label)
    label = f"CPLEX as published: $n^{{{CPLEX.exponent}}}$"
    published = [CPLEX.at(n) for n in ends]
    axes.plot(ends, published, color=REFERENCE, ls="--", lw=1.4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = np.unique([*next(iter(fits.values())).sizes])
    shown = [int(n) for n in ticks if str(int(n))[0] in "1248"]
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.minorticks_off()
    axes.set_xlabel("samples of the task, n")
    axes.set_ylabel("seconds for one program")
    axes.legend(frameon=False)
    finish_axes(axes)
    return figure
