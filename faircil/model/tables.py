"""Models of tables: learn the rows of a file, predict those of another, forget some."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from faircil.data.encode import Coded
from faircil.data.features import fit_encoder
from faircil.data.own import OwnData, OwnTable, read_own
from faircil.data.stream import Integers
from faircil.data.tables import read_table
from faircil.errors import DataError, UsageError, raise_all, unknown_name
from faircil.model.choosing import Wish, choose_config
from faircil.model.model import Floats32, Lesson, Model
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig

Values = list[str | None] | None
Rows = tuple[Floats32, list[Hashable], Values]
ARRAY = "x"  # of an archive of inputs as they are


class Watcher(Protocol):
    """Receives the progress of a model that learns."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Take note that a candidate is tried, in which of how many runs."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Take note that so many lessons begin."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Take note of an epoch."""


class Unwatched:
    """Takes note of nothing."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Ignore the candidate."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Ignore the lessons."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Ignore the epoch."""


UNWATCHED = Unwatched()


def fit_table(
    spec: OwnData,
    wish: Wish,
    *,
    hold_out: bool = False,
    seed: int = 0,
    device: str = "cpu",
    watcher: Watcher = UNWATCHED,
) -> Model:
    """Make a model of the rows of a table.

    Parameters
    ----------
    spec : OwnData
        With tasks, they are learned one after the other; else all rows at once. Rows that its test
        column marks are not learned; the model is measured on them.
    wish : Wish
    hold_out : bool
        Whether ``spec.test_share`` of each group is held out instead, where it has no test column.
    seed : int
    device : str
    watcher : Watcher
    """
    own = read_own(spec)
    features = own.table[spec.without_role(own.table)]
    measured = hold_out or spec.test_column is not None
    test = own.test_rows(spec, seed) if measured else np.zeros(len(features), dtype=bool)
    parts = [rows[~test[rows]] for rows in _lessons(own, one_after_another=spec.tasks is not None)]
    encoder = fit_encoder(features, np.flatnonzero(~test), parts[0])
    x, names = encoder.inputs(features), _names(own.y)
    attribute = None if own.z is None else _names(own.z)

    def some(rows: Integers) -> Rows:
        values = None if attribute is None else [attribute[row] for row in rows]
        return x[rows], [names[row] for row in rows], values

    learned = some(np.flatnonzero(~test))
    chosen = choose_config(wish, replace(spec, path=""), *learned, device, watcher.trying)
    model = Model(
        chosen.config,
        seed,
        encoder=encoder,
        measured=chosen.measured,
        notes=[*chosen.notes, *own.notes, *encoder.notes],
    )
    watcher.start(model.config, len(parts))
    for rows in parts:
        model.learn(*some(rows), device=device, listener=watcher)
    if measured:
        model.measure(*some(np.flatnonzero(test)), on="rows held out of fitting")
    return model


def update_table(model: Model, path: Path, *, watcher: Watcher = UNWATCHED) -> Lesson:
    """Let a model learn the rows of another table; its classes may be new."""
    x, labels, values, notes = _rows(model, path)
    watcher.start(model.config, 1)
    lesson = model.learn(x, labels, values, listener=watcher)
    model.notes += notes
    return lesson


def forget_table(model: Model, path: Path) -> Lesson:
    """Let a model forget the rows of a table, which it has learned before."""
    x, labels, values, _ = _rows(model, path)
    return model.forget(x, labels, values)


def predict_table(
    model: Model, path: Path, keep: Sequence[str] = (), *, probabilities: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """Predict the rows of a table; neither class nor sensitive attribute is needed.

    Parameters
    ----------
    model : Model
    path : Path
    keep : sequence of str
        Columns to keep beside the predictions.
    probabilities : bool
        Whether the probability of every class is wanted, not only of the predicted one.

    Returns
    -------
    table : DataFrame
        ``row``, counted from 1, the kept columns, ``prediction`` and ``probability``.
    notes : list of str
    """
    table = read_table(path)
    raise_all([unknown_name("column", name, table.columns) for name in keep if name not in table])
    inputs, notes = _inputs(model, table)
    found = model.probabilities(inputs)
    best = found.argmax(axis=1)
    columns: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    columns |= {name: table[name].to_numpy() for name in keep}
    columns["prediction"] = np.array(model.labels, dtype=object)[best]
    columns["probability"] = found[np.arange(len(found)), best]
    if probabilities:
        columns |= {f"probability of {name}": found[:, n] for n, name in enumerate(model.names)}
    return pd.DataFrame(columns), notes


def _rows(model: Model, path: Path) -> tuple[Floats32, list[Hashable], Values, list[str]]:
    """Read rows as a model has learned them: inputs, classes, attribute values, and notes."""
    spec = model.config.own
    if spec is None or model.encoder is None:
        raise UsageError(
            f"this model was made of {_source(model)}, so it knows no column of classes; in "
            "Python, `FairIncrementalClassifier.load(folder)` has `partial_fit(X, y)` and "
            "`forget(X, y)`"
        )
    own = read_own(replace(spec, path=str(path), tasks=None, test_column=None), new_rows=True)
    x, notes = _inputs(model, own.table)
    values = None if own.z is None else _names(own.z)
    return x, _names(own.y), values, [*own.notes, *notes]


def _inputs(model: Model, table: pd.DataFrame) -> tuple[Floats32, list[str]]:
    """Return the inputs of rows, (n, inputs), and notes on them.

    A model that was made of no table takes an array of an archive as it is.
    """
    if model.encoder is not None:
        notes = model.encoder.check(table)
        return model.encoder.inputs(table), notes
    columns = [f"{ARRAY}_{number}" for number in range(model.inputs)]
    if not set(columns) <= set(table.columns):
        raise UsageError(
            f"this model was made of {_source(model)}, so it knows no columns of a table; give an "
            f".npz file with an array `{ARRAY}` of shape (n, {model.inputs}), as its run had them, "
            "or in Python, `FairIncrementalClassifier.load(folder).predict(X)`"
        )
    try:
        return table[columns].to_numpy(np.float32), []
    except ValueError as error:
        raise DataError(f"the array `{ARRAY}` is no array of numbers ({error})") from None


def _source(model: Model) -> str:
    """Say what a model without columns was made of."""
    kind = "embeddings of texts" if model.config.texts else "arrays"
    return f"{kind} of '{model.config.dataset}'" if model.config.dataset else kind


def _lessons(own: OwnTable, *, one_after_another: bool) -> list[Any]:
    """Return the rows of each lesson."""
    if not one_after_another:
        return [np.arange(len(own.table))]
    numbers = [[own.y.names.index(name) for name in task] for task in own.tasks]
    return [np.flatnonzero(np.isin(own.y.codes, task)) for task in numbers]


def _names(coded: Coded) -> list[Any]:
    """Return the name of each row's value, (n,); None where it is unknown."""
    names = np.array([*coded.names, None], dtype=object)
    found: list[Any] = names[coded.codes].tolist()
    return found
