"""A benchmark of runs as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

from matplotlib.figure import Figure

from faircil.bench.files import Findings
from faircil.bench.run.epoch_cost import FORWARD
from faircil.bench.run.page import GROWTH, SPLIT, page
from faircil.bench.run.plot import growth, time_split
from faircil.bench.run.record import RunResults
from faircil.bench.run.summary import summarise_runs
from faircil.bench.run.tables import epoch_table, run_tables, scale_tables
from faircil.report import Table


@dataclass(frozen=True)
class Value:
    """One line of ``results.csv``.

    Parameters
    ----------
    part : str
        ``run``, ``statistics`` or ``growth``.
    name : str
        The dataset, or the factor that grows.
    case : str
        The method, or the kind of statistics.
    number : int
        The repeat, the task, or the factor's value.
    quantity : str
    value : float or None
    """

    part: str
    name: str
    case: str
    number: int
    quantity: str
    value: float | None


def run_findings(results: RunResults) -> Findings:
    """Put document, rows, tables, pictures and page together."""
    summary = summarise_runs(results.runs)
    document = {
        **results.described(),
        "repeats": results.repeats,
        "summary": [asdict(row) for row in summary],
        "runs": [asdict(run) for run in results.runs],
        "epochs": [asdict(epoch) for epoch in results.epochs],
        "growth": [asdict(point) for point in results.points],
    }
    figures: dict[str, Figure] = {}
    if summary:
        figures[SPLIT] = time_split(summary)
    if results.points:
        figures[GROWTH] = growth(results.points)
    return Findings(
        document,
        [asdict(value) for value in _values(results)],
        _tables(results),
        figures,
        partial(page, results),
    )


def _tables(results: RunResults) -> list[Table]:
    epochs = [epoch_table(results.epochs)] if results.epochs else []
    return [*run_tables(results.runs), *epochs, *scale_tables(results.points)]


def _values(results: RunResults) -> Iterator[Value]:
    for run in results.runs:
        values = asdict(run.seconds) | {"memory_gib": run.memory, "accuracy": run.accuracy}
        for quantity, value in values.items():
            yield Value("run", run.dataset, run.method, run.repeat, quantity, value)
    for epoch in results.epochs:
        for case, value in {FORWARD: epoch.forward, **epoch.statistics}.items():
            yield Value("statistics", epoch.dataset, case, epoch.task, "seconds", value)
    for point in results.points:
        for quantity in ("statistics", "lp"):
            value = getattr(point, quantity)
            yield Value("growth", point.factor, "generated", point.value, quantity, value)
