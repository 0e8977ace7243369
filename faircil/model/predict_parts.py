"""Predictions of tables larger than memory, in parts: written one by one, or counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from faircil.data.features import NewValues, TableEncoder
from faircil.data.parts import COUNTED_TOGETHER, PartedTable, PartWork, TablePart, gathered
from faircil.data.row_parts import RowReader
from faircil.engines import HERE, Engine
from faircil.metrics import evaluate
from faircil.model.history import Measured
from faircil.model.model import Floats32, Model
from faircil.packing import Packed, pack, unpack


@dataclass
class PredictedRows:
    """Counts of predictions.

    Parameters
    ----------
    cells : Counter
        Rows by class, attribute value (−1: unknown) and predicted class.
    new : NewValues
        Values in the rows that the model does not know.
    """

    cells: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    new: NewValues = field(default_factory=NewValues)

    def merge(self, later: PredictedRows) -> None:
        """Add later rows."""
        self.cells.update(later.cells)
        self.new.update(later.new)


def predicted_columns(model: Model, x: Floats32, *, probabilities: bool) -> dict[str, Any]:
    """Return predictions of inputs (n, d) as columns, (n,) each.

    Parameters
    ----------
    model : Model
    x : ndarray of float32, shape (n, inputs)
    probabilities : bool
        Whether to return the probabilities of all classes, not only of the predicted one.
    """
    found = model.probabilities(x)
    best = found.argmax(axis=1)
    columns: dict[str, Any] = {
        "prediction": np.array(model.labels, dtype=object)[best],
        "probability": found[np.arange(len(found)), best],
    }
    if probabilities:
        columns |= {f"probability of {name}": found[:, n] for n, name in enumerate(model.names)}
    return columns


@dataclass(frozen=True)
class PredictRows:
    """Predicts the rows of a part, with a model packed without its sums.

    Parameters
    ----------
    packed : Packed
    table : PartedTable
    keep : tuple of str
        Columns to keep next to the predictions.
    probabilities : bool
        See :func:`predicted_columns`.
    """

    packed: Packed
    table: PartedTable
    keep: tuple[str, ...]
    probabilities: bool

    def __call__(self, part: TablePart) -> tuple[pd.DataFrame, NewValues]:
        """Return predictions, and count the values that the model does not know."""
        model: Model = unpack(self.packed)
        assert isinstance(model.encoder, TableEncoder)
        needed = [name for name in model.encoder.names if name in self.table.names]
        columns = list(dict.fromkeys([*needed, *self.keep]))
        frames, new = [], NewValues()
        for frame in self.table.read(part, columns):
            new.update(model.encoder.new_values(frame))
            found: dict[str, Any] = {"row": frame.index.to_numpy() + 1}
            found |= {name: frame[name].to_numpy() for name in self.keep}
            x = model.encoder.inputs(frame)
            found |= predicted_columns(model, x, probabilities=self.probabilities)
            frames.append(pd.DataFrame(found))
        return pd.concat(frames), new


def predict_parts(
    model: Model,
    table: PartedTable,
    keep: Sequence[str] = (),
    *,
    probabilities: bool = False,
    engine: Engine = HERE,
) -> Iterator[tuple[pd.DataFrame, NewValues]]:
    """Predict the rows of a table part by part, in order.

    Parameters
    ----------
    model : Model
    table : PartedTable
        A table with the columns that the model was fitted on.
    keep : sequence of str
        Columns to keep next to the predictions.
    probabilities : bool
        See :func:`predicted_columns`.
    engine : Engine

    Yields
    ------
    predictions : DataFrame
        ``row``, counted from 1, the kept columns, ``prediction`` and ``probability``.
    new : NewValues
        Values in the part that the model does not know.
    """
    work = PredictRows(pack(model.without_sums()), table, tuple(keep), probabilities)
    return engine.map(work, table.parts)


@dataclass(frozen=True)
class PredictParts(PartWork[PredictedRows]):
    """Counts predictions of held-out rows, with a model packed without its sums."""

    packed: Packed
    reader: RowReader

    @property
    def reads(self) -> Sequence[str]:
        """Columns to read."""
        return self.reader.reads

    def nothing(self) -> PredictedRows:
        """Return empty counts."""
        return PredictedRows()

    def add(self, found: PredictedRows, part: TablePart) -> PredictedRows:
        """Add the rows of a part."""
        model: Model = unpack(self.packed)
        for samples, new in self.reader.batches(part, held_out=True):
            found.new.update(new)
            z = torch.full_like(samples.y, -1) if samples.z is None else samples.z
            predicted = torch.from_numpy(model.predict(samples.x.numpy()))
            cells = torch.stack([samples.y, z, predicted], dim=1).numpy()
            rows, times = np.unique(cells, axis=0, return_counts=True)
            found.cells.update(dict(zip(map(tuple, rows.tolist()), times.tolist(), strict=True)))
        return found


def measure_parts(
    model: Model, reader: RowReader, engine: Engine = HERE, *, on: str
) -> tuple[Measured, list[str]]:
    """Measure a model on the held-out rows of a table, and record the result.

    Parameters
    ----------
    model, reader, engine
    on : str
        Description of the rows, in plain language.

    Returns
    -------
    measured : Measured
    notes : list of str
        Values in the rows that the model does not know.
    """
    encoder = reader.encoder
    assert encoder is not None
    reader = replace(reader, labels=model.names, values=tuple(model.values))
    found = PredictedRows()
    work = PredictParts(pack(model.without_sums()), reader)
    for some in engine.map(work, gathered(reader.table.parts, COUNTED_TOGETHER)):
        found.merge(some)
    cells = np.array(sorted(found.cells), dtype=np.int64)
    times = np.array([found.cells[tuple(cell)] for cell in cells.tolist()], dtype=np.int64)
    y_true, z, y_pred = cells.T
    sensitive = z if model.has_attribute else None
    favoured = model.learner.measure.favoured
    metrics = evaluate(y_true, y_pred, sensitive=sensitive, favoured=favoured, times=times)
    measured = model.remember(metrics, y_true, y_pred, sensitive, on, times)
    return measured, encoder.notes_on(found.new)
