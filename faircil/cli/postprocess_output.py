"""Post-processing of tables and of saved runs: predictions, cost tables, CSV and curves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.data.table_columns import code_values, cross_all
from faircil.data.tables import read_as_written, read_table, unchanging
from faircil.errors import DataError, FaircilError, raise_all, unknown_name
from faircil.files import file_name, make_private, open_private, refuse_input, replacing
from faircil.metrics import METRICS
from faircil.postprocess import EpsilonFair
from faircil.postprocess.pool import probability_mistakes
from faircil.report import Cell, Row, Table, format_value, heading
from faircil.report.plots import COLOURS, MARKERS, save
from faircil.results.processed import ProcessedRun
from faircil.results.record import spread

PREDICTION = "prediction"  # name of the added column
SEPARATORS = {".csv": ",", ".tsv": "\t"}
NEAR = 0.04  # fraction of the figure: closer points share a label
HEADER = (
    *("epsilon", heading("accuracy"), "cost", heading("final_accuracy"), heading("worst_group")),
    *("dp", "largest gap", "eo_gap"),
)


@dataclass(frozen=True)
class TableJob:
    """Tables to fit on and to predict.

    Parameters
    ----------
    pool, new : Path
        Tables with columns of probabilities and attributes.
    probabilities, sensitive : tuple of str
        Columns; several attributes are combined into one.
    weight : str or None
        Weight column of the pool.
    epsilon : float
    seed : int
        Seed of the draws at ties.
    """

    pool: Path
    new: Path
    probabilities: tuple[str, ...]
    sensitive: tuple[str, ...]
    weight: str | None
    epsilon: float
    seed: int


def apply_to_table(job: TableJob, out: Path) -> list[str]:
    """Write the new table with a column of predictions; return notes for the user."""
    refuse_input(out, job.pool, job.new)
    with unchanging(job.new):
        pool, new = read_table(job.pool), read_table(job.new)
        weights = () if job.weight is None else (job.weight,)
        raise_all(_usage_mistakes(job, pool, new, out))
        raise_all(
            _data_mistakes(job, job.pool, pool, weights) + _data_mistakes(job, job.new, new),
            DataError,
        )
        written = read_as_written(job.new)
    rule = EpsilonFair(job.epsilon).fit(
        _numbers(pool, job.probabilities),
        _groups(pool, job.sensitive),
        sample_weight=_numbers(pool, weights)[:, 0] if weights else None,
        seed=job.seed,
    )
    probabilities = _numbers(new, job.probabilities)
    chosen = rule.predict(probabilities, _groups(new, job.sensitive), job.seed)
    written[PREDICTION] = np.array(job.probabilities)[chosen]
    _write(written, out)
    changed = float((chosen != probabilities.argmax(axis=1)).mean())
    return [
        *(f"note: {note}" for note in rule.notes),
        f"on the pool, shares differ by at most {rule.gap:.4f}; {100 * changed:.1f} % of the "
        "predictions are not the most probable class",
        f"saved in {out}",
    ]


def _usage_mistakes(job: TableJob, pool: pd.DataFrame, new: pd.DataFrame, out: Path) -> list[str]:
    columns = [*job.probabilities, *job.sensitive]
    wanted = [(job.pool, pool, [*columns, *([job.weight] if job.weight else [])])]
    wanted.append((job.new, new, columns))
    mistakes = [
        f"{path}: {unknown_name('column', name, table.columns)}"
        for path, table, names in wanted
        for name in names
        if name not in table
    ]
    if job.seed < 0:
        mistakes.append(f"`seed` is {job.seed}, expected a number of at least 0")
    if PREDICTION in new:
        mistakes.append(f"{job.new} has a column '{PREDICTION}' already; rename it")
    if out.suffix not in SEPARATORS:
        mistakes.append(f"--out {out} has an unknown file extension; use {' or '.join(SEPARATORS)}")
    return mistakes


def _data_mistakes(
    job: TableJob, path: Path, table: pd.DataFrame, weights: tuple[str, ...] = ()
) -> list[str]:
    text = [n for n in (*job.probabilities, *weights) if not is_numeric_dtype(table[n])]
    mistakes = [f"column '{name}' of {path} is text, expected numbers" for name in text]
    if not text:
        what = f"the probabilities of {path}"
        mistakes += probability_mistakes(_numbers(table, job.probabilities), what)
    mistakes += [
        f"column '{name}' of {path} has {missing} missing value(s); fill or drop them"
        for name in job.sensitive
        if (missing := int(table[name].isna().sum()))
    ]
    return mistakes


def _numbers(table: pd.DataFrame, names: tuple[str, ...]) -> NDArray[np.float64]:
    return table[list(names)].to_numpy(np.float64)


def _groups(table: pd.DataFrame, names: tuple[str, ...]) -> NDArray[np.str_]:
    """Return the attribute value of each row as text; several are joined."""
    coded = cross_all([code_values(table[name]) for name in names])
    return np.array(coded.names)[coded.codes]


def _write(table: pd.DataFrame, out: Path) -> None:
    """Write the original table with the prediction as its last column."""
    try:
        make_private(out.parent)
        with replacing(out) as partial, open_private(partial, "w", newline="") as file:
            table.to_csv(file, sep=SEPARATORS[out.suffix], index=False)
    except OSError as error:
        raise FaircilError(f"cannot write {out}: {error.strerror or error}") from None


# For each run of a configuration: without post-processing, then with each ε.
Series = Sequence[Sequence[ProcessedRun]]
Processed = list[tuple[Row, Series]]


def cost_table(row: Row, runs: Series) -> Table:
    """Build the table of a configuration, mean ± standard deviation over its runs.

    ``cost`` is the accuracy lost compared with no post-processing, run by run.
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
                Cell(_mean(column, "final_accuracy")),
                Cell(_mean(column, "worst_group")),
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
        make_private(folder)
        with replacing(path) as partial, open_private(partial, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("dataset", "method", "seed", "epsilon", "largest_gap", *METRICS))
            for row, runs in processed:
                for run in (run for series in runs for run in series):
                    name = (run.run.config["dataset"], row.name, run.run.seed)
                    values = [run.metrics[metric] for metric in METRICS]
                    writer.writerow((*name, _written(run.epsilon), run.largest_gap, *values))
    except OSError as error:
        raise FaircilError(
            f"cannot write {path}: {error.strerror or error}; choose another folder with -o"
        ) from None
    return path


def draw_curves(processed: Processed, folder: Path) -> list[Path]:
    """Plot accuracy against dp, one figure per dataset, one line per configuration."""
    files = []
    for dataset in dict.fromkeys(_dataset(row) for row, _ in processed):
        mine = [(row, runs) for row, runs in processed if _dataset(row) == dataset]
        files += save(_figure(dataset, mine), folder / file_name(dataset))
    return files


def _figure(title: str, processed: Processed) -> Figure:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    curves = [_curve(axes, row.name, runs, number) for number, (row, runs) in enumerate(processed)]
    axes.set_title(f"{title}: what eps-fair costs (numbers: epsilon)", fontsize=11)
    axes.set_xlabel(METRICS["dp"].axis_title)
    axes.set_ylabel(METRICS["accuracy"].axis_title)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    for position, curve in enumerate(curves):
        _label(axes, curve, COLOURS[position % len(COLOURS)])
    return figure


def _curve(axes: Axes, name: str, runs: Series, position: int) -> dict[str, tuple[float, float]]:
    """Plot a line from the smallest ε to none, with standard deviations; return its points."""
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    unprocessed, *rest = zip(*runs, strict=True)
    columns = [*rest, unprocessed]
    # Probabilities are saved only if dp applies, so no mean is missing.
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
    """Label points with ε; of several close points, only the one with the largest ε."""
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
