"""Time of the solvers against the number of columns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.bench.lp.published import CPLEX
from faircil.bench.lp.summary import SolverAtSize, exponents
from faircil.plots import COLOURS, MARKERS


def time_against_n(rows: Sequence[SolverAtSize]) -> Figure:
    """Draw seconds against columns, both logarithmic, one line per solver, CPLEX dashed."""
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.subplots()
    fits = exponents(rows)
    columns = [row.largest for row in rows] + [row.smallest for row in rows]
    for position, solver in enumerate(dict.fromkeys(row.solver for row in rows)):
        own = [row for row in rows if row.solver == solver]
        axes.plot(
            [geometric_mean([row.smallest, row.largest]) for row in own],
            [row.seconds for row in own],
            label=solver + (f" ($n^{{{fits[solver]:.2f}}}$)" if solver in fits else ""),
            color=COLOURS[position % len(COLOURS)],
            marker=MARKERS[position % len(MARKERS)],
            lw=1.8,
        )
    _draw_cplex(axes, min(columns), max(columns))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("columns of the program (samples of the task), n")
    axes.set_ylabel("seconds for one solve")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _draw_cplex(axes: Axes, smallest: int, largest: int) -> None:
    """Draw the published point, and the published growth through it."""
    n = [min(smallest, CPLEX.size / 4), CPLEX.size, max(largest, CPLEX.size * 2)]
    axes.plot(
        n,
        [CPLEX.at(size) for size in n],
        label=f"CPLEX as published\n($n^{{{CPLEX.exponent}}}$)",
        color="0.35",
        ls="--",
        lw=1.4,
        marker="*",
        ms=11,
        markevery=[1],
    )
