"""Results as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from faircil.report import Row

TITLES = {
    "accuracy": "accuracy (1 = best)",
    "eer": "EER disparity between classes (0 = fair)",
    "eer_task": "EER disparity between tasks (0 = fair)",
    "eo": "equalized-odds disparity (0 = fair)",
    "eo_gap": "equalized-odds gap (0 = fair)",
    "dp": "demographic-parity disparity (0 = fair)",
    "forgetting": "forgetting (0 = none)",
}
# Okabe and Ito's palette: told apart by people with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def over_tasks(rows: Sequence[Row], metrics: Sequence[str], title: str) -> Figure:
    """Draw metrics after each task, one panel per metric, one line per configuration.

    A line is the mean over seeds, its band one standard deviation.
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
        axes.set_ylim(bottom=0, top=1.02 if metric == "accuracy" else None)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(rows), frameon=False)
    return figure


def _line(axes: Axes, row: Row, metric: str, position: int) -> None:
    values = np.array(
        [[task[metric] for task in run.per_task] for run in row.runs], dtype=np.float64
    )
    tasks = np.arange(1, values.shape[1] + 1)
    mean = values.mean(axis=0)
    colour = COLOURS[position % len(COLOURS)]
    axes.plot(
        tasks, mean, label=row.name, color=colour, marker=MARKERS[position % len(MARKERS)], lw=1.8
    )
    if len(values) > 1:
        std = values.std(axis=0, ddof=1)
        axes.fill_between(tasks, mean - std, mean + std, color=colour, alpha=0.15, lw=0)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as ``stem.png`` and ``stem.svg``; return the files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    with matplotlib.rc_context({"svg.hashsalt": "faircil", "savefig.dpi": 150}):
        for file in files:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files
