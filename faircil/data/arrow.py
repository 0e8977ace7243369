"""Columns of Parquet and Arrow files: numbers, booleans and text, all at once or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.errors import DataError, FaircilError, raise_all

SAVED_INDEX = "__index_level_"  # pandas' name for a row index without a name
BATCH = 1_000_000  # rows per batch, for counting
Coded = tuple[NDArray[Any], NDArray[np.intp]]  # distinct labels, and each row's index among them
NameMistakes = Callable[[Sequence[str]], list[str]]


def read_columns(
    path: Path, wanted: Sequence[str] | None, name_mistakes: NameMistakes
) -> pd.DataFrame:
    """Read columns of numbers, booleans and text of a Parquet or Arrow file; dates become text.

    Parameters
    ----------
    path : Path
    wanted : sequence of str or None
        Columns to read; None: all.
    name_mistakes : callable
        Returns mistakes in the names of all columns, before any column is read.
    """
    arrow = package("pyarrow")
    with readable(path, arrow):
        schema, read = _arrow_file(path)
        names = names_in(schema)
        raise_all(name_mistakes(names), DataError)
        table = read(wanted or names)
        check_content(table)
    return frame_of(path, {name: table.column(name) for name in wanted or names})


def frame_of(path: Path, columns: Mapping[str, Any], coded: Sequence[str] = ()) -> pd.DataFrame:
    """Return columns of numbers, booleans and text; those in ``coded`` stay categorical.

    Parameters
    ----------
    path : Path
        Their source, for messages.
    columns : mapping from name to Arrow arrays
    coded : sequence of str
        Columns that stay categorical if they are dictionaries of strings.
    """
    arrow = package("pyarrow")
    kept = {n: columns[n] for n in coded if arrow.types.is_dictionary(columns[n].type)}
    others = {name: column for name, column in columns.items() if name not in kept}
    plain = _plain_columns(path, others, arrow)
    # A new table drops the file's pandas metadata, which may define an index or special types.
    frame: pd.DataFrame = arrow.table({n: kept.get(n, plain.get(n)) for n in columns}).to_pandas()
    return frame


def read_batches(
    path: Path, wanted: Sequence[str], row_groups: Sequence[int]
) -> Iterator[dict[str, Coded]]:
    """Read columns of a Parquet file as labels and codes, :data:`BATCH` rows at a time.

    Parameters
    ----------
    path : Path
    wanted : sequence of str
        Columns to read.
    row_groups : sequence of int

    Yields
    ------
    dict from name to (labels, codes)
        The distinct values of the batch, in any order, and for each row the index of its value
        among them, −1 for null.
    """
    arrow, parquet = package("pyarrow"), package("pyarrow.parquet")
    with readable(path, arrow):
        about = parquet.read_metadata(path)
        schema = about.schema.to_arrow_schema()
        # Columns of strings are kept as dictionary codes, as in the file.
        words = [name for name in wanted if arrow.types.is_string(schema.field(name).type)]
        file = parquet.ParquetFile(path, metadata=about, read_dictionary=words)
        batches = file.iter_batches(BATCH, row_groups=list(row_groups), columns=list(wanted))
    while True:
        with readable(path, arrow):
            batch = next(batches, None)
            if batch is None:
                return
            check_content(batch)
        columns = {name: batch.column(name) for name in wanted}
        coded = {n: one for n, one in columns.items() if arrow.types.is_dictionary(one.type)}
        others = {name: one for name, one in columns.items() if name not in coded}
        for name, column in _plain_columns(path, others, arrow).items():
            coded[name] = column.dictionary_encode()
        yield {name: _labels_and_codes(coded[name]) for name in wanted}


def _labels_and_codes(column: Any) -> Coded:
    labels = np.array(column.dictionary.to_pylist(), dtype=object)
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    return labels, codes


@contextmanager
def readable(path: Path, arrow: Any) -> Iterator[None]:
    """Raise a DataError that explains why a file cannot be read."""
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last from names
        kind = "a parquet" if is_parquet(path) else "an Arrow (feather)"
        raise DataError(
            f"cannot read {path}: {str(error).strip()}; expected {kind} file, get it again"
        ) from error


def check_content(table: Any) -> None:
    """Raise an Arrow error for a table or batch with inconsistent parts.

    Arrow trusts files: it uses offsets of texts, dictionary codes and buffer lengths as they are,
    and wrong ones read memory outside of the file. All of them are checked before anything else is
    done.
    """
    table.validate(full=True)


def is_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file, by its name."""
    return path.suffix.lower() == ".parquet"


def names_in(schema: Any) -> list[str]:
    """Return the names of columns without a row index that pandas saved.

    Raises
    ------
    UnicodeDecodeError
        If one is not valid text.
    pyarrow.ArrowInvalid
        If one has a zero byte, at which some Arrow functions truncate it.
    """
    names = [name for name in schema.names if not name.startswith(SAVED_INDEX)]
    if any("\0" in name for name in names):
        raise package("pyarrow").ArrowInvalid("a column has a name with a zero byte")
    return names


def _arrow_file(path: Path) -> tuple[Any, Callable[[Sequence[str]], Any]]:
    """Return the schema of a file, and a function that reads some of its columns."""
    if is_parquet(path):
        parquet = package("pyarrow.parquet")
        schema = parquet.read_schema(path)
        return schema, lambda wanted: parquet.read_table(path, columns=list(wanted))
    feather = package("pyarrow.feather").read_table(path)  # mapped, not read
    return feather.schema, lambda wanted: feather.select(list(wanted))


def _plain_columns(path: Path, columns: Mapping[str, Any], arrow: Any) -> dict[str, Any]:
    """Return columns as numbers, booleans or text; raise a DataError listing all others."""
    found: dict[str, Any] = {}
    mistakes = []
    for name, column in columns.items():
        try:
            found[name] = _plain(column, arrow)
        except arrow.ArrowException:
            mistakes.append(
                f"column '{name}' of {path} is of type {column.type}; expected numbers, booleans "
                "or text: convert it or leave it out"
            )
    raise_all(mistakes, DataError)
    return found


def _plain(column: Any, arrow: Any) -> Any:
    kind, is_ = column.type, arrow.types
    if is_.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if is_.is_integer(kind) or is_.is_boolean(kind) or is_.is_string(kind):
        return column
    if is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_null(kind):
        return column.cast(arrow.float64())
    return column.cast(arrow.string())


def package(name: str) -> Any:
    """Import pyarrow or a part of it; raise an error with installation advice if missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FaircilError(
            f"parquet files need the pyarrow package ({error}): pip install pyarrow, or "
            "save the table as .csv"
        ) from None
