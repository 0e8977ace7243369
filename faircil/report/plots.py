"""Results as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from faircil.errors import FaircilError
from faircil.report import Row
from faircil.results.record import spread

TITLES = {
    "accuracy": "accuracy (1 = best)",
    "eer": "EER disparity between classes (0 = fair)",
    "eer_task": "EER disparity between tasks (0 = fair)",
    "eo": "equalized-odds disparity (0 = fair)",
    "eo_gap": "equalized-odds gap (0 = fair)",
    "dp": "demographic-parity disparity (0 = fair)",
    "dp_predicted": "demographic-parity disparity, predicted classes (0 = fair)",
    "forgetting": "forgetting (0 = none)",
}
# Okabe and Ito's palette: told apart by people with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def over_tasks(rows: Sequence[Row], metrics: Sequence[str], title: str) -> Figure:
    """Draw metrics after each task, one panel per metric, one line per configuration.

    A line is the mean over seeds, its band one standard deviation; it has a gap where a metric
    does not apply.
    """
    figure = Figure(figsize=(5.2 * len(metrics), 4.2), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric in zip(panels, metrics, strict=True):
        for position, row in enumerate(rows):
            _line(axes, row, metric, position)
        axes.set_title(TITLES[metric], fontsize=11)
        axes.set_xlabel("after task")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(*_limits(metric, *axes.get_ylim()))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _line(axes: Axes, row: Row, metric: str, position: int) -> None:
    tasks = range(1, len(row.runs[0].per_task) + 1)
    spreads = [spread([run.per_task[task - 1][metric] for run in row.runs]) for task in tasks]
    mean, std = np.array(spreads, dtype=np.float64).T
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    axes.plot(tasks, mean, label=row.name, color=colour, marker=marker, lw=1.8)
    if len(row.runs) > 1:
        axes.fill_between(tasks, mean - std, mean + std, color=colour, alpha=0.15, lw=0)


def _limits(metric: str, lowest: float, highest: float) -> tuple[float, float]:
    """Start at 0, the natural end of all metrics but forgetting, which may be below it."""
    bottom = min(0, lowest) if metric == "forgetting" else 0
    return bottom, 1.02 if metric == "accuracy" else highest


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as ``stem.png`` and ``stem.svg``; return the files."""
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "faircil", "savefig.dpi": 150}):
            for file in files:
                figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except OSError as error:
        raise FaircilError(
            f"cannot write the figure {stem}: {error.strerror or error}; free space, or choose "
            "another folder"
        ) from None
    return files
