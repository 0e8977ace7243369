"""Columns of tables, whatever file they are from: names, missing values, arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.errors import MOST_NAMES, DataError, shortened

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
# An archive that claims a password, or what this Python has not, is a RuntimeError.
DAMAGE = (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile)


def same_names(names: Sequence[str]) -> list[str]:
    """Return the names that several columns of a table have, as mistakes."""
    return [
        f"{times} columns named '{name}'; give each its own name"
        for name, times in Counter(names).items()
        if name and times > 1
    ]


def name_mistakes(
    path: Path, names: Sequence[str], wanted: Sequence[str] | None = None
) -> list[str]:
    """Return what is wrong with the names of a table's columns, and those it lacks."""
    mistakes = [f"{path} has {mistake}" for mistake in same_names(names)]
    # A column without a name is usually a saved row index, which can leak the class.
    nameless = [str(number) for number, name in enumerate(names, start=1) if not name]
    if nameless:
        mistakes.append(f"column {', '.join(nameless)} of {path} has no name; name or delete it")
    return mistakes + [
        f"{path} has no column '{name}'; it has {shortened(names, MOST_NAMES)}"
        for name in wanted or ()
        if name not in names
    ]


def without_missing_words(column: pd.Series) -> pd.Series:
    """Return a column, (n,), in which words for a missing value are missing values."""
    if is_numeric_dtype(column):
        return column
    missing = column.isin(MISSING)
    return column.mask(missing) if missing.any() else column  # a copy only if needed


def frames_of_arrays(path: Path, rows: slice) -> tuple[pd.DataFrame | None, list[str]]:
    """Read some rows of an ``.npy`` file as columns; the second are mistakes.

    An array (n,) is a column with the name of the file; numbers (n, d) are d columns.
    """
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return array_columns(np.array(mapped[rows]), path.stem), []
    except (*DAMAGE, IndexError) as error:
        return None, [f"{path} cannot be read: {error}; write it with numpy.save, without objects"]
    except DataError as error:
        return None, [f"the array {path} {error}"]


def array_columns(array: NDArray[Any], name: str) -> pd.DataFrame:
    """Return an array as a column of that name, (n,), or as several, (n, d), that are numbered."""
    if not isinstance(array, np.ndarray):
        raise DataError("is not an array; write the file with numpy.savez")
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    kind = array.dtype.kind
    if kind not in "biufU" or array.ndim not in ((1,) if kind == "U" else (1, 2)):
        raise DataError(
            f"has shape {array.shape} and type {array.dtype}; expected (n,) numbers or text, or "
            "(n, features) numbers"
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim == 2:
        return pd.DataFrame(array, columns=[f"{name}_{i}" for i in range(array.shape[1])])
    return without_missing_words(pd.Series(array, name=name)).to_frame()
