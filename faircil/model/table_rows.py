"""Rows of a table for a model: which columns it uses, and how they become inputs.

A :class:`LessonWatcher` receives the progress of reading and learning.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.cache import EmbeddingProgress
from faircil.data.features import TableEncoder
from faircil.data.own import OwnData, OwnTable, read_own
from faircil.data.stream import Integers, RowEncoder
from faircil.data.table_columns import CROSSED, mark_mistakes, marked_test, name_of
from faircil.errors import DataError, UsageError, raise_all, shortened
from faircil.media import ItemEncoder
from faircil.model.model import Floats32, Model
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig

Mask = NDArray[np.bool_]
ARRAY = "x"  # name of the array of inputs in an archive


class LessonWatcher(Protocol):
    """Receives the progress of a model that learns."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Receive the number of texts or images embedded so far."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Receive a candidate that is tried, with the number of its run and of all runs."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Receive the number of lessons that begin."""

    def rows(self, done: int, total: int) -> None:
        """Receive the number of processed rows of a table in parts."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Receive an epoch."""


class UnwatchedLessons:
    """Ignores all progress."""

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


UNWATCHED = UnwatchedLessons()


@dataclass(frozen=True)
class TableRows:
    """Rows as a model learns them; see :meth:`faircil.model.model.Model.learn`.

    Each row has ``copies`` consecutive rows in ``x``; they are always taken together.
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
        if len(chosen) == len(self.labels) and self.copies == 1:  # all rows: avoid a copy
            return self.x, self.labels, self.values
        width = self.x.shape[1]
        x = self.x.reshape(len(self.labels), self.copies, width)[rows]
        chosen = np.repeat(chosen, self.copies)
        values = None if self.values is None else [self.values[row] for row in chosen]
        return x.reshape(len(chosen), width), [self.labels[row] for row in chosen], values


@dataclass(frozen=True)
class Gaps:
    """How missing values in further rows are handled, in addition to the model's own settings.

    See :class:`faircil.data.own.OwnData`.
    """

    drop_missing: bool = False
    unknown_group: bool = False


NO_GAPS = Gaps()


def with_copies(
    encoder: RowEncoder,
    every: TableRows,
    own: OwnTable,
    path: str | Path,
    watcher: LessonWatcher,
    device: str = "cpu",
) -> TableRows:
    """Return rows with augmented copies of each image, if there are any, for learning."""
    if not isinstance(encoder, ItemEncoder) or encoder.copies == 1:
        return every
    x = encoder.inputs(own.table, path, augmented=True, device=device, progress=watcher.embedding)
    return replace(every, x=x, copies=encoder.copies)


def rows_for(
    model: Model, path: Path, gaps: Gaps, watcher: LessonWatcher
) -> tuple[TableRows, TableRows, Mask, list[str]]:
    """Read rows; return them for prediction and for learning, the test rows, and notes."""
    spec = roles_for(model, path, gaps)
    assert model.encoder is not None
    own = read_own(replace(spec, test_column=None), new_rows=True, texts=texts_of(model))
    x, notes = inputs_of(model, own.table, path, watcher)
    test = np.zeros(len(x), dtype=bool)
    if spec.test_column in own.table:
        raise_all(mark_mistakes(own.table[spec.test_column], new_rows=True), DataError)
        test = marked_test(own.table[spec.test_column])
    every = TableRows.of(x, own)
    learned = with_copies(model.encoder, every, own, path, watcher)
    return every, learned, test, [*own.notes, *notes]


def roles_for(model: Model, path: Path, gaps: Gaps) -> OwnData:
    """Return the roles of the columns of another table for a model."""
    spec = model.config.own
    if spec is None or model.encoder is None:
        raise UsageError(
            f"this model was made from {_source(model)}, so it knows no column of classes; in "
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


def texts_of(model: Model) -> set[str]:
    """Return the text columns, whose type cannot be inferred from the rows of another file."""
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
    """Return whether a name is that of a number or a boolean."""
    try:
        return name in ("True", "False") or name_of(float(name)) == name
    except ValueError:
        return False


def inputs_of(
    model: Model,
    table: pd.DataFrame,
    path: Path,
    watcher: LessonWatcher,
    others: Sequence[str] = (),
) -> tuple[Floats32, list[str]]:
    """Return the inputs of rows, (n, inputs), and notes on them.

    A model that was not fitted to a table takes an array of an archive as it is. Columns that serve
    another purpose, ``others``, are not reported.
    """
    if model.encoder is not None:
        notes = model.encoder.check(table)
        notes += left_out_notes(model, table.columns, others)
        if isinstance(model.encoder, ItemEncoder):
            return model.encoder.inputs(table, path, progress=watcher.embedding), notes
        return model.encoder.inputs(table), notes
    columns = [f"{ARRAY}_{number}" for number in range(model.inputs)]
    if not set(columns) <= set(table.columns):
        raise UsageError(
            f"this model was made from {_source(model)}, so it knows no columns of a table; give "
            f"an .npz file with an array `{ARRAY}` of shape (n, {model.inputs}), as its run had "
            "them, or in Python, `FairIncrementalClassifier.load(folder).predict(X)`"
        )
    try:
        return table[columns].to_numpy(np.float32), []
    except ValueError as error:
        raise DataError(f"the array `{ARRAY}` is not an array of numbers ({error})") from None


def left_out_notes(model: Model, names: Iterable[str], others: Sequence[str] = ()) -> list[str]:
    """Report columns of a table without a role that are not inputs, except for ``others``."""
    if not isinstance(model.encoder, TableEncoder) or model.config.own is None:
        return []
    known = {*model.encoder.names, *others}
    more = [name for name in model.config.own.without_role(names) if name not in known]
    said = "columns that the model was not fitted with, left out"
    return [f"{said}: {shortened(more)}"] if more else []


def _source(model: Model) -> str:
    """Describe the inputs of a model without columns."""
    kind = "embeddings of texts" if model.config.text else "arrays"
    return f"{kind} of '{model.config.dataset}'" if model.config.dataset else kind
