"""A user's own table as a stream of tasks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.data.encode import Coded, code_values, cross, fit_inputs
from faircil.data.holdout import draw_test, marked_test, part_mistakes
from faircil.data.named_tasks import named_tasks, task_mistakes
from faircil.data.roles import attribute_mistakes, feature_mistakes, label_mistakes, mark_mistakes
from faircil.data.stream import Integers, Part, Task, TaskStream, cut_into_tasks
from faircil.data.tables import read_table
from faircil.errors import DataError, raise_all, shortened, unknown_name

MAX_MISTAKES = 20


@dataclass(frozen=True)
class OwnData:
    """A table and the roles of its columns; those without a role are features.

    Parameters
    ----------
    path : str
        A ``.csv`` or ``.tsv`` file with a header row, also gzipped, or an ``.npz`` archive with
        an array (n,) per column; a numeric array ``x`` (n, d) is d columns ``x_0``, ``x_1``, ….
    label : str
        Column of the class.
    sensitive : tuple of str
        Columns of sensitive attributes. Several make one attribute of the combinations that
        occur, "sex × race".
    tasks : str, optional
        ``"a,b|c,d"``: classes a and b, then c and d; other classes are left out. By default two
        classes per task in sorted order.
    use_sensitive : bool
        Whether the sensitive columns are features too.
    test_column : str, optional
        Column that marks test rows: 0/1, false/true or train/test.
    test_share : float
        Without a test column: share of each group (class × attribute value) drawn for the test.
    """

    path: str
    label: str
    sensitive: tuple[str, ...] = ()
    tasks: str | None = None
    use_sensitive: bool = False
    test_column: str | None = None
    test_share: float = 0.3

    @property
    def name(self) -> str:
        """Name of the data: that of its file, without the endings."""
        return Path(self.path).name.removesuffix(".gz").rpartition(".")[0].strip(".") or "data"


def load_own(spec: OwnData, seed: int) -> TaskStream:
    """Read, check, split and encode a user's data.

    Parameters
    ----------
    spec : OwnData
        The table and the roles of its columns.
    seed : int
        Seed of the draw of test rows.

    Returns
    -------
    TaskStream
        Named after the file; its notes say what was left out and how text was encoded.

    Raises
    ------
    UsageError
        The roles or the tasks do not fit the table.
    DataError
        The file or its values cannot be used.
    """
    table = read_table(Path(spec.path))
    raise_all(_usage_mistakes(spec, table))
    labels = code_values(table[spec.label])
    tasks = named_tasks(spec.tasks, labels.names)
    used = np.isin(labels.names, list(chain.from_iterable(tasks)))
    # A missing label has code -1, the appended True: it stays, to be counted as a mistake.
    table = table[np.append(used, True)[labels.codes]]
    raise_all(_data_mistakes(spec, table), DataError)

    y = code_values(table[spec.label])
    attributes = [code_values(table[name]) for name in spec.sensitive]
    z = reduce(cross, attributes) if attributes else None
    groups = y if z is None else cross(y, z)
    if spec.test_column is None:
        test = draw_test(groups.codes, spec.test_share, seed)
    else:
        test = marked_test(table[spec.test_column])
    raise_all(part_mistakes(y, test), DataError)
    features = table[_feature_names(spec, table)]
    classes = [tuple(y.names.index(name) for name in task) for task in tasks]
    left_out = [name for name, use in zip(labels.names, used, strict=True) if not use]
    return TaskStream(
        name=spec.name,
        tasks=_cut(features, y, z, test, classes),
        class_names=y.names,
        attribute=" × ".join(spec.sensitive) or None,
        attribute_values=() if z is None else z.names,
        notes=tuple(_notes(left_out, groups, test, features)),
    )


def _usage_mistakes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    given = [spec.label, *spec.sensitive, *([spec.test_column] if spec.test_column else [])]
    mistakes = [unknown_name("column", name, table.columns) for name in given if name not in table]
    mistakes += [
        f"column '{name}' is given {times} times; label, sensitive and test column must differ"
        for name, times in Counter(given).items()
        if times > 1
    ]
    if not 0 < spec.test_share < 1:
        mistakes.append(f"the test share is {spec.test_share}; choose one between 0 and 1")
    if spec.tasks is not None and spec.label in table:
        mistakes += task_mistakes(spec.tasks, code_values(table[spec.label]).names)
    return mistakes


def _data_mistakes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    features = _feature_names(spec, table)
    mistakes = label_mistakes(table[spec.label])
    for name in spec.sensitive:
        mistakes += attribute_mistakes(table[name])
    if spec.test_column is not None:
        mistakes += mark_mistakes(table[spec.test_column])
    for name in features:
        mistakes += feature_mistakes(table[name])
    if not features:
        mistakes.append(f"{spec.path} has no column left for features; add some")
    distinct = list(dict.fromkeys(mistakes))
    if len(distinct) > MAX_MISTAKES:
        return [*distinct[:MAX_MISTAKES], f"and {len(distinct) - MAX_MISTAKES} more of this kind"]
    return distinct


def _feature_names(spec: OwnData, table: pd.DataFrame) -> list[str]:
    taken = {spec.label, spec.test_column, *(() if spec.use_sensitive else spec.sensitive)}
    return [name for name in table.columns if name not in taken]


def _cut(
    features: pd.DataFrame,
    y: Coded,
    z: Coded | None,
    test: NDArray[np.bool_],
    classes: list[tuple[int, ...]],
) -> tuple[Task, ...]:
    train_rows, test_rows = np.flatnonzero(~test), np.flatnonzero(test)
    first_task = train_rows[np.isin(y.codes[train_rows], classes[0])]
    inputs = fit_inputs(features, train_rows, first_task)

    def part(rows: Integers) -> Part:
        attribute = None if z is None else z.codes[rows]
        return Part(y.codes[rows], attribute, lambda chosen: inputs(rows[chosen]))

    return cut_into_tasks(part(train_rows), part(test_rows), classes)


def _notes(
    left_out: list[str], groups: Coded, test: NDArray[np.bool_], features: pd.DataFrame
) -> list[str]:
    """Say what a user should know about the classes, the groups and the features."""
    notes = []
    if left_out:
        notes.append(f"classes in no task, left out: {shortened(left_out)}")
    untested = np.setdiff1d(groups.codes, groups.codes[test])
    if len(untested):
        notes.append(
            "groups without a test sample (one with a single sample is for training): "
            f"{shortened([groups.names[g] for g in untested])}"
        )
    text = [
        f"{name} ({features[name].nunique()})"
        for name in features.columns
        if not is_numeric_dtype(features[name])
    ]
    if text:
        notes.append(f"text columns (categories), one input per category: {shortened(text)}")
    return notes
