"""Where the time of a sweep's processes goes, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from faircil.bench.bars import Layer, split_bars
from faircil.bench.sweep.record import PARTS
from faircil.bench.sweep.summary import CaseSummary
from faircil.bench.sweep.tables import digits, part_name
from faircil.plots import COLOURS

IDLE = "#BBBBBB"  # nothing is done


def time_per_run(rows: Sequence[CaseSummary]) -> Figure:
    """Draw a bar per case: the time of a process for a run, split.

    Bars of the same length mean that twice as many processes make twice as many runs.
    """
    layers = [
        Layer(part_name(part), colour, [getattr(row.per_run, part) for row in rows])
        for part, colour in zip(PARTS, (*COLOURS, IDLE), strict=True)
    ]
    names = [row.case.name.replace(" and ", "\nand ") for row in rows]
    words = [f"{digits(row.rate)} runs per second" for row in rows]
    return split_bars(names, layers, words, "seconds of a process, per run")
