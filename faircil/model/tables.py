"""Models of tables: learn the rows of a file, predict those of another, forget some."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from faircil.data.encode import Coded
from faircil.data.features import fit_encoder
from faircil.data.own import OwnData, OwnTable, read_own
from faircil.data.tables import read_table
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.model.choosing import Wish, choose_config
from faircil.model.model import Lesson, Model
from faircil.results.record import EpochRecord

Listener = Callable[[EpochRecord], None]


def fit_table(
    spec: OwnData,
    wish: Wish,
    *,
    seed: int = 0,
    device: str = "cpu",
    listener: Listener = lambda _: None,
) -> Model:
    """Make a model of the rows of a table.

    Parameters
    ----------
    spec : OwnData
        With tasks, they are learned one after the other; else all rows at once.
    wish : Wish
    seed : int
    device : str
    listener : callable
        Called after every epoch.
    """
    own = read_own(spec)
    features = own.table[spec.without_role(own.table)]
    parts = _lessons(own, one_after_another=spec.tasks is not None)
    encoder = fit_encoder(features, np.arange(len(features)), parts[0])
    x, labels = encoder.inputs(features), _names(own.y)
    values = None if own.z is None else _names(own.z)
    roles = replace(spec, path="")
    config, notes = choose_config(wish, roles, x, labels, values, device)
    model = Model(config, seed, encoder=encoder, notes=[*notes, *own.notes, *encoder.notes])
    for rows in parts:
        some = [labels[row] for row in rows]
        theirs = None if values is None else [values[row] for row in rows]
        model.learn(x[rows], some, theirs, device=device, listener=listener)
    return model


def update_table(model: Model, path: Path, *, listener: Listener = lambda _: None) -> Lesson:
    """Let a model learn the rows of another table; its classes may be new."""
    x, labels, values, notes = _rows(model, path)
    lesson = model.learn(x, labels, values, listener=listener)
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
    encoder = _encoder(model)
    notes = encoder.check(table)
    found = model.probabilities(encoder.inputs(table))
    best = found.argmax(axis=1)
    columns: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    columns |= {name: table[name].to_numpy() for name in keep}
    columns["prediction"] = np.array(model.labels, dtype=object)[best]
    columns["probability"] = found[np.arange(len(found)), best]
    if probabilities:
        columns |= {f"probability of {name}": found[:, n] for n, name in enumerate(model.names)}
    return pd.DataFrame(columns), notes


def _rows(model: Model, path: Path) -> tuple[Any, list[Hashable], Any, list[str]]:
    """Read rows as a model has learned them: inputs, classes, attribute values, and notes."""
    spec = model.config.own
    encoder = _encoder(model)
    assert spec is not None
    own = read_own(replace(spec, path=str(path), tasks=None, test_column=None), new_rows=True)
    notes = encoder.check(own.table)
    values = None if own.z is None else _names(own.z)
    return encoder.inputs(own.table), _names(own.y), values, [*own.notes, *notes]


def _encoder(model: Model) -> Any:
    if model.encoder is None:
        raise UsageError(
            "this model was made of arrays, so it does not know the columns of a table; use it "
            "in Python: `FairIncrementalClassifier.load(folder).predict(X)`"
        )
    return model.encoder


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
