"""A user's own table as a stream of tasks."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.data.encode import Coded, code_values, cross
from faircil.data.holdout import draw_test, marked_test, part_mistakes
from faircil.data.named_tasks import named_tasks
from faircil.data.own_inputs import OwnInputs, feature_inputs, text_inputs
from faircil.data.own_spec import OwnData, data_mistakes, usage_mistakes
from faircil.data.stream import Integers, Part, Task, TaskStream, cut_into_tasks
from faircil.data.tables import read_table
from faircil.errors import DataError, raise_all, shortened

__all__ = ["OwnData", "load_own"]


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
    raise_all(usage_mistakes(spec, table))
    labels = code_values(table[spec.label])
    tasks = named_tasks(spec.tasks, labels.names)
    used = np.isin(labels.names, list(chain.from_iterable(tasks)))
    # A missing label has code -1, the appended True: it stays, to be counted as a mistake.
    table = table[np.append(used, True)[labels.codes]]
    raise_all(data_mistakes(spec, table), DataError)

    y = code_values(table[spec.label])
    attributes = [code_values(table[name]) for name in spec.sensitive]
    z = reduce(cross, attributes) if attributes else None
    groups = y if z is None else cross(y, z)
    if spec.test_column is None:
        test = draw_test(groups.codes, spec.test_share, seed)
    else:
        test = marked_test(table[spec.test_column])
    raise_all(part_mistakes(y, test), DataError)
    classes = [tuple(y.names.index(name) for name in task) for task in tasks]
    inputs = _inputs(spec, table, np.flatnonzero(~test), np.isin(y.codes, classes[0]))
    left_out = [name for name, use in zip(labels.names, used, strict=True) if not use]
    return TaskStream(
        name=spec.name,
        tasks=_cut(inputs, y, z, test, classes),
        class_names=y.names,
        attribute=" × ".join(spec.sensitive) or None,
        attribute_values=() if z is None else z.names,
        notes=(*_notes(left_out, groups, test), *inputs.notes),
        texts=inputs.texts,
    )


def _inputs(
    spec: OwnData, table: pd.DataFrame, train: Integers, is_in_first_task: NDArray[np.bool_]
) -> OwnInputs:
    others = spec.without_role(table)
    if spec.text is not None:
        return text_inputs(table[spec.text], others)
    return feature_inputs(table[others], train, train[is_in_first_task[train]])


def _cut(
    inputs: OwnInputs,
    y: Coded,
    z: Coded | None,
    test: NDArray[np.bool_],
    classes: list[tuple[int, ...]],
) -> tuple[Task, ...]:
    def part(rows: Integers) -> Part:
        attribute = None if z is None else z.codes[rows]
        return Part(y.codes[rows], attribute, lambda chosen: inputs.of(rows[chosen]))

    return cut_into_tasks(part(np.flatnonzero(~test)), part(np.flatnonzero(test)), classes)


def _notes(left_out: list[str], groups: Coded, test: NDArray[np.bool_]) -> list[str]:
    """Say what a user should know about the classes and the groups."""
    notes = []
    if left_out:
        notes.append(f"classes in no task, left out: {shortened(left_out)}")
    untested = np.setdiff1d(groups.codes, groups.codes[test])
    if len(untested):
        notes.append(
            "groups without a test sample (one with a single sample is for training): "
            f"{shortened([groups.names[g] for g in untested])}"
        )
    return notes
