"""Where the time of a sweep's processes goes, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from faircil.bench.sweep.record import PARTS
from faircil.bench.sweep.summary import CaseSummary
from faircil.bench.sweep.tables import digits, part_name
from faircil.plots import COLOURS

IDLE = "#BBBBBB"  # nothing is done


def time_per_run(rows: Sequence[CaseSummary]) -> Figure:
    """Draw a bar per case: the time of a process for a run, split.

    Bars of the same length mean that twice as many processes make twice as many runs.
    """
    figure = Figure(figsize=(8.4, 1.6 + 0.45 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = [row.case.name.replace(" and ", "\nand ") for row in rows]
    left = [0.0] * len(rows)
    for part, colour in zip(PARTS, (*COLOURS, IDLE), strict=True):
        widths = [getattr(row.per_run, part) for row in rows]
        axes.barh(names, widths, left=left, color=colour, label=part_name(part), height=0.6)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for position, (row, end) in enumerate(zip(rows, left, strict=True)):
        axes.text(end, position, f"  {digits(row.rate)} runs per second", va="center", fontsize=9)
    axes.set_xlim(0, 1.4 * max(left))  # room for the words
    axes.invert_yaxis()
    axes.set_xlabel("seconds of a process, per run")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure
