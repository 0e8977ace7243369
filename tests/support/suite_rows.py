"""Fabricated test rows, predictions and leaderboard rows."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.row_index import UNSEEN, RowIndex
from faircil_lab.suite.scoring import Measured, SeedScore

STREAM = SuiteStream("toy-groups", "made up", "points", "eo", (2, 4, 0, 240), ("",), "nothing")
SUITE = Suite("made-suite", 1, (STREAM,), (0, 1, 2, 3, 4))


def made_index(per_group: int = 30) -> RowIndex:
    """Return rows of classes a, b in task 1 and c, d in task 2, with values f and m."""
    label = tuple(np.repeat(list("abcd"), 2 * per_group).tolist())
    task = np.repeat([1, 2], 4 * per_group)
    return RowIndex(tuple("abcd"), task, label, tuple("fm" * (4 * per_group)))


def made_predictions(index: RowIndex, right: float, seed: int = 0) -> NDArray[np.int64]:
    """Predict a fraction of the rows correctly after each task, the others as the next class."""
    generator = np.random.default_rng(seed)
    label = np.array([index.codes[name] for name in index.label])
    hits = generator.random((index.tasks, len(label))) < right
    predicted = np.where(hits, label, (label + 1) % len(index.classes))
    for after in range(1, index.tasks + 1):
        predicted[after - 1, index.seen(after) :] = UNSEEN
    return predicted


def table_rows(index: RowIndex, predicted: NDArray[np.int64]) -> list[dict[str, str]]:
    """Return predictions as the rows of a table."""
    return [
        {
            "after_task": str(after),
            "row": str(row),
            "y_true": index.label[row],
            "y_pred": index.classes[predicted[after - 1, row]],
        }
        for after in range(1, index.tasks + 1)
        for row in range(index.seen(after))
    ]


def write_table(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def made_row(
    name: str,
    accuracy: float = 0.8,
    disparity: float = 0.1,
    worst: float = 0.5,
    seeds: Sequence[int] = SUITE.seeds,
    **more: object,
) -> BoardRow:
    """Return a row whose scores vary a little over seeds, mostly in the same way for all rows."""
    generator = np.random.default_rng(sum(map(ord, name)))

    def measured(value: float, seed: int) -> Measured:
        value += 0.002 * seed + 0.0005 * generator.standard_normal()
        return Measured(value, value - 0.01, value + 0.01)

    scores = {
        seed: SeedScore(
            *(measured(v, seed) for v in (accuracy, accuracy, disparity, worst)), None, 0.02
        )
        for seed in seeds
    }
    fields = {"suite": SUITE.label, "origin": "run", "what": name} | more
    return BoardRow(name, scores={STREAM.dataset: scores}, **fields)  # type: ignore[arg-type]
