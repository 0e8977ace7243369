"""Models of tables: learn the rows of a file, predict those of another, forget some."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from faircil.counts import ENOUGH
from faircil.data.features import NewValues, TableEncoder, fit_encoder
from faircil.data.own import OwnData, OwnTable, item_notes, read_own
from faircil.data.tables import PATH, read_table, unchanging
from faircil.engines import HERE, Engine
from faircil.errors import (
    DataError,
    UsageError,
    raise_all,
    shortened,
    unknown_name,
    whole_mistakes,
)
from faircil.media import ItemEncoder, fit_items
from faircil.model.choosing import Wish, choose_config
from faircil.model.history import Lesson, Measured
from faircil.model.in_parts import (
    fit_parts,
    measure_table_parts,
    reader_for,
    refuse_in_parts,
    table_in_parts,
    unlearned_notes,
    update_parts,
)
from faircil.model.model import Floats32, Model
from faircil.model.predict_parts import predict_parts, predicted_columns
from faircil.model.row_sums import Gathering
from faircil.model.table_rows import (
    NO_GAPS,
    UNWATCHED,
    Gaps,
    LessonWatcher,
    TableRows,
    inputs_of,
    left_out_notes,
    roles_for,
    rows_for,
    texts_of,
    with_copies,
)

PREDICTED = ("row", "prediction", "probability")  # columns of predictions
ALIKE = 0.8  # similarity above which one of two names may be a typo


def fit_table(
    spec: OwnData,
    wish: Wish,
    *,
    hold_out: bool = False,
    task_by_task: bool = False,
    seed: int = 0,
    device: str = "cpu",
    engine: Engine = HERE,
    solve: bool = True,
    watcher: LessonWatcher = UNWATCHED,
) -> Model:
    """Fit a model to the rows of a table; a large table is read in parts.

    Parameters
    ----------
    spec : OwnData
        Rows marked by its test column are not learned; the model is measured on them.
    wish : Wish
    hold_out : bool
        Whether to hold out ``spec.test_share`` of each group if there is no test column.
    task_by_task : bool
        Whether tasks are learned one after the other, as they are if ``spec.tasks`` is given;
        otherwise all rows are learned at once.
    seed : int
    device : str
    engine : Engine
        Where a table in parts is summed.
    solve : bool
        Whether group weights are chosen; otherwise the model has only sums, for merging.
    watcher : LessonWatcher
    """
    raise_all(whole_mistakes(seed=seed))
    table = table_in_parts(spec, engine)
    if table is not None:
        refuse_in_parts(spec, task_by_task=task_by_task)
        return fit_parts(
            table,
            spec,
            wish,
            engine=engine,
            hold_out=spec.test_share if hold_out else 0.0,
            seed=seed,
            device=device,
            solve=solve,
            progress=watcher.rows,
            listener=watcher,
        )
    roles = replace(spec, path="")
    media = wish.media(roles)
    own = read_own(spec)
    measured = hold_out or spec.test_column is not None
    test = own.test_rows(spec, seed) if measured else np.zeros(len(own.table), dtype=bool)
    task_by_task = task_by_task or spec.tasks is not None
    parts = [rows[~test[rows]] for rows in _lessons(own, one_after_another=task_by_task)]
    notes: tuple[str, ...] = (*own.notes, *_tiny_groups(own))
    encoder: TableEncoder | ItemEncoder
    if media is None:
        features = own.table[spec.without_role(own.table.columns)]
        encoder, image = fit_encoder(features, np.flatnonzero(~test), parts[0]), None
        x = encoder.inputs(features)
        del features
    else:
        column, notes = own.table[spec.items], (*notes, *item_notes(spec, own.table))
        encoder, x = fit_items(
            column, spec.path, media, parts[0], device=device, progress=watcher.embedding
        )
        image = encoder.image
    every = TableRows.of(x, own)
    learned = with_copies(encoder, every, own, spec.path, watcher, device)
    del own, x  # frees memory for learning
    chosen = choose_config(wish, roles, *every.take(~test), device, watcher.trying, image)
    model = Model(
        chosen.config,
        seed,
        encoder=encoder,
        image=image,
        measured=chosen.measured,
        notes=[*chosen.notes, *notes, *encoder.notes],
    )
    watcher.start(model.config, len(parts))
    for rows in parts:
        lesson = _learn(model, *learned.take(rows), solve=solve, device=device, watcher=watcher)
        model.notes += lesson.notes
    if measured and solve:
        model.measure(*every.take(test), on="rows held out of fitting")
    return model


def _learn(
    model: Model,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
    *,
    solve: bool,
    watcher: LessonWatcher,
    device: str = "cpu",
) -> Lesson:
    """Learn rows in memory, or only their sums."""
    if solve:
        return model.learn(x, labels, values, device=device, listener=watcher)
    gathering = Gathering(model, x.shape[1], device)
    gathering.add(x, labels, values)
    return gathering.finish(solve=False)


def _tiny_groups(own: OwnTable) -> list[str]:
    """Return a note if most groups are too small to be compared."""
    sizes = np.bincount(own.groups.codes)
    sizes = sizes[sizes > 0]
    few = int((sizes < ENOUGH).sum())
    if own.z is None or 2 * few <= len(sizes):
        return []
    return [
        f"{few} of {len(sizes)} groups of class and attribute value have fewer than {ENOUGH} rows: "
        "fairness to them cannot be measured; use other attributes, or wider ranges"
    ]


def update_table(
    model: Model,
    path: Path,
    gaps: Gaps = NO_GAPS,
    *,
    engine: Engine = HERE,
    solve: bool = True,
    watcher: LessonWatcher = UNWATCHED,
) -> Lesson:
    """Train a model on the rows of another table; its classes may be new.

    Rows marked by the model's test column, if the table has it, are not learned; the model is
    measured on them. A large table is read in parts, see :func:`fit_table`.
    """
    spec, names = roles_for(model, path, gaps), [*model.names]
    table = table_in_parts(spec, engine)
    if table is not None:
        lesson = update_parts(
            model, table, spec, engine=engine, solve=solve, progress=watcher.rows, listener=watcher
        )
        model.notes += _alike(lesson.new_classes, names)
        return lesson
    every, learned, test, notes = rows_for(model, path, gaps, watcher)
    known = {*model.labels, *every.take(~test)[1]}
    new = [str(label) for label in dict.fromkeys(every.take(test)[1]) if label not in known]
    if test.all() or new:
        what = f"class(es) {shortened(new)}" if new else "any class"
        raise DataError(f"no row of {what} is left to learn: all are marked as test rows")
    watcher.start(model.config, 1)
    lesson = _learn(model, *learned.take(~test), solve=solve, watcher=watcher)
    model.notes += [*model.kept(notes), *lesson.notes, *_alike(lesson.new_classes, names)]
    if test.any() and solve:
        model.measure(*every.take(test), on="rows held out of an update")
    return lesson


def measure_table(
    model: Model,
    path: Path,
    gaps: Gaps = NO_GAPS,
    *,
    engine: Engine = HERE,
    watcher: LessonWatcher = UNWATCHED,
) -> tuple[Measured, list[str]]:
    """Measure a model on the rows of a table, and record the result; return notes on the rows.

    If the model's test column marks any rows of the table, only these are used, otherwise all are.
    A large table is read in parts, see :func:`fit_table`.
    """
    spec = roles_for(model, path, gaps)
    if (table := table_in_parts(spec, engine)) is not None:
        return measure_table_parts(model, table, spec, engine=engine, on=f"rows of {path.name}")
    every, _, test, notes = rows_for(model, path, gaps, watcher)
    rows = test if test.any() else np.ones_like(test)
    meant = every.take(rows)
    notes += unlearned_notes(model, meant[2] or ())
    return model.measure(*meant, on=f"rows of {path.name}"), notes


def _alike(new: Sequence[str], known: Sequence[str]) -> list[str]:
    """Report new classes that resemble known ones."""
    pairs = [(name, get_close_matches(name, known, 1, ALIKE)) for name in new]
    return [
        f"new class '{name}' looks like '{found[0]}', which was known; if it is a typo, correct "
        f"the rows and update the model as it was before"
        for name, found in pairs
        if found
    ]


def forget_table(
    model: Model, path: Path, gaps: Gaps = NO_GAPS, *, watcher: LessonWatcher = UNWATCHED
) -> list[str]:
    """Let a model forget the rows of a table, which it must have learned; return notes on them."""
    _, learned, test, notes = rows_for(model, path, gaps, watcher)
    notes += model.forget(*learned.take(~test)).notes
    if test.any():
        notes.append(f"rows that are marked for the test, which were never learned: {test.sum():,}")
    return notes


def predict_table(
    model: Model,
    path: Path,
    keep: Sequence[str] = (),
    *,
    probabilities: bool = False,
    engine: Engine = HERE,
    watcher: LessonWatcher = UNWATCHED,
) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Predict the rows of a table; neither class nor sensitive attribute is needed.

    Parameters
    ----------
    model : Model
    path : Path
    keep : sequence of str
        Columns to keep next to the predictions.
    probabilities : bool
        Whether to return the probabilities of all classes, not only of the predicted one.
    engine : Engine
        Where a table in parts is predicted.
    watcher : LessonWatcher

    Yields
    ------
    predictions : DataFrame
        For all rows or those of a part, in order: ``row``, counted from 1, the path of the image
        if there is one, the kept columns as in the file, ``prediction`` and ``probability``.
    notes : list of str
        Notes on all rows so far.
    """
    taken = [name for name in keep if name in PREDICTED]
    if taken:
        raise UsageError(
            f"column '{taken[0]}' cannot be kept: predictions have one of that name; rename it"
        )
    encoder, table = model.encoder, None
    if isinstance(encoder, TableEncoder):
        table = table_in_parts(OwnData(str(path), ""), engine)
    if table is None or not isinstance(encoder, TableEncoder):
        yield _predicted(model, path, keep, probabilities=probabilities, watcher=watcher)
        return
    known = table.names
    raise_all([unknown_name("column", name, known) for name in keep if name not in known])
    done, new = 0, NewValues()
    left_out = left_out_notes(model, table.names, keep)
    reader_for(model, table, model.config.own or OwnData(str(path), ""))  # rejects missing columns
    for frame, found in predict_parts(
        model, table, keep, probabilities=probabilities, engine=engine
    ):
        done += len(frame)
        new.update(found)
        watcher.rows(done, table.rows)
        yield frame, [*encoder.notes_on(new), *left_out]


def _predicted(
    model: Model, path: Path, keep: Sequence[str], *, probabilities: bool, watcher: LessonWatcher
) -> tuple[pd.DataFrame, list[str]]:
    """Predict the rows of a table in memory."""
    with unchanging(path):
        table = read_table(path, texts=texts_of(model))
        raise_all(
            [unknown_name("column", name, table.columns) for name in keep if name not in table]
        )
        if isinstance(model.encoder, ItemEncoder) and model.encoder.images:
            if path.is_dir():  # a folder of images, whatever the column was called
                table = table.rename(columns={PATH: model.encoder.column})
            keep = list(dict.fromkeys([model.encoder.column, *keep]))
        kept = table if path.is_dir() or not keep else read_table(path, keep, texts=keep)
    inputs, notes = inputs_of(model, table, path, watcher, keep)
    columns: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    columns |= {name: kept[name].to_numpy() for name in keep}
    columns |= predicted_columns(model, inputs, probabilities=probabilities)
    return pd.DataFrame(columns), notes


def _lessons(own: OwnTable, *, one_after_another: bool) -> list[Any]:
    """Return the rows of each lesson."""
    if not one_after_another:
        return [np.arange(len(own.table))]
    numbers = [[own.y.names.index(name) for name in task] for task in own.tasks]
    return [np.flatnonzero(np.isin(own.y.codes, task)) for task in numbers]
