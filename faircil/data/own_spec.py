"""What a user says about a table, and what of it does not fit the table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from faircil.data.encode import code_values
from faircil.data.named_tasks import task_mistakes
from faircil.data.roles import (
    attribute_mistakes,
    feature_mistakes,
    label_mistakes,
    mark_mistakes,
    same_text_mistakes,
    text_mistakes,
)
from faircil.errors import unknown_name

MAX_MISTAKES = 20


@dataclass(frozen=True)
class OwnData:
    """A table and the roles of its columns; those without a role are features.

    Parameters
    ----------
    path : str
        A ``.csv`` or ``.tsv`` file with a header row, also gzipped, a ``.parquet`` file, or an
        ``.npz`` archive with an array (n,) per column; a numeric array ``x`` (n, d) is d columns
        ``x_0``, ``x_1``, ….
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
    text : str, optional
        Column of texts, for an encoder. They are then the only input: columns without a role are
        left out.
    """

    path: str
    label: str
    sensitive: tuple[str, ...] = ()
    tasks: str | None = None
    use_sensitive: bool = False
    test_column: str | None = None
    test_share: float = 0.3
    text: str | None = None

    @property
    def name(self) -> str:
        """Name of the data: that of its file, without the endings."""
        return Path(self.path).name.removesuffix(".gz").rpartition(".")[0].strip(".") or "data"

    def without_role(self, table: pd.DataFrame) -> list[str]:
        """Return the columns that are neither class, attribute, mark of test rows nor text."""
        taken = {self.label, self.test_column, self.text}
        taken |= set() if self.use_sensitive else set(self.sensitive)
        return [name for name in table.columns if name not in taken]


def usage_mistakes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    """Say which roles, tasks and shares do not fit the columns and classes of the table."""
    others = (name for name in (spec.test_column, spec.text) if name is not None)
    given = [spec.label, *spec.sensitive, *others]
    mistakes = [unknown_name("column", name, table.columns) for name in given if name not in table]
    mistakes += [
        f"column '{name}' is given {times} times; label, sensitive, test and text column must "
        "differ"
        for name, times in Counter(given).items()
        if times > 1
    ]
    if not 0 < spec.test_share < 1:
        mistakes.append(f"the test share is {spec.test_share}; choose one between 0 and 1")
    if spec.text is not None and spec.use_sensitive:
        mistakes.append(
            f"the text of column '{spec.text}' is the only input, so sensitive columns cannot be "
            "features too; leave out --use-sensitive or --text"
        )
    if spec.tasks is not None and spec.label in table:
        mistakes += task_mistakes(spec.tasks, code_values(table[spec.label]).names)
    return mistakes


def data_mistakes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    """Say which values of the table cannot be used in their column's role."""
    mistakes = label_mistakes(table[spec.label])
    for name in spec.sensitive:
        mistakes += attribute_mistakes(table[name])
    if spec.test_column is not None:
        mistakes += mark_mistakes(table[spec.test_column])
    if spec.text is not None:
        mistakes += text_mistakes(table[spec.text]) or same_text_mistakes(table[spec.text])
    else:
        features = spec.without_role(table)
        for name in features:
            mistakes += feature_mistakes(table[name])
        if not features:
            mistakes.append(f"{spec.path} has no column left for features; add some")
    distinct = list(dict.fromkeys(mistakes))
    if len(distinct) > MAX_MISTAKES:
        return [*distinct[:MAX_MISTAKES], f"and {len(distinct) - MAX_MISTAKES} more of this kind"]
    return distinct
