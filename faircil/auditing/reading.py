"""Audits of tables: the predictions of any system in a file, or those of a run in its folder.

Parquet and Arrow files, and folders of them, are counted part by part by all workers; audits of
parts merge to the audit of the whole. All faulty columns of a table are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.auditing import Audit, key_of, refusal
from faircil.auditing.findings import DRAWS
from faircil.data.arrow import Coded, is_parquet, read_batches
from faircil.data.part_files import parted_table, table_files
from faircil.data.parts import (
    COUNTED_TOGETHER,
    PartedTable,
    PartWork,
    TablePart,
    gathered,
    refuse_sharing,
)
from faircil.data.table_columns import MISSING, name_mistakes
from faircil.data.tables import read_table
from faircil.engines import HERE, Engine
from faircil.errors import DataError, UsageError, collecting, raise_all, shortened
from faircil.files import check_listed
from faircil.labels import NEVER_MISSING, as_labels
from faircil.metrics import read_predictions

PREDICTIONS = "predictions.csv"  # file of a run
RUN_ATTRIBUTE = "attribute"  # column in the predictions of a run
Counted = tuple[Audit, dict[str, str]]  # an audit, and the faults of its columns by part


def audit_file(
    path: Path,
    *,
    truth: str | None = None,
    prediction: str | None = None,
    sensitive: Sequence[str] = (),
    task: str | None = None,
    favoured: Collection[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    run_attribute: str = RUN_ATTRIBUTE,
    engine: Engine = HERE,
) -> Audit:
    """Audit the predictions in a table, or those of a run after its last task.

    Parameters
    ----------
    path : Path
        A table in any format that faircil reads, or a folder of Parquet, Arrow or ``.npy`` files,
        which are read in parts; or a folder with a ``predictions.csv``. If no columns are given, it
        must be the folder of a run, or its ``predictions.csv``.
    truth, prediction, sensitive, task : str
        Names of columns; without ``sensitive``, only classes are compared.
    favoured, draws, seed
        See :class:`~faircil.auditing.Audit`.
    run_attribute : str
        Name to use for the attribute of a run.
    engine : Engine
        Counts the parts of a table.

    Raises
    ------
    UsageError
        If ``truth`` or ``prediction`` is not given, or a column is given twice; faults of the
        table, if any, are included.
    DataError
        If the table cannot be read or counted; faults of all columns are listed.
    """
    path = _file_of(path)
    check_listed(path)
    named = [name for name in (truth, prediction, task, *sensitive) if name]
    if path.name == PREDICTIONS and not named:
        refuse_sharing(path, engine)
        return _audit_run(path, favoured, draws, seed, run_attribute)
    parts, mistakes = _named_columns(str(path), truth, prediction, task, sensitive)
    empty = None
    with collecting(mistakes):
        names = list(dict.fromkeys(sensitive))
        empty = Audit(names, favoured=favoured, draws=draws, seed=seed)
    if empty is None or mistakes:
        raise UsageError(*mistakes, *_all_faults(path, parts))
    try:
        counted = list(_counted(path, CountRows(empty, parts), engine))
    except DataError:
        raise_all(_all_faults(path, parts), DataError)
        raise  # a fault that involves several columns
    return _merged(empty, counted)


def _counted(path: Path, counting: CountRows, engine: Engine) -> Iterable[Counted]:
    """Count a table, in parts if possible."""
    # Not for an empty file, which the reader below reports.
    table = parted_table(path) if path.is_dir() or _has_content(path) else None
    if table is not None:
        return _counted_parts(table, counting, engine)
    refuse_sharing(path, engine)
    alike = [counting.columns["y_true"], counting.columns["y_pred"]]
    found = counting.nothing()
    counting.count(found, read_coded(path, counting.reads, alike=alike))
    return [found]


def audit_dask(
    frame: Any,
    *,
    truth: str,
    prediction: str,
    sensitive: Sequence[str] = (),
    task: str | None = None,
    favoured: Collection[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    client: Any = None,
) -> Audit:
    """Audit predictions in a Dask data frame, counted where its partitions are.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    truth, prediction, sensitive, task, favoured, draws, seed
        See :func:`audit_file`.
    client : distributed.Client, optional
        By default the current one.
    """
    from faircil.data.frames import DaskFrames

    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    parts, mistakes = _named_columns("the data frame", truth, prediction, task, names)
    raise_all(mistakes)
    counting = CountRows(Audit(names, favoured=favoured, draws=draws, seed=seed), parts)
    with DaskFrames(frame, client) as engine:
        return audit_parts(engine.table(), counting, engine)


@dataclass(frozen=True)
class CountRows(PartWork[Counted]):
    """Counts predictions, and collects the faults of their columns.

    Parameters
    ----------
    empty : Audit
        An audit without rows.
    columns : dict
        Column for each part: ``y_true``, ``y_pred``, optionally ``task``, and attributes, named by
        :func:`~faircil.auditing.key_of`.
    table : PartedTable or None
        The table whose parts are counted.
    """

    empty: Audit
    columns: dict[str, str]
    table: PartedTable | None = None

    @property
    def reads(self) -> list[str]:
        """Columns to read."""
        return [*self.columns.values()]

    def nothing(self) -> Counted:
        """Return an audit without rows."""
        return self.empty.merge(), {}

    def add(self, found: Counted, part: TablePart) -> Counted:
        """Count the rows of one part."""
        assert self.table is not None
        for batch in read_coded_part(self.table, part, self.reads):
            self.count(found, batch)
        return found

    def count(self, found: Counted, batch: Mapping[str, Coded]) -> None:
        """Count rows that have been read."""
        made, faults = found
        coded = {part: batch[name] for part, name in self.columns.items()}
        made.add_coded(_cleaned(coded, self.columns, faults))


def _named_columns(
    path: str,
    truth: str | None,
    prediction: str | None,
    task: str | None,
    sensitive: Sequence[str],
) -> tuple[dict[str, str], list[str]]:
    """Return the column of each part of an audit, and the mistakes in their names."""
    named = [name for name in (truth, prediction, task, *sensitive) if name]
    mistakes = [
        f"`{part}` is missing; name the column of {path}"
        for part, name in {"truth": truth, "prediction": prediction}.items()
        if not name
    ]
    mistakes += [
        f"the column '{name}' is named {named.count(name)} times; a column has one role"
        for name in dict.fromkeys(named)
        if named.count(name) > 1
    ]
    given = {"y_true": truth, "y_pred": prediction, "task": task}
    parts = {part: name for part, name in given.items() if name}
    return parts | {key_of(name): name for name in sensitive}, mistakes


def audit_parts(table: PartedTable, counting: CountRows, engine: Engine) -> Audit:
    """Audit a table in parts; see :func:`audit_file`."""
    return _merged(counting.empty, _counted_parts(table, counting, engine))


def _counted_parts(table: PartedTable, counting: CountRows, engine: Engine) -> Iterable[Counted]:
    raise_all(name_mistakes(Path(table.path), table.names, counting.reads), DataError)
    return engine.map(replace(counting, table=table), gathered(table.parts, COUNTED_TOGETHER))


def _merged(empty: Audit, counted: Iterable[Counted]) -> Audit:
    """Merge audits of parts; column faults are raised along with the audit's other mistakes."""
    faults: dict[str, str] = {}
    audits = []
    for made, found in counted:
        audits.append(made)
        faults = found | faults
    whole = empty.merge(*audits)
    if faults:
        raise DataError(*faults.values(), *whole.mistakes(besides=faults))
    return whole


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _all_faults(path: Path, parts: Mapping[str, str]) -> list[str]:
    """Return why columns cannot be read, and the faults of those that can.

    Parameters
    ----------
    path : Path
    parts : mapping from part to the name of its column
    """
    told: dict[str, None] = {}
    faults: dict[str, str] = {}
    if path.is_dir():  # its columns may be larger than memory
        return []
    for part, name in parts.items():
        try:
            _cleaned({part: read_coded(path, [name])[name]}, parts, faults)
        except DataError as error:
            told |= dict.fromkeys(map(str, error.args))
    return [*told, *faults.values()]


def _file_of(path: Path) -> Path:
    """Return the table at a path; for a folder, its predictions if there are any."""
    if not path.is_dir():
        return path
    if (path / PREDICTIONS).is_file():
        return path / PREDICTIONS
    if table_files(path):
        return path
    below = sorted(str(file.parent) for file in path.glob(f"*/{PREDICTIONS}"))
    hint = f"name one of {shortened(below)}" if below else "name a table, or the folder of a run"
    raise DataError(f"the folder {path} has no {PREDICTIONS}; {hint}")


def _audit_run(
    path: Path, favoured: Collection[Any] | None, draws: int, seed: int, attribute: str
) -> Audit:
    """Audit the predictions of a run after its last task."""
    try:
        last = read_predictions(path)[-1]
    except DataError as error:
        raise DataError(
            f"{error}; of any other table, name the columns: `truth`, `prediction` and `sensitive`"
        ) from None
    features = {attribute: last["sensitive"]} if "sensitive" in last else {}
    made = Audit(list(features), favoured=favoured, draws=draws, seed=seed)
    return made.update(
        last["y_true"], last["y_pred"], sensitive_features=features, task=last.get("task")
    )


def _cleaned(
    coded: Mapping[str, Coded], names: Mapping[str, str], faults: dict[str, str]
) -> dict[str, Coded]:
    """Validate labels; missing attribute values become unknown.

    Parameters
    ----------
    coded : mapping from part to (labels, codes)
    names : mapping from part to the name of its column
    faults : dict from part to sentence
        Faults found. A column with a fault is replaced by a single label, so that faults of all
        other columns are found as well.
    """
    found: dict[str, Coded] = {}
    for part, (labels, codes) in coded.items():
        missing, name = codes < 0, f"column '{names[part]}'"
        mistakes: list[str] = []
        if missing.any() and part in NEVER_MISSING:
            mistakes.append(
                f"{name} has missing values, {int(missing.sum()):,} in {len(codes):,} rows, "
                "expected a label in every row; leave the others out"
            )
        mistakes += refusal(name, part, labels)
        clean = as_labels(name, labels, mistakes) if not mistakes else labels
        if mistakes:
            faults.setdefault(part, mistakes[0])
        if part in faults:
            found[part] = (np.zeros(1, dtype=np.int64), np.zeros(len(codes), dtype=np.intp))
            continue
        if missing.any():
            unknown = -1 if clean.dtype != object else None
            clean = np.append(clean, np.array([unknown], dtype=clean.dtype))
            codes = np.where(missing, len(labels), codes)
        found[part] = (clean, codes)
    return found


def read_coded(path: Path, columns: Sequence[str], alike: Collection[str] = ()) -> dict[str, Coded]:
    """Read columns as labels and codes.

    Parameters
    ----------
    path : Path
    columns : sequence of str
    alike : collection of str
        Columns whose labels are compared with each other: in a text file, if one of them is text,
        columns of whole numbers among them are read as text, too.

    Returns
    -------
    dict from name to (labels, codes)
        The distinct values, in any order, and for each row the index of its value among them, −1 if
        it is missing.

    Raises
    ------
    DataError
        As :func:`read_table` does.
    """
    table = read_table(path, columns, labels=columns)
    numbers = [name for name in alike if is_numeric_dtype(table[name])]
    if 0 < len(numbers) < len(alike) and (table[numbers].dropna() % 1 == 0).all(axis=None):
        table = read_table(path, columns, texts=alike)
    return {name: _coded(table[name]) for name in columns}


def read_coded_part(
    table: PartedTable, part: TablePart, columns: Sequence[str]
) -> Iterator[dict[str, Coded]]:
    """Read columns of a part of a table as :func:`read_coded` does, in batches."""
    path = Path(part.path)
    if is_parquet(path):  # its strings are already stored as codes
        part.check_size()
        for batch in read_batches(path, columns, part.pieces):
            yield {name: _without_missing_labels(*coded) for name, coded in batch.items()}
        return
    for frame in table.read(part, columns, columns):
        yield {name: _coded(frame[name]) for name in columns}


def _coded(column: pd.Series) -> Coded:
    codes, labels = pd.factorize(column)
    return np.asarray(labels, dtype=object), codes


def _without_missing_labels(labels: NDArray[Any], codes: NDArray[np.intp]) -> Coded:
    missing = np.isin(labels, MISSING) | np.array([x is None or x != x for x in labels], dtype=bool)
    # One more entry at the end, to which code −1 refers.
    return labels, np.append(np.where(missing, -1, np.arange(len(labels))), -1)[codes]
