"""What post-processing of runs costs: a table per configuration, rows as CSV, and curves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from faircil.errors import FaircilError
from faircil.plots import COLOURS, MARKERS, TITLES, save
from faircil.report import Cell, Row, Table, format_value
from faircil.results.processed import ProcessedRun
from faircil.results.record import METRIC_NAMES
from faircil.results.summary import spread

# Of a configuration: for each of its runs, without post-processing and then with each ε.
Series = Sequence[Sequence[ProcessedRun]]
Processed = list[tuple[Row, Series]]
NEAR = 0.04  # of the figure: points so close share a label
HEADER = ("epsilon", "accuracy", "cost", "dp", "largest gap", "eo_gap")


def cost_table(row: Row, runs: Series) -> Table:
    """Make the table of a configuration, mean ± deviation over its runs.

    ``cost`` is accuracy lost against no post-processing, run by run.
    """
    cells = []
    for column in zip(*runs, strict=True):
        pairs = zip(column, runs, strict=True)
        costs = [_accuracy(series[0]) - _accuracy(run) for run, series in pairs]
        cells.append(
            (
                Cell(_written(column[0].epsilon)),
                Cell(_mean(column, "accuracy")),
                Cell("–" if column[0].epsilon is None else format_value(*spread(costs))),
                Cell(_mean(column, "dp")),
                Cell(format_value(*spread([run.largest_gap for run in column]))),
                Cell(_mean(column, "eo_gap")),
            )
        )
    seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
    title = f"{_dataset(row)}, {row.name}, eps-fair, {seeds}"
    return Table(title, HEADER, tuple(cells))


def write_rows(processed: Processed, folder: Path) -> Path:
    """Write all metrics of all runs as ``postprocess.csv``, one row per run and ε."""
    path = folder / "postprocess.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("dataset", "method", "seed", "epsilon", "largest_gap", *METRIC_NAMES))
            for row, runs in processed:
                for run in (run for series in runs for run in series):
                    name = (run.run.config["dataset"], row.name, run.run.seed)
                    values = [run.metrics[metric] for metric in METRIC_NAMES]
                    writer.writerow((*name, _written(run.epsilon), run.largest_gap, *values))
    except OSError as error:
        raise FaircilError(
            f"cannot write {path}: {error.strerror or error}; choose another folder with -o"
        ) from None
    return path


def draw_curves(processed: Processed, folder: Path) -> list[Path]:
    """Draw accuracy against dp, one figure per dataset, one line per configuration."""
    files = []
    for dataset in dict.fromkeys(_dataset(row) for row, _ in processed):
        mine = [(row, runs) for row, runs in processed if _dataset(row) == dataset]
        files += save(_figure(dataset, mine), folder / dataset)
    return files


def _figure(title: str, processed: Processed) -> Figure:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    curves = [_curve(axes, row.name, runs, number) for number, (row, runs) in enumerate(processed)]
    axes.set_title(f"{title}: what eps-fair costs (numbers: epsilon)", fontsize=11)
    axes.set_xlabel(TITLES["dp"])
    axes.set_ylabel(TITLES["accuracy"])
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    for position, curve in enumerate(curves):
        _label(axes, curve, COLOURS[position % len(COLOURS)])
    return figure


def _curve(axes: Axes, name: str, runs: Series, position: int) -> dict[str, tuple[float, float]]:
    """Draw a line from the smallest ε to none, with one standard deviation; return its points."""
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    unprocessed, *rest = zip(*runs, strict=True)
    columns = [*rest, unprocessed]
    # A run was saved with probabilities only if dp applies, so that no mean is missing.
    spreads = [
        [spread([run.metrics[metric] for run in column]) for metric in ("dp", "accuracy")]
        for column in columns
    ]
    (x, dx), (y, dy) = np.array(spreads, dtype=np.float64).transpose(1, 2, 0)
    axes.plot(x, y, color=colour, marker=marker, lw=1.6, ms=5, label=name)
    if len(runs) > 1:
        axes.errorbar(x, y, dy, dx, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.35)
    names = [_written(column[0].epsilon) for column in columns]
    return dict(zip(names, zip(x.tolist(), y.tolist(), strict=True), strict=True))


def _label(axes: Axes, curve: dict[str, tuple[float, float]], colour: str) -> None:
    """Write ε beside the points; of several that are close, beside that with the largest ε."""
    size = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    labelled: list[NDArray[np.float64]] = []
    for text, point in reversed(curve.items()):
        here = np.array(point) / size
        if all(np.abs(here - other).max() > NEAR for other in labelled):
            labelled.append(here)
            axes.annotate(
                text, point, xytext=(5, 4), textcoords="offset points", fontsize=8, color=colour
            )


def _dataset(row: Row) -> str:
    return str(row.runs[0].config["dataset"])


def _accuracy(run: ProcessedRun) -> float:
    return float(run.metrics["accuracy"] or 0.0)


def _mean(column: Sequence[ProcessedRun], metric: str) -> str:
    return format_value(*spread([run.metrics[metric] for run in column]))


def _written(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:g}"
