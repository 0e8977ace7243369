"""What models of tables cost: whole commands from a CSV file on, and calls in a process."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from faircil.data.tables import read_table
from faircil.model.model import Model
from faircil.model.saved import load_model
from faircil.report import Table
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances, seconds_of
from faircil_lab.bench.whole_runs import outcome_of
from faircil_lab.wording import seconds_text

CLASSES = 10
NEW = "new"  # the class of the rows that come later
LEVELS = (3, 7, 9, 16, 42, 5, 15, 8, 4, 6)  # categories of the text columns, in turns
MISSING = 0.05  # share of gaps of one column
TRIES = 5  # of a call


@dataclass(frozen=True)
class TableWorkload:
    """A table of people: half of the columns numbers, half categories; class and sex besides.

    Parameters
    ----------
    rows, columns : int
    later : int
        Rows of a new class that come later.
    predicted : int
        Rows to predict.
    method : str
    """

    rows: int
    columns: int
    later: int = 5000
    predicted: int = 20_000
    method: str = "auto"

    def table(self, rows: int, seed: int, label: str | None = None) -> pd.DataFrame:
        """Draw a table of these classes, or of one other."""
        draw = np.random.default_rng(seed)
        y = draw.integers(CLASSES, size=rows)
        sex = draw.choice(["F", "M"], rows)
        columns: dict[str, Any] = {}
        for place in range(self.columns // 2):
            value = draw.normal(size=rows) + 0.7 * (y % (place + 2)) + 0.3 * (sex == "F")
            if place == 0:
                value[draw.random(rows) < MISSING] = np.nan
            columns[f"number {place}"] = value.round(3)
        for place in range(self.columns - self.columns // 2):
            levels = LEVELS[place % len(LEVELS)]
            code = (y * (place + 1) + draw.integers(levels, size=rows)) % levels
            columns[f"category {place}"] = np.array([f"level {i}" for i in range(levels)])[code]
        columns["sex"] = sex
        columns["job"] = np.array([f"job {i}" for i in range(CLASSES)])[y]
        if label is not None:
            columns["number 1"] = columns["number 1"] + 9
            columns["job"] = label
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class ModelCost:
    """What a step took.

    Parameters
    ----------
    workload : TableWorkload
    step : str
        In plain words.
    rows : int
        That it was about.
    seconds : float
        Of a whole command, with Python's start; or the median of calls.
    memory : float or None
        Peak of a command's process in GiB, where the system reports it.
    """

    workload: TableWorkload
    step: str
    rows: int
    seconds: float
    memory: float | None = None


@dataclass(frozen=True)
class ModelResults(Circumstances):
    """A benchmark of models.

    Parameters
    ----------
    outcomes : tuple of ModelCost
    """

    outcomes: tuple[ModelCost, ...]


def measure_models(workloads: Sequence[TableWorkload]) -> Iterator[ModelCost]:
    """Measure each table: its commands first, since a process counts what its parent held."""
    for workload in workloads:
        with tempfile.TemporaryDirectory() as folder:
            yield from _commands(workload, Path(folder))
            yield from _calls(workload, Path(folder))


def _commands(workload: TableWorkload, folder: Path) -> Iterator[ModelCost]:
    """Fit, predict, update and forget, as a user would."""
    whole = workload.table(workload.rows, 0)
    files = {
        "train": whole,
        "leavers": whole.head(min(1000, workload.rows // 10)),
        "new": workload.table(workload.later, 1, NEW),
        "rows": workload.table(workload.predicted, 2),
    }
    sizes = {name: len(table) for name, table in files.items()}
    for name, table in files.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    del files, whole
    model, roles = str(folder / "model"), ("--label", "job", "--sensitive", "sex")
    made = ("--method", workload.method, "-o", model)
    steps: list[tuple[str, str, tuple[str, ...]]] = [
        ("fit", "train", ("fit", "--data", "train.csv", *roles, *made)),
        ("predict", "rows", ("predict", model, "--data", "rows.csv", "-o", "out.csv")),
        ("update, a new class", "new", ("update", model, "--data", "new.csv")),
        ("forget", "leavers", ("forget", model, "--data", "leavers.csv")),
    ]
    for step, name, words in steps:
        placed = [str(folder / word) if word.endswith(".csv") else word for word in words]
        start = time.perf_counter()
        _, memory = outcome_of([sys.executable, "-m", "faircil", *placed, "--json"])
        yield ModelCost(workload, f"`{step}`", sizes[name], time.perf_counter() - start, memory)


def _calls(workload: TableWorkload, folder: Path) -> Iterator[ModelCost]:
    """Predict and learn in a process that has model and table in memory."""
    table = read_table(folder / "rows.csv")
    model = load_model(folder / "model")
    assert model.encoder is not None

    def inputs(rows: pd.DataFrame) -> Any:
        return model.encoder.inputs(rows)  # type: ignore[union-attr]

    x = inputs(table)
    calls: dict[str, Callable[[], object]] = {
        "columns of a table in memory to inputs": lambda: inputs(table),
        "predictions of these inputs": lambda: model.predict(x),
    }
    for step, call in calls.items():
        call()
        seconds = median(seconds_of(call) for _ in range(TRIES))
        yield ModelCost(workload, step, len(table), seconds)
    new = workload.table(workload.later, 3, f"{NEW}er")
    rows = inputs(new)
    yield ModelCost(
        workload,
        "learning a new class in memory",
        len(new),
        seconds_of(lambda: _learn(model, rows, new)),
    )


def _learn(model: Model, x: Any, table: pd.DataFrame) -> None:
    model.learn(x, table["job"].tolist(), table["sex"].tolist())


def cost_table(costs: Sequence[ModelCost]) -> Table:
    """Make a table of one workload, a row for each step."""
    one = costs[0].workload
    title = f"{one.rows:,} rows of {one.columns} columns, method {one.method}"
    return table_of(
        title, ("step", "rows", "time", "rows a second", "peak memory"), map(_texts, costs)
    )


def _texts(cost: ModelCost) -> tuple[str, ...]:
    return (
        cost.step,
        f"{cost.rows:,}",
        seconds_text(cost.seconds),
        f"{cost.rows / cost.seconds:,.0f}",
        "–" if cost.memory is None else f"{cost.memory:.2f} GiB",
    )


ABOUT = """
Tables of numbers and categories, two sexes, {classes} classes, with gaps in one column. Steps in
`code` are whole commands from CSV to files, including the start of Python; the others are calls in
a process that has model and table in memory, medians of {tries}. The learner of the model is the
one that `fit` chose, or the one named.
"""


def _tables(results: ModelResults) -> list[Table]:
    workloads = dict.fromkeys(cost.workload for cost in results.outcomes)
    return [
        cost_table([cost for cost in results.outcomes if cost.workload == workload])
        for workload in workloads
    ]


def _text(results: ModelResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    return ABOUT.format(classes=CLASSES, tries=TRIES) + sections(_tables(results))


def _rows(results: ModelResults) -> Iterator[dict[str, Any]]:
    for cost in results.outcomes:
        values = asdict(cost)
        yield values.pop("workload") | values


MODEL_COSTS = Benchmark[ModelResults](
    title="Cost of models of tables",
    line=lambda cost: f"{cost.workload.rows:,} rows, {cost.step}: {seconds_text(cost.seconds)}",
    document=lambda results: {"steps": [asdict(cost) for cost in results.outcomes]},
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    besides=lambda results: f"; {results.environment['threads']} threads",
)
