"""A user's table as a stream of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.data.features import TableEncoder, fit_encoder
from faircil.data.stream import (
    Inputs,
    Integers,
    Part,
    Task,
    TaskStream,
    cut_into_tasks,
    named_tasks,
    task_mistakes,
)
from faircil.data.table_columns import (
    Coded,
    attribute_mistakes,
    code_values,
    cross,
    cross_all,
    draw_test,
    feature_mistakes,
    label_mistakes,
    mark_mistakes,
    marked_test,
    part_mistakes,
    same_text_mistakes,
    text_mistakes,
)
from faircil.data.tables import CLASS, NOTES, PATH, read_table
from faircil.errors import DataError, raise_all, shortened, unknown_name

MAX_MISTAKES = 20


@dataclass(frozen=True)
class OwnData:
    """A table and the roles of its columns; those without a role are features.

    Parameters
    ----------
    path : str
        A ``.csv`` or ``.tsv`` file with a header row, optionally gzipped; a ``.parquet``,
        ``.arrow`` or ``.feather`` file; a folder of Parquet, Arrow or ``.npy`` files; or an
        ``.npz`` archive with an array (n,) per column, of which a numeric array ``x`` (n, d)
        becomes d columns ``x_0``, ``x_1``, …. Empty for a table in memory.
    label : str
        Column of the class.
    sensitive : tuple of str
        Columns of sensitive attributes. Several columns are combined into one attribute, such as
        "sex × race".
    tasks : str, optional
        ``"a,b|c,d"``: classes a and b, then c and d; other classes are excluded. Or one line per
        task, see :func:`named_tasks`. Default: ``classes_per_task`` in sorted order.
    classes_per_task : int
        Number of classes per task, without ``tasks``.
    use_sensitive : bool
        Whether the sensitive columns are also features.
    test_column : str, optional
        Column that marks test rows: 0/1, false/true or train/test.
    test_share : float
        Without a test column: share of each group (class × attribute value) drawn for the test.
    text : str, optional
        Column of texts, which an encoder processes. Texts are then the only input; columns without
        a role are ignored.
    images : str, optional
        Column of paths of image files, absolute or relative to the folder of the table. Images are
        then the only input. If the data is a folder of images, its columns are ``path`` and
        ``class``, see :func:`faircil.data.tables.read_folder`.
    drop_missing : bool
        Whether rows without a class or a sensitive attribute are left out; otherwise, they are an
        error.
    unknown_group : bool
        Whether rows without a sensitive attribute are kept, as people of an unknown group.
    ignore : tuple of str
        Columns to leave out.
    """

    path: str
    label: str
    sensitive: tuple[str, ...] = ()
    tasks: str | None = None
    use_sensitive: bool = False
    test_column: str | None = None
    test_share: float = 0.3
    text: str | None = None
    classes_per_task: int = 2
    drop_missing: bool = False
    unknown_group: bool = False
    images: str | None = None
    ignore: tuple[str, ...] = ()

    @classmethod
    def of_folder(cls, path: str) -> OwnData:
        """Return the roles of a folder that has a folder of images for each class."""
        return cls(path, CLASS, images=PATH)

    @property
    def name(self) -> str:
        """Name of the data: the file name without extensions, or that of the folder."""
        name = Path(self.path).name.removesuffix(".gz")
        stem = name.rpartition(".")[0] if "." in name else name
        return stem.strip(".") or "data"

    @property
    def items(self) -> str | None:
        """Column of texts or of images, which are then the only input; None if there is none."""
        return self.images if self.text is None else self.text

    @property
    def items_kind(self) -> str:
        """Word for one of these items in messages."""
        return "image" if self.text is None else "text"

    def files(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the full paths of image files, given absolute or relative to the data's folder."""
        path = Path(self.path)
        folder = path if path.is_dir() else path.parent
        return tuple(str(folder / name.strip()) for name in names)

    def without_role(self, names: Iterable[str]) -> list[str]:
        """Return the columns that are neither class, attribute, test, text, image nor ignored."""
        taken = {self.label, self.test_column, self.text, self.images, *self.ignore}
        taken |= set() if self.use_sensitive else set(self.sensitive)
        return [name for name in names if name not in taken]


def usage_mistakes(spec: OwnData, names: Sequence[str]) -> list[str]:
    """Return mistakes: roles that do not match the columns of a table, and numbers out of range."""
    others = [name for name in (spec.test_column, spec.text, spec.images) if name is not None]
    given = [spec.label, *spec.sensitive, *others, *spec.ignore]
    mistakes = [unknown_name("column", name, names) for name in given if name not in names]
    mistakes += [
        f"column '{name}' is given {times} times; label, sensitive, test, text, image and ignored "
        "columns must differ"
        for name, times in Counter(given).items()
        if times > 1
    ]
    if spec.classes_per_task < 1:
        mistakes.append(f"`classes_per_task` is {spec.classes_per_task}, expected at least 1")
    if spec.tasks is not None and spec.classes_per_task != 2:
        mistakes.append("`tasks` and `classes_per_task` are given; give one of them")
    if not 0 < spec.test_share < 1:
        mistakes.append(f"`test_share` is {spec.test_share}, expected a number between 0 and 1")
    if spec.text is not None and spec.images is not None:
        mistakes.append(
            "`text` and `images` are given, and either is the only input; leave one out"
        )
    elif spec.items is not None and spec.use_sensitive:
        kind, role = spec.items_kind, "text" if spec.images is None else "images"
        mistakes.append(
            f"the {kind} of column '{spec.items}' is the only input, so sensitive columns cannot "
            f"be features too; leave out `use_sensitive` or `{role}`"
        )
    return mistakes


def data_mistakes(spec: OwnData, table: pd.DataFrame, *, new_rows: bool = False) -> list[str]:
    """Return mistakes: values that are invalid in their column's role."""
    mistakes = _outside_classes(spec, table) or label_mistakes(table[spec.label], new_rows=new_rows)
    for name in spec.sensitive:
        mistakes += attribute_mistakes(table[name], may_miss=spec.unknown_group, new_rows=new_rows)
    if spec.test_column is not None:
        mistakes += mark_mistakes(table[spec.test_column])
    if spec.items is not None:
        column = table[spec.items]
        mistakes += text_mistakes(column, spec.items_kind)
        if not mistakes and spec.text is not None and not new_rows:
            mistakes += same_text_mistakes(column)
    elif not new_rows:  # features of new rows are checked by the model's encoder
        features = spec.without_role(table.columns)
        for name in features:
            mistakes += feature_mistakes(table[name])
        if not features:
            mistakes.append(f"{spec.path} has no column left for features; add some")
    distinct = list(dict.fromkeys(mistakes))
    if len(distinct) > MAX_MISTAKES:
        return [*distinct[:MAX_MISTAKES], f"and {len(distinct) - MAX_MISTAKES} more of this kind"]
    return distinct


def _outside_classes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    """Return a mistake if images of a folder are not in the folder of a class."""
    if (spec.images, spec.label) != (PATH, CLASS) or not Path(spec.path).is_dir():
        return []
    outside = table[table[CLASS].isna()]
    if outside.empty:
        return []
    return [
        f"{len(outside):,} image(s) are directly in {spec.path}, such as "
        f"{shortened(outside[PATH].tolist(), 3)}; expected {spec.path}/CLASS/IMAGE: move each into "
        "the folder of its class"
    ]


@dataclass(frozen=True)
class OwnInputs:
    """The encoding of rows as inputs, with notes for the user.

    Parameters
    ----------
    of : callable
        Returns the inputs of given rows, see :class:`faircil.data.stream.Part`.
    notes : tuple of str
    texts, files : tuple of str or None
        All texts, or paths of images, if inputs are their indices.
    encoder : TableEncoder or None
        Encoder of the columns, if they are the inputs.
    """

    of: Inputs
    notes: tuple[str, ...]
    texts: tuple[str, ...] | None = field(default=None, repr=False)
    files: tuple[str, ...] | None = field(default=None, repr=False)
    encoder: TableEncoder | None = field(default=None, repr=False)


def feature_inputs(features: pd.DataFrame, train: Integers, first_task: Integers) -> OwnInputs:
    """Use every column as a feature; see :mod:`faircil.data.features`."""
    encoder = fit_encoder(features, train, first_task)
    return OwnInputs(
        lambda rows: encoder.inputs(features.iloc[rows]), encoder.notes, encoder=encoder
    )


def item_inputs(spec: OwnData, table: pd.DataFrame) -> OwnInputs:
    """Use the text or the image of each row as its only input."""
    column, notes = table[spec.items], tuple(item_notes(spec, table))
    if spec.text is not None:
        return OwnInputs(lambda rows: rows, notes, texts=tuple(column))
    return OwnInputs(lambda rows: rows, notes, files=spec.files(column))


def item_notes(spec: OwnData, table: pd.DataFrame) -> list[str]:
    """Return notes on columns without a role, and on images that occur in several rows."""
    unused, notes = spec.without_role(table.columns), []
    if unused:
        kind = spec.items_kind
        notes.append(f"columns left out, since the {kind} is the only input: {shortened(unused)}")
    if spec.images is not None:
        times = Counter(table[spec.images])
        several = [f"{name} ({count})" for name, count in times.items() if count > 1]
        if several:
            notes.append(
                f"images named in several rows, each of which counts: {shortened(several)}"
            )
    return notes


@dataclass(frozen=True)
class OwnTable:
    """The rows of a user's table that are used, with their classes and attribute values.

    Parameters
    ----------
    table : DataFrame, shape (n, columns)
        Its index is the row number in the file.
    y : Coded
        Classes, (n,).
    z : Coded or None
        Attribute values, (n,), -1 where they are unknown; None without a sensitive attribute.
    tasks : list of tuple of str
        Names of each task's classes.
    notes : tuple of str
        Notes for the user on what was left out.
    """

    table: pd.DataFrame
    y: Coded
    z: Coded | None
    tasks: list[tuple[str, ...]]
    notes: tuple[str, ...]

    @property
    def groups(self) -> Coded:
        """Class and attribute value of each row, (n,); unknown values form one group per class."""
        return self.y if self.z is None else cross(self.y, self.z.with_missing)

    def test_rows(self, spec: OwnData, seed: int) -> NDArray[np.bool_]:
        """Return which rows are test rows, (n,): the marked ones, or a share of each group."""
        if spec.test_column is None:
            test = draw_test(self.groups.codes, spec.test_share, seed)
        else:
            test = marked_test(self.table[spec.test_column])
        raise_all(part_mistakes(self.y, test), DataError)
        return test


def read_own(spec: OwnData, *, new_rows: bool = False, texts: Collection[str] = ()) -> OwnTable:
    """Read and check a user's table.

    Parameters
    ----------
    spec : OwnData
    new_rows : bool
        Whether the rows are for a model that has learned others: then a single class, a class with
        a single row, and a single attribute value are allowed.
    texts : collection of str
        Columns that are text, see :func:`faircil.data.tables.read_table`.

    Raises
    ------
    UsageError
        The roles or the tasks do not match the table.
    DataError
        The file or its values are invalid.
    """
    table = read_table(Path(spec.path), texts=texts, labels=(spec.label, *spec.sensitive))
    notes: list[str] = list(table.attrs.get(NOTES, ()))
    mistakes = usage_mistakes(spec, list(table.columns))
    if spec.tasks is not None and spec.label in table:
        mistakes += task_mistakes(spec.tasks, code_values(table[spec.label]).names)
    raise_all(mistakes)
    for name in (spec.label, *spec.sensitive):
        table[name] = _without_blanks(table[name])
    labels = code_values(table[spec.label])
    tasks = named_tasks(spec.tasks, labels.names, spec.classes_per_task)
    used = np.isin(labels.names, list(chain.from_iterable(tasks)))
    left_out = [name for name, use in zip(labels.names, used, strict=True) if not use]
    if left_out:
        notes.append(f"classes in no task, left out: {shortened(left_out)}")
        # A missing label has code -1, which selects the appended True: it is reported as a mistake.
        table = table[np.append(used, True)[labels.codes]]
    needed = [spec.label, *(() if spec.unknown_group else spec.sensitive)]
    if spec.drop_missing:
        table = _without_gaps(table, needed, notes)
    raise_all(data_mistakes(spec, table, new_rows=new_rows), DataError)
    attributes = [code_values(table[name]) for name in spec.sensitive]
    z = cross_all(attributes) if attributes else None
    if z is not None and (unknown := int((z.codes < 0).sum())):
        notes.append(
            f"rows of unknown group (no value of {' or '.join(spec.sensitive)}): {unknown:,}"
        )
    return OwnTable(table, code_values(table[spec.label]), z, tasks, tuple(notes))


def _without_blanks(column: pd.Series) -> pd.Series:
    """Return names, (n,); names of only blanks or control characters become missing."""
    missing = code_values(column).codes < 0
    return column if missing.sum() == column.isna().sum() else column.mask(missing)


def _without_gaps(table: pd.DataFrame, columns: Sequence[str], notes: list[str]) -> pd.DataFrame:
    """Leave out rows without a value in one of the columns, and add a note that lists them."""
    missing = table[list(columns)].isna().any(axis=1)
    if missing.any():
        rows = shortened([str(row + 1) for row in table.index[missing]])
        notes.append(
            f"rows without a value of {' or '.join(columns)}, left out: {int(missing.sum()):,} "
            f"(row {rows}, counted from 1, without the header)"
        )
    return table[~missing]


def load_own(spec: OwnData, seed: int) -> TaskStream:
    """Read, check, split and encode a user's data.

    Parameters
    ----------
    spec : OwnData
        The table and the roles of its columns.
    seed : int
        Seed of the test split.

    Returns
    -------
    TaskStream
        Named after the file; its notes report what was left out and how columns are encoded.

    Raises
    ------
    UsageError
        The roles or the tasks do not match the table.
    DataError
        The file or its values are invalid.
    """
    own = read_own(spec)
    y, z, groups, test = own.y, own.z, own.groups, own.test_rows(spec, seed)
    classes = [tuple(y.names.index(name) for name in task) for task in own.tasks]
    inputs = _inputs(spec, own.table, np.flatnonzero(~test), np.isin(y.codes, classes[0]))
    return TaskStream(
        name=spec.name,
        tasks=_cut(inputs, y, z, test, classes),
        class_names=y.names,
        attribute=" × ".join(spec.sensitive) or None,
        attribute_values=() if z is None else z.names,
        notes=(*own.notes, *_untested(groups, test), *inputs.notes),
        texts=inputs.texts,
        files=inputs.files,
        encoder=inputs.encoder,
    )


def _inputs(
    spec: OwnData, table: pd.DataFrame, train: Integers, is_in_first_task: NDArray[np.bool_]
) -> OwnInputs:
    if spec.items is not None:
        return item_inputs(spec, table)
    features = table[spec.without_role(table.columns)]
    return feature_inputs(features, train, train[is_in_first_task[train]])


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


def _untested(groups: Coded, test: NDArray[np.bool_]) -> list[str]:
    """Return a note on groups without test samples, if there are any."""
    untested = np.setdiff1d(groups.codes, groups.codes[test])
    if not len(untested):
        return []
    return [
        "groups without a test sample (one with a single sample is for training): "
        f"{shortened([groups.names[g] for g in untested])}"
    ]
