"""Read a parquet file into a table. The package for it belongs to the extra ``faircil[text]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from faircil.errors import DataError, FaircilError, raise_all

SAVED_INDEX = "__index_level_"  # how pandas names a row index that has no name


def read_columns(
    path: Path, wanted: Sequence[str] | None, name_mistakes: Callable[[Sequence[str]], list[str]]
) -> pd.DataFrame:
    """Read columns of numbers, booleans and text; dates become text, as they are in other files.

    Parameters
    ----------
    path : Path
    wanted : sequence of str or None
        Columns to read; None: all.
    name_mistakes : callable
        Says what is wrong with the names of all columns, before any is read.
    """
    arrow, parquet = _package("pyarrow"), _package("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = [
                "" if name.startswith(SAVED_INDEX) else name for name in file.schema_arrow.names
            ]
            raise_all(name_mistakes(names), DataError)
            table = file.read(columns=wanted)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(
            f"cannot read {path}: {str(error).strip()}; expected a parquet file, get it again"
        ) from error
    columns: dict[str, Any] = {}
    mistakes = []
    for name in wanted or table.column_names:
        column = table.column(name)
        try:
            columns[name] = _plain(column, arrow)
        except arrow.ArrowException:
            mistakes.append(
                f"column '{name}' of {path} is of type {column.type}; expected numbers, booleans "
                "or text: convert it or leave it out"
            )
    raise_all(mistakes, DataError)
    # A new table has no remarks of whoever wrote the file, which may ask for an index or odd types.
    frame: pd.DataFrame = arrow.table(columns).to_pandas()
    return frame


def _plain(column: Any, arrow: Any) -> Any:
    kind, is_ = column.type, arrow.types
    if is_.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if is_.is_integer(kind) or is_.is_boolean(kind) or is_.is_string(kind):
        return column
    if is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_null(kind):
        return column.cast(arrow.float64())
    return column.cast(arrow.string())


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise FaircilError(
            f"parquet files need the pyarrow package ({error}): pip install 'faircil[text]', or "
            "save the table as .csv"
        ) from None
