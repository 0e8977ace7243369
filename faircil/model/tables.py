"""Models of tables: learn the rows of a file, predict those of another, forget some."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.cache import EmbeddingProgress
from faircil.counts import ENOUGH
from faircil.data.encode import CROSSED, mark_mistakes, marked_test, name_of
from faircil.data.features import TableEncoder, fit_encoder
from faircil.data.own import OwnData, OwnTable, item_notes, read_own
from faircil.data.stream import Integers, RowEncoder
from faircil.data.tables import PATH, read_table
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
from faircil.model.gathering import Gathering
from faircil.model.history import Lesson, Measured
from faircil.model.in_parts import (
    fit_parts,
    measure_table_parts,
    reader_for,
    refuse_in_parts,
    table_in_parts,
    update_parts,
)
from faircil.model.model import Floats32, Model
from faircil.model.predict_parts import predict_parts, predicted_columns
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig

Mask = NDArray[np.bool_]
ARRAY = "x"  # of an archive of inputs as they are
PREDICTED = ("row", "prediction", "probability")  # columns of predictions


@dataclass(frozen=True)
class TableRows:
    """Rows as a model learns them, see :meth:`faircil.model.model.Model.learn`.

    Of each row, ``x`` has so many ``copies`` one after the other; all of them are taken.
    """

    x: Floats32
    labels: list[Hashable]
    values: list[str | None] | None
    copies: int = 1

    @classmethod
    def of(cls, x: Floats32, own: OwnTable) -> TableRows:
        """Return the rows of a table with these inputs."""
        return cls(x, list(own.y.values), None if own.z is None else own.z.values)

    def take(
        self, rows: Mask | Integers
    ) -> tuple[Floats32, list[Hashable], list[str | None] | None]:
        """Return inputs, classes and attribute values of some rows, in ascending order."""
        chosen = np.arange(len(self.labels))[rows]
        if len(chosen) == len(self.labels) and self.copies == 1:  # no copy of all of them
            return self.x, self.labels, self.values
        width = self.x.shape[1]
        x = self.x.reshape(len(self.labels), self.copies, width)[rows]
        chosen = np.repeat(chosen, self.copies)
        values = None if self.values is None else [self.values[row] for row in chosen]
        return x.reshape(len(chosen), width), [self.labels[row] for row in chosen], values


@dataclass(frozen=True)
class Gaps:
    """What becomes of further rows without a value, beside what the model was fitted with.

    See :class:`faircil.data.own.OwnData`.
    """

    drop_missing: bool = False
    unknown_group: bool = False


NO_GAPS = Gaps()
ALIKE = 0.8  # ratio of two names that may be one, misspelt


class Watcher(Protocol):
    """Receives the progress of a model that learns."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Take note of how many texts or images are embedded."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Take note that a candidate is tried, in which of how many runs."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Take note that so many lessons begin."""

    def rows(self, done: int, total: int) -> None:
        """Take note of how many rows of a table in parts are done."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Take note of an epoch."""


class Unwatched:
    """Takes note of nothing."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Ignore the embedding."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Ignore the candidate."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Ignore the lessons."""

    def rows(self, done: int, total: int) -> None:
        """Ignore the rows."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Ignore the epoch."""


UNWATCHED = Unwatched()


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
    watcher: Watcher = UNWATCHED,
) -> Model:
    """Make a model of the rows of a table; a large one is read in parts.

    Parameters
    ----------
    spec : OwnData
        Rows that its test column marks are not learned; the model is measured on them.
    wish : Wish
    hold_out : bool
        Whether ``spec.test_share`` of each group is held out instead, where it has no test column.
    task_by_task : bool
        Whether tasks are learned one after the other, as they are if ``spec.tasks`` names them;
        else all rows are learned at once.
    seed : int
    device : str
    engine : Engine
        Where a table in parts is summed.
    solve : bool
        Whether weights of groups are chosen; else the model has sums alone, for a merge.
    watcher : Watcher
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
        features = own.table[spec.without_role(own.table)]
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
    learned = _with_copies(encoder, every, own, spec.path, watcher, device)
    del own, x  # room for what is learned from them
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
    watcher: Watcher,
    device: str = "cpu",
) -> Lesson:
    """Learn rows in memory, or their sums alone."""
    if solve:
        return model.learn(x, labels, values, device=device, listener=watcher)
    gathering = Gathering(model, x.shape[1], device)
    gathering.add(x, labels, values)
    return gathering.finish(solve=False)


def _tiny_groups(own: OwnTable) -> list[str]:
    """Say if most groups are too small to be compared."""
    sizes = np.bincount(own.groups.codes)
    sizes = sizes[sizes > 0]
    few = int((sizes < ENOUGH).sum())
    if own.z is None or 2 * few <= len(sizes):
        return []
    return [
        f"{few} of {len(sizes)} groups of class and attribute value have fewer than {ENOUGH} rows: "
        "how fair a model is to them cannot be told; name other attributes, or wider ranges"
    ]


def _with_copies(
    encoder: RowEncoder,
    every: TableRows,
    own: OwnTable,
    path: str | Path,
    watcher: Watcher,
    device: str = "cpu",
) -> TableRows:
    """Return rows with further copies of each image, if there are any, for learning."""
    if not isinstance(encoder, ItemEncoder) or encoder.copies == 1:
        return every
    x = encoder.inputs(own.table, path, augmented=True, device=device, progress=watcher.embedding)
    return replace(every, x=x, copies=encoder.copies)


def update_table(
    model: Model,
    path: Path,
    gaps: Gaps = NO_GAPS,
    *,
    engine: Engine = HERE,
    solve: bool = True,
    watcher: Watcher = UNWATCHED,
) -> Lesson:
    """Let a model learn the rows of another table; its classes may be new.

    Rows that the test column of the model marks, if the table has it, are not learned; the model is
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
        raise DataError(f"no row of {what} is left to learn: all are marked for the test")
    watcher.start(model.config, 1)
    lesson = _learn(model, *learned.take(~test), solve=solve, watcher=watcher)
    model.notes += [*notes, *lesson.notes, *_alike(lesson.new_classes, names)]
    if test.any() and solve:
        model.measure(*every.take(test), on="rows held out of an update")
    return lesson


def measure_table(
    model: Model,
    path: Path,
    gaps: Gaps = NO_GAPS,
    *,
    engine: Engine = HERE,
    watcher: Watcher = UNWATCHED,
) -> tuple[Measured, list[str]]:
    """Measure a model on the rows of a table; the model remembers it. Notes are on the rows.

    Rows that the test column of the model marks, if the table has any, are meant; else all are. A
    large table is read in parts, see :func:`fit_table`.
    """
    spec = roles_for(model, path, gaps)
    if (table := table_in_parts(spec, engine)) is not None:
        return measure_table_parts(model, table, spec, engine=engine, on=f"rows of {path.name}")
    every, _, test, notes = rows_for(model, path, gaps, watcher)
    rows = test if test.any() else np.ones_like(test)
    return model.measure(*every.take(rows), on=f"rows of {path.name}"), notes


def _alike(new: Sequence[str], known: Sequence[str]) -> list[str]:
    """Name new classes that look like known ones."""
    pairs = [(name, get_close_matches(name, known, 1, ALIKE)) for name in new]
    return [
        f"new class '{name}' looks like '{found[0]}', which was known; if it is a typing error, "
        "correct the rows and learn them with the model as it was"
        for name, found in pairs
        if found
    ]


def forget_table(
    model: Model, path: Path, gaps: Gaps = NO_GAPS, *, watcher: Watcher = UNWATCHED
) -> list[str]:
    """Let a model forget the rows of a table, which it has learned before; return notes on them."""
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
    watcher: Watcher = UNWATCHED,
) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Predict the rows of a table; neither class nor sensitive attribute is needed.

    Parameters
    ----------
    model : Model
    path : Path
    keep : sequence of str
        Columns to keep beside the predictions.
    probabilities : bool
        Whether the probability of every class is wanted, not only of the predicted one.
    engine : Engine
        Where a table in parts is predicted.
    watcher : Watcher

    Yields
    ------
    predictions : DataFrame
        Of all rows, or of those of a part, in order: ``row``, counted from 1, the path of its image
        if there is one, the kept columns as they are in the file, ``prediction`` and
        ``probability``.
    notes : list of str
    """
    taken = [name for name in keep if name in PREDICTED]
    if taken:
        raise UsageError(
            f"column '{taken[0]}' cannot be kept: predictions have one of that name; rename it"
        )
    table = None
    if isinstance(model.encoder, TableEncoder):
        table = table_in_parts(OwnData(str(path), ""), engine)
    if table is None:
        yield _predicted(model, path, keep, probabilities=probabilities, watcher=watcher)
        return
    known = table.names
    raise_all([unknown_name("column", name, known) for name in keep if name not in known])
    done = 0
    reader_for(model, table, model.config.own or OwnData(str(path), ""))  # refuses missing columns
    for frame, notes in predict_parts(
        model, table, keep, probabilities=probabilities, engine=engine
    ):
        done += len(frame)
        watcher.rows(done, table.rows)
        yield frame, notes


def _predicted(
    model: Model, path: Path, keep: Sequence[str], *, probabilities: bool, watcher: Watcher
) -> tuple[pd.DataFrame, list[str]]:
    """Predict the rows of a table in memory."""
    table = read_table(path, texts=_texts(model))
    raise_all([unknown_name("column", name, table.columns) for name in keep if name not in table])
    if isinstance(model.encoder, ItemEncoder) and model.encoder.images:
        if path.is_dir():  # its images are those that are meant, whatever the column was called
            table = table.rename(columns={PATH: model.encoder.column})
        keep = list(dict.fromkeys([model.encoder.column, *keep]))
    inputs, notes = _inputs(model, table, path, watcher, keep)
    columns: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    kept = table if path.is_dir() or not keep else read_table(path, keep, texts=keep)
    columns |= {name: kept[name].to_numpy() for name in keep}
    columns |= predicted_columns(model, inputs, probabilities=probabilities)
    return pd.DataFrame(columns), notes


def rows_for(
    model: Model, path: Path, gaps: Gaps, watcher: Watcher
) -> tuple[TableRows, TableRows, Mask, list[str]]:
    """Read rows as a model predicts and as it learns them, which are for the test, and notes."""
    spec = roles_for(model, path, gaps)
    assert model.encoder is not None
    own = read_own(replace(spec, test_column=None), new_rows=True, texts=_texts(model))
    x, notes = _inputs(model, own.table, path, watcher)
    test = np.zeros(len(x), dtype=bool)
    if spec.test_column in own.table:
        raise_all(mark_mistakes(own.table[spec.test_column], new_rows=True), DataError)
        test = marked_test(own.table[spec.test_column])
    every = TableRows.of(x, own)
    learned = _with_copies(model.encoder, every, own, path, watcher)
    return every, learned, test, [*own.notes, *notes]


def roles_for(model: Model, path: Path, gaps: Gaps) -> OwnData:
    """Return the roles of the columns of another table for a model."""
    spec = model.config.own
    if spec is None or model.encoder is None:
        raise UsageError(
            f"this model was made of {_source(model)}, so it knows no column of classes; in "
            "Python, `FairIncrementalClassifier.load(folder)` has `partial_fit(X, y)` and "
            "`forget(X, y)`"
        )
    return replace(
        spec,
        path=str(path),
        tasks=None,
        drop_missing=spec.drop_missing or gaps.drop_missing,
        unknown_group=spec.unknown_group or gaps.unknown_group,
    )


def _texts(model: Model) -> set[str]:
    """Return the columns that are text: what they look like depends on the rows of a file."""
    names: set[str] = set()
    if isinstance(model.encoder, ItemEncoder):
        names = {model.encoder.column}
    elif isinstance(model.encoder, TableEncoder):
        names = {one.name for one in model.encoder.columns if one.kind in ("category", "hashed")}
    own = model.config.own
    if own is not None:
        known = {own.label: list(model.names)}
        parts = [value.split(CROSSED) for value in model.values]
        for place, name in enumerate(own.sensitive):
            known[name] = [part[place] for part in parts if len(part) == len(own.sensitive)]
        names |= {name for name, values in known.items() if not all(map(_is_no_text, values))}
    return names


def _is_no_text(name: str) -> bool:
    """Tell whether a name is that of a number or a boolean."""
    try:
        return name in ("True", "False") or name_of(float(name)) == name
    except ValueError:
        return False


def _inputs(
    model: Model,
    table: pd.DataFrame,
    path: Path,
    watcher: Watcher,
    others: Sequence[str] = (),
) -> tuple[Floats32, list[str]]:
    """Return the inputs of rows, (n, inputs), and notes on them.

    A model that was made of no table takes an array of an archive as it is. Columns that are there
    for something else, ``others``, are not noted.
    """
    if model.encoder is not None:
        notes = model.encoder.check(table)
        notes += left_out_notes(model, table, others)
        if isinstance(model.encoder, ItemEncoder):
            return model.encoder.inputs(table, path, progress=watcher.embedding), notes
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


def left_out_notes(model: Model, table: pd.DataFrame, others: Sequence[str] = ()) -> list[str]:
    """Say which columns without a role a model was not fitted with, but for some others."""
    if not isinstance(model.encoder, TableEncoder) or model.config.own is None:
        return []
    known = {*model.encoder.names, *others}
    more = [name for name in model.config.own.without_role(table) if name not in known]
    said = "columns that the model was not fitted with, left out"
    return [f"{said}: {shortened(more)}"] if more else []


def _source(model: Model) -> str:
    """Say what a model without columns was made of."""
    kind = "embeddings of texts" if model.config.text else "arrays"
    return f"{kind} of '{model.config.dataset}'" if model.config.dataset else kind


def _lessons(own: OwnTable, *, one_after_another: bool) -> list[Any]:
    """Return the rows of each lesson."""
    if not one_after_another:
        return [np.arange(len(own.table))]
    numbers = [[own.y.names.index(name) for name in task] for task in own.tasks]
    return [np.flatnonzero(np.isin(own.y.codes, task)) for task in numbers]
