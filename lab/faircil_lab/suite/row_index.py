"""The test rows of a stream in their order, and predictions read against them.

A row number is the place of a test row after the last task: tasks in order, and within a task the
order of the stream. After an earlier task, the rows so far are the first ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from faircil.data.stream import TaskStream
from faircil.errors import DataError, shortened
from faircil.metrics import predictions_by_task
from faircil.results.run_files import read_names

UNSEEN = -1  # in place of a prediction: the task of the row is still to come
MOST_NAMED = 5
MOST_LETTERS = 60  # of a name in a message
AFTER, TRUE, PREDICTED, ROW = "after_task", "y_true", "y_pred", "row"


@dataclass(frozen=True)
class RowIndex:
    """Test rows by number.

    Parameters
    ----------
    classes : tuple of str
        Names of all classes.
    task : ndarray of int64, shape (n,)
        The task of a row's class, from 1, ascending.
    label : tuple of str, length n
        The class of a row.
    value : tuple of str or None, length n
        Its attribute value, empty if unknown; None for the whole: there is no attribute.
    """

    classes: tuple[str, ...]
    task: NDArray[np.int64]
    label: tuple[str, ...]
    value: tuple[str, ...] | None

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.task[-1])

    def seen(self, after: int) -> int:
        """Return how many rows there are after a task, from 1."""
        return int((self.task <= after).sum())

    @cached_property
    def codes(self) -> Mapping[str, int]:
        """The number of each class."""
        return {name: number for number, name in enumerate(self.classes)}

    @property
    def digest(self) -> str:
        """A short hash of tasks, classes and attribute values of all rows, in order."""
        values = self.value or ("",) * len(self.label)
        rows = zip(self.task.tolist(), self.label, values, strict=True)
        text = "\n".join(f"{task}\t{label}\t{value}" for task, label, value in rows)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def index_of_stream(stream: TaskStream) -> RowIndex:
    """Return the test rows of a stream."""
    tests = stream.tests_after(len(stream.tasks))
    y = np.concatenate([test.y.numpy() for test in tests]).tolist()
    value = None
    if stream.attribute is not None:
        z = np.concatenate([test.z.numpy() for test in tests if test.z is not None]).tolist()
        value = tuple(stream.attribute_values[one] if one >= 0 else "" for one in z)
    task = np.repeat(np.arange(1, len(tests) + 1), [len(test) for test in tests])
    return RowIndex(stream.class_names, task, tuple(stream.class_names[c] for c in y), value)


def index_of_run(folder: Path) -> RowIndex:
    """Return the test rows of a finished run: those that it predicted after its last task."""
    rows = predictions_by_task(folder)[-1]
    return RowIndex(
        read_names(folder).classes,
        np.array([int(row["task"]) for row in rows]),
        tuple(row[TRUE] for row in rows),
        tuple(row["attribute"] for row in rows) if "attribute" in rows[0] else None,
    )


def read_aligned(path: Path, index: RowIndex, mistakes: list[str]) -> NDArray[np.int64] | None:
    """Read ``predictions.csv`` against the test rows that it should be of.

    Parameters
    ----------
    path : Path
        A table with the columns ``after_task`` (from 1), ``y_true``, ``y_pred`` and, where rows are
        not in the order of the index, ``row`` (from 0). ``task`` and ``attribute`` may be there.
        What is there besides the prediction has to be that of the index.
    index : RowIndex
    mistakes : list of str
        What is wrong is added, all of it.

    Returns
    -------
    ndarray of int64, shape (tasks, n), or None
        Number of the predicted class after each task; ``UNSEEN`` for rows of later tasks. None if
        something is wrong.
    """
    found: list[str] = []
    try:
        parts = predictions_by_task(path)
    except DataError as error:
        mistakes.append(str(error))
        return None
    predicted = np.full((index.tasks, len(index.label)), UNSEEN)
    names = [rows[0].get(AFTER) for rows in parts]
    if None in names:
        found.append(f"no column {AFTER}")
    else:
        wanted = [str(number) for number in range(1, index.tasks + 1)]
        found += _of_tasks("no predictions after task", [w for w in wanted if w not in names])
        found += _of_tasks(
            f"{AFTER} has values that are no task from 1 to {index.tasks}:",
            [str(name)[:MOST_LETTERS] for name in names if name not in wanted],
        )
        for name, rows in zip(names, parts, strict=True):
            if name in wanted:
                _read_task(rows, int(str(name)), index, predicted, found)
    mistakes += [f"{path}: {mistake}" for mistake in found]
    return None if found else predicted


def _of_tasks(what: str, numbers: Sequence[str]) -> list[str]:
    return [f"{what} {shortened(list(numbers), MOST_NAMED)}"] if numbers else []


def _read_task(
    rows: Sequence[Mapping[str, str]],
    after: int,
    index: RowIndex,
    predicted: NDArray[np.int64],
    found: list[str],
) -> None:
    """Enter the predictions after one task; what is wrong with them is added to ``found``."""
    size, where = index.seen(after), f"after task {after}"
    if len(rows) != size:
        found.append(f"{len(rows):,} rows {where}, expected {size:,}: one for each test row so far")
    unknown = Counter(row[PREDICTED] for row in rows if row[PREDICTED] not in index.codes)
    if unknown:
        named = shortened(
            [f"'{str(name)[:MOST_LETTERS]}' ({n:,} rows)" for name, n in unknown.items()],
            MOST_NAMED,
        )
        found.append(
            f"unknown classes are predicted {where}: {named}; expected names of "
            f"{shortened(list(index.classes), 2 * MOST_NAMED)}"
        )
    places = _places(rows, size, where, found)
    if places is None or len(rows) != size:
        return
    for column, truth in (("task", None), (TRUE, index.label), ("attribute", index.value)):
        if column not in rows[0] or (column == "attribute" and truth is None):
            continue
        right = [str(one) for one in index.task.tolist()] if truth is None else truth
        other = [p for row, p in zip(rows, places, strict=True) if row[column] != right[p]]
        if other:
            first = other[0]
            found.append(
                f"{column} differs from that of the test rows in {len(other):,} rows {where}, "
                f"first in row {first}, which has '{right[first]}'; put rows in the order of the "
                f"test rows, or add a column {ROW}"
            )
    if not unknown:
        predicted[after - 1, places] = [index.codes[row[PREDICTED]] for row in rows]


def _places(
    rows: Sequence[Mapping[str, str]], size: int, where: str, found: list[str]
) -> list[int] | None:
    """Return the number of each row, as its column says or else as they come."""
    if ROW not in rows[0]:
        return list(range(len(rows)))
    texts = [row[ROW] or "" for row in rows]
    # Numbers of thousands of digits are more than Python turns into one.
    long = len(str(size))
    wrong = [
        text
        for text in texts
        if not (text.isdecimal() and len(text.lstrip("0")) <= long and int(text) < size)
    ]
    if wrong:
        named = [repr(text[:MOST_LETTERS]) for text in dict.fromkeys(wrong)]
        found.append(
            f"{ROW} has {shortened(named, MOST_NAMED)} "
            f"{where}, expected numbers from 0 to {size - 1}"
        )
        return None
    numbers = [int(text) for text in texts]
    twice = [str(number) for number, n in Counter(numbers).items() if n > 1]
    if twice:
        found.append(f"rows {shortened(twice, MOST_NAMED)} are there more than once {where}")
        return None
    return numbers
