"""A benchmark of sweeps as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

from faircil.bench.files import Findings
from faircil.bench.sweep.page import PICTURE, page
from faircil.bench.sweep.plot import time_per_run
from faircil.bench.sweep.record import SweepResults
from faircil.bench.sweep.sentences import sentences
from faircil.bench.sweep.summary import summarise_sweeps
from faircil.bench.sweep.tables import sweep_tables


@dataclass(frozen=True)
class Value:
    """One line of ``results.csv``.

    Parameters
    ----------
    case : str
        How many processes.
    repeat : int
    quantity : str
        ``wall``, ``runs``, ``processes``, or a part of the time of all processes.
    value : float
    """

    case: str
    repeat: int
    quantity: str
    value: float


def sweep_findings(results: SweepResults) -> Findings:
    """Put document, rows, tables, picture and page together."""
    rows = summarise_sweeps(results.costs)
    document = {
        **results.described(),
        "runs": list(results.works),
        "findings": list(sentences(rows)),
        "summary": [{"name": row.case.name} | asdict(row) for row in rows],
        "sweeps": [asdict(cost) for cost in results.costs],
    }
    return Findings(
        document,
        [asdict(value) for value in _values(results)],
        sweep_tables(rows),
        {PICTURE: time_per_run(rows)},
        partial(page, results),
    )


def _values(results: SweepResults) -> Iterator[Value]:
    for cost in results.costs:
        values = {"wall": cost.wall, "runs": cost.runs, "processes": cost.processes}
        for quantity, value in (values | asdict(cost.parts)).items():
            yield Value(cost.case.name, cost.repeat, quantity, value)
