"""Models of tables: learn the rows of a file, predict those of another, forget some."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from faircil.data.encode import Coded
from faircil.data.features import TableEncoder, fit_encoder
from faircil.data.own import OwnData, OwnTable, item_notes, read_own
from faircil.data.tables import PATH, read_table
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.media import ItemEncoder, MediaOptions, Progress, fit_items
from faircil.model.choosing import Wish, choose_config
from faircil.model.model import Floats32, Lesson, Model
from faircil.results.record import EpochRecord

Listener = Callable[[EpochRecord], None]


def fit_table(
    spec: OwnData,
    wish: Wish,
    *,
    seed: int = 0,
    device: str = "cpu",
    listener: Listener = lambda _: None,
    progress: Progress = lambda _: None,
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
    progress : callable
        Receives the progress of embedding texts or images.
    """
    roles = replace(spec, path="")
    media = None if spec.items is None else wish.media(roles)  # mistakes, before anything is read
    own = read_own(spec)
    parts = _lessons(own, one_after_another=spec.tasks is not None)
    encoder, x = _fitted(spec, media, own, parts[0], device, progress)
    labels = _names(own.y)
    values = None if own.z is None else _names(own.z)
    image = encoder.image if isinstance(encoder, ItemEncoder) else None
    config, notes = choose_config(wish, roles, x, labels, values, device, image)
    notes += [*own.notes, *encoder.notes]
    model = Model(config, seed, encoder=encoder, image=image, notes=notes)
    if isinstance(encoder, ItemEncoder) and encoder.copies > 1:
        model.notes.append(f"each image counts {encoder.copies} times, with its changed copies")
        x = encoder.inputs(own.table, spec.path, augmented=True, device=device, progress=progress)
    for rows in parts:
        model.learn(*_copied(encoder, x, labels, values, rows), device=device, listener=listener)
    return model


def _fitted(
    spec: OwnData,
    media: MediaOptions | None,
    own: OwnTable,
    first: Any,
    device: str,
    progress: Progress,
) -> tuple[TableEncoder | ItemEncoder, Floats32]:
    """Decide how rows become inputs; return that, and the inputs of all rows."""
    if media is not None:
        column = own.table[spec.items]
        encoder, x = fit_items(column, spec.path, media, first, device=device, progress=progress)
        told = (*item_notes(spec, own.table), *encoder.notes)
        return replace(encoder, notes=told), x
    features = own.table[spec.without_role(own.table)]
    fitted = fit_encoder(features, np.arange(len(features)), first)
    return fitted, fitted.inputs(features)


def _copied(
    encoder: Any,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
    rows: Any,
) -> tuple[Floats32, list[Hashable], list[str | None] | None]:
    """Return inputs, classes and attribute values of some rows, with all copies of each."""
    copies = getattr(encoder, "copies", 1)
    order = np.repeat(rows, copies)
    inputs = np.repeat(np.asarray(rows) * copies, copies) + np.tile(np.arange(copies), len(rows))
    theirs = None if values is None else [values[row] for row in order]
    return x[inputs], [labels[row] for row in order], theirs


def update_table(
    model: Model,
    path: Path,
    *,
    listener: Listener = lambda _: None,
    progress: Progress = lambda _: None,
) -> Lesson:
    """Let a model learn the rows of another table; its classes may be new."""
    rows, notes = _rows(model, path, progress)
    lesson = model.learn(*rows, listener=listener)
    model.notes += notes
    return lesson


def forget_table(model: Model, path: Path, *, progress: Progress = lambda _: None) -> Lesson:
    """Let a model forget the rows of a table, which it has learned before."""
    rows, _ = _rows(model, path, progress)
    return model.forget(*rows)


def predict_table(
    model: Model,
    path: Path,
    keep: Sequence[str] = (),
    *,
    probabilities: bool = False,
    progress: Progress = lambda _: None,
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
    progress : callable
        Receives the progress of embedding texts or images.

    Returns
    -------
    table : DataFrame
        ``row``, counted from 1, the path of its image if there is one, the kept columns,
        ``prediction`` and ``probability``.
    notes : list of str
    """
    table, encoder = read_table(path), _encoder(model)
    if isinstance(encoder, ItemEncoder) and encoder.images:
        if path.is_dir():  # its images are those that are meant, whatever the column was called
            table = table.rename(columns={PATH: encoder.column})
        keep = list(dict.fromkeys([encoder.column, *keep]))
    notes = encoder.check(table)
    raise_all([unknown_name("column", name, table.columns) for name in keep if name not in table])
    found = model.probabilities(_inputs(encoder, table, path, progress))
    best = found.argmax(axis=1)
    columns: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    columns |= {name: table[name].to_numpy() for name in keep}
    columns["prediction"] = np.array(model.labels, dtype=object)[best]
    columns["probability"] = found[np.arange(len(found)), best]
    if probabilities:
        columns |= {f"probability of {name}": found[:, n] for n, name in enumerate(model.names)}
    return pd.DataFrame(columns), notes


def _rows(
    model: Model, path: Path, progress: Progress
) -> tuple[tuple[Floats32, list[Hashable], Any], list[str]]:
    """Read rows as a model learns them: inputs, classes and attribute values; and notes."""
    spec = model.config.own
    encoder = _encoder(model)
    assert spec is not None
    own = read_own(replace(spec, path=str(path), tasks=None, test_column=None), new_rows=True)
    notes = encoder.check(own.table)
    values = None if own.z is None else _names(own.z)
    x = _inputs(encoder, own.table, path, progress, augmented=True)
    rows = _copied(encoder, x, _names(own.y), values, np.arange(len(own.table)))
    return rows, [*own.notes, *notes]


def _inputs(
    encoder: TableEncoder | ItemEncoder,
    table: pd.DataFrame,
    path: Path,
    progress: Progress,
    *,
    augmented: bool = False,
) -> Floats32:
    if isinstance(encoder, ItemEncoder):
        return encoder.inputs(table, path, augmented=augmented, progress=progress)
    return encoder.inputs(table)


def _encoder(model: Model) -> TableEncoder | ItemEncoder:
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
