"""Columns of tables: names, missing values, classes, attributes, test rows, features, mistakes."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.counts import Integers
from faircil.errors import MOST_NAMES, DataError, shortened

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
# Archives with a password or an unsupported compression raise a RuntimeError.
DAMAGE = (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile)


def same_names(names: Sequence[str]) -> list[str]:
    """Return error messages for names shared by several columns of a table."""
    return [
        f"{times} columns named '{name}'; give each its own name"
        for name, times in Counter(names).items()
        if name and times > 1
    ]


def name_mistakes(
    path: Path, names: Sequence[str], wanted: Sequence[str] | None = None
) -> list[str]:
    """Return mistakes in the column names of a table, including missing columns."""
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
    """Return a column, (n,), in which words for missing values are replaced by missing values."""
    if is_numeric_dtype(column):
        return column
    missing = column.isin(MISSING)
    return column.mask(missing) if missing.any() else column  # copied only if needed


def frames_of_arrays(path: Path, rows: slice) -> tuple[pd.DataFrame | None, list[str]]:
    """Read some rows of an ``.npy`` file as columns; also return mistakes.

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
    """Return an array as a column of that name, (n,), or as several numbered columns, (n, d)."""
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


TEST_MARKS = ("1", "true", "test")
TRAINING_MARKS = ("0", "false", "train")
MISSING_NAME = "unknown"
CROSSED = " × "  # separates the values of several attributes
MAX_NUMERIC_ATTRIBUTE_VALUES = 20
MAX_CATEGORIES = 500  # of a feature; more are hashed
LONGEST_NAME = 1000  # characters; result files contain the names of classes and groups
LONG_TEXT = 40  # mean length of values from which a column has texts rather than categories
NO_FEATURES = "mc"  # kinds of unsupported numpy types: time spans, complex numbers


@dataclass(frozen=True)
class Coded:
    """Values encoded as integers from 0.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Code of each row's value; -1 if it is missing.
    names : tuple of str
        Name of value 0, 1, …; each of them occurs.
    """

    codes: Integers
    names: tuple[str, ...]

    @property
    def values(self) -> list[str | None]:
        """Name of each row's value, (n,); None where missing."""
        names = np.array([*self.names, None], dtype=object)
        found: list[str | None] = names[self.codes].tolist()
        return found

    @property
    def with_missing(self) -> Coded:
        """The same coding with a last code for missing values, if there are any."""
        missing = self.codes < 0
        if not missing.any():
            return self
        return Coded(np.where(missing, len(self.names), self.codes), (*self.names, MISSING_NAME))


def code_values(column: pd.Series) -> Coded:
    """Encode the distinct values of ``column`` (n,) in sorted order.

    Leading and trailing blanks are removed, and a text of blanks only is missing. Values without an
    order, such as numbers mixed with dates, are sorted as texts.

    Examples
    --------
    >>> code_values(pd.Series([10.0, 9.0, 10.0])).names
    ('9', '10')
    >>> code_values(pd.Series(["nurse", "cook", "nurse "])).names
    ('cook', 'nurse')
    """
    try:
        codes, values = pd.factorize(column, sort=True)
    except TypeError:
        codes, values = pd.factorize(column.map(name_of, na_action="ignore"), sort=True)
    names = [name_of(value).strip() for value in values]
    codes = codes.astype(np.int64)
    if len(set(names)) == len(names) and all(names):
        return Coded(codes, tuple(names))
    place, distinct = pd.factorize(pd.Series([name or None for name in names]), sort=True)
    return Coded(np.append(place, -1)[codes].astype(np.int64), tuple(map(str, distinct)))


def name_of(value: object) -> str:
    """Return a value as text; whole numbers have no decimal point, for any type."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def distinct_words(values: pd.Series) -> tuple[Integers, pd.Index[str]]:
    """Return the code of each value (n,), -1 if it is missing, and the texts of the codes.

    Texts have no leading or trailing blanks, so values that differ only in these have several codes
    with the same text.
    """
    codes, distinct = pd.factorize(values)
    return codes, pd.Index([name_of(value).strip() for value in distinct], dtype=object)


def cross(first: Coded, second: Coded) -> Coded:
    """Encode the combinations of two codings (n,) that occur, in sorted order.

    A combination with a missing value is missing.

    Examples
    --------
    >>> sex, race = Coded(np.array([0, 1, 1]), ("F", "M")), Coded(np.array([1, 0, 1]), ("b", "w"))
    >>> cross(sex, race).names
    ('F × w', 'M × b', 'M × w')
    """
    width = len(second.names)
    known = (first.codes >= 0) & (second.codes >= 0)
    pairs = first.codes[known] * width + second.codes[known]
    present, place = np.unique(pairs, return_inverse=True)
    codes = np.full(len(known), -1, dtype=np.int64)
    codes[known] = place
    names = [
        CROSSED.join((first.names[pair // width], second.names[pair % width])) for pair in present
    ]
    return Coded(codes, tuple(names))


def cross_all(attributes: Sequence[Coded]) -> Coded:
    """Encode the combinations of the values of one or several attributes.

    Raises
    ------
    DataError
        If a value contains the separator: two combinations could have the same name.
    """
    odd = [repr(name) for one in attributes for name in one.names if CROSSED in name]
    if odd and len(attributes) > 1:
        raise DataError(
            f"attribute values {shortened(odd)} have '{CROSSED}' in them, which stands between the "
            "values of several attributes; rename them"
        )
    return reduce(cross, attributes)


def draw_test(groups: Integers, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw ``share`` of each group at random.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        Group of each row, numbered from 0.
    share : float
        Between 0 and 1. A group of two or more rows keeps at least one row in each part; a single
        row is used for training.
    seed : int
        Seed of the draw.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for test rows.

    Examples
    --------
    >>> int(draw_test(np.array([0, 0, 0, 0, 1, 1, 2]), 0.5, seed=0).sum())
    3
    """
    sizes = np.bincount(groups)
    # For groups of size 1 the bounds cross, and clip returns the upper one, 0.
    wanted = np.clip(np.rint(share * sizes), 1, sizes - 1)
    order = np.random.default_rng([seed, 12]).permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    rank_in_group = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    test = np.empty(len(groups), dtype=bool)
    test[order] = rank_in_group < np.repeat(wanted, sizes)
    return test


def marked_test(column: pd.Series) -> NDArray[np.bool_]:
    """Return whether ``column`` (n,) has one of ``TEST_MARKS``, ignoring case, as bools (n,)."""
    marks = code_values(column)
    is_test = np.array([name.lower() in TEST_MARKS for name in marks.names], dtype=np.bool_)
    return is_test[marks.codes]


def part_mistakes(y: Coded, test: NDArray[np.bool_]) -> list[str]:
    """Return the classes of ``y`` (n,) without training or test rows, as mistakes."""
    mistakes = []
    for part, chosen in (("training", ~test), ("test", test)):
        absent = np.setdiff1d(y.codes, y.codes[chosen])
        if len(absent):
            mistakes.append(
                f"no {part} sample of class(es) {shortened([y.names[c] for c in absent])}; mark "
                "some of their rows or, where test rows are drawn, make groups of two or more"
            )
    return mistakes


def feature_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as a feature."""
    mistakes = []
    if column.isna().all():
        mistakes.append(f"column '{column.name}' has no value at all; leave it out")
    if column.dtype.kind in NO_FEATURES:
        return [*mistakes, _another_type(column, str(column.dtype))]
    if is_numeric_dtype(column):
        return mistakes + infinite_mistakes(column)
    try:
        distinct = column.nunique()
    except TypeError:  # such as lists, which cannot be compared
        return [*mistakes, _another_type(column, type(column.dropna().iloc[0]).__name__)]
    if distinct > MAX_CATEGORIES and _mean_length(column) > LONG_TEXT:
        mistakes.append(
            f"text column '{column.name}' has {distinct:,} distinct values with more than "
            f"{LONG_TEXT} characters each, so it seems to hold texts, not categories; name it as "
            "the column of texts with `text`, or leave it out"
        )
    return mistakes


def _another_type(column: pd.Series, kind: str) -> str:
    return (
        f"column '{column.name}' is of type {kind}; expected numbers, booleans, text or dates: "
        "convert it or leave it out"
    )


def infinite_mistakes(column: pd.Series) -> list[str]:
    """Return error messages for numbers of ``column`` (n,) that are too large."""
    if not is_numeric_dtype(column):
        return []
    # Inputs are float32, so larger values would become infinite.
    largest = np.finfo(np.float32).max
    values = column.to_numpy(np.float64, na_value=np.nan)
    infinite = int((np.abs(values) > largest).sum())
    if not infinite:
        return []
    return [
        f"column '{column.name}' has {infinite} value(s) that are infinite or exceed "
        f"{largest:.1e}; replace or drop them"
    ]


def _mean_length(values: pd.Series) -> float:
    words = distinct_words(values)[1]
    return sum(map(len, words)) / max(1, len(words))


def label_mistakes(column: pd.Series, *, new_rows: bool = False) -> list[str]:
    """Return the mistakes of ``column`` (n,) as the class label."""
    classes = code_values(column)
    mistakes = gap_mistakes(column, OR_DROP) + _long_names(column, "label", classes.names)
    if new_rows:
        return mistakes
    if len(classes.names) < 2:
        mistakes.append(
            f"label column '{column.name}' has {len(classes.names)} class(es); at least two are "
            "needed"
        )
    counts = np.bincount(classes.codes[classes.codes >= 0], minlength=len(classes.names))
    single = [classes.names[c] for c in np.flatnonzero(counts < 2)]
    if single:
        mistakes.append(
            f"{len(single)} class(es) of label column '{column.name}' have only one sample: "
            f"{shortened(single)}; add samples (one is needed for training, one for the test) or "
            "leave these classes out of the tasks"
        )
    return mistakes


def attribute_mistakes(
    column: pd.Series, *, may_miss: bool = False, new_rows: bool = False
) -> list[str]:
    """Return the mistakes of ``column`` (n,) as a sensitive attribute."""
    mistakes = [] if may_miss else gap_mistakes(column, OR_UNKNOWN)
    if not is_numeric_dtype(column):
        mistakes += _long_names(column, "sensitive", distinct_words(column)[1])
    distinct = column.nunique()
    if distinct < 2 and not new_rows:
        mistakes.append(
            f"sensitive column '{column.name}' has {distinct} distinct value(s) in the classes "
            "used; at least two are needed to compare groups"
        )
    if is_numeric_dtype(column) and distinct > MAX_NUMERIC_ATTRIBUTE_VALUES:
        mistakes.append(
            f"sensitive column '{column.name}' has {distinct} distinct numbers, more than "
            f"{MAX_NUMERIC_ATTRIBUTE_VALUES}; bin it into a few ranges"
        )
    return mistakes


def _long_names(column: pd.Series, role: str, names: Iterable[str]) -> list[str]:
    """Return a mistake if the names of classes or groups in a column are too long."""
    longest = max(map(len, names), default=0)
    if longest <= LONGEST_NAME:
        return []
    return [
        f"{role} column '{column.name}' has a value of {longest:,} characters; expected names of "
        f"at most {LONGEST_NAME:,}: it is probably the wrong column, or a quotation mark is missing"
    ]


def text_mistakes(column: pd.Series, kind: str = "text") -> list[str]:
    """Return the mistakes of ``column`` (n,) as texts, or as paths if ``kind`` is ``image``."""
    if is_numeric_dtype(column) and column.notna().any():
        expected = "texts" if kind == "text" else "paths of files"
        return [
            f"{kind} column '{column.name}' holds numbers, such as {column.dropna().iloc[0]}, not "
            f"{expected}; it is probably the wrong column"
        ]
    return gap_mistakes(column)


def same_text_mistakes(column: pd.Series) -> list[str]:
    """Return a mistake if all texts, (n,), are the same."""
    first = column.iloc[0].strip()
    if all(text.strip() == first for text in column):  # usually stops at the second
        return [
            f"the {len(column)} texts of column '{column.name}' are all the same, {first!r:.40}; "
            "nothing can be learned from them"
        ]
    return []


def mark_mistakes(column: pd.Series, *, new_rows: bool = False) -> list[str]:
    """Return the mistakes of ``column`` (n,) as a test mark; new rows may all be test rows."""
    mistakes = gap_mistakes(column)
    marks = [name.lower() for name in code_values(column).names]
    unknown = [mark for mark in marks if mark not in TEST_MARKS + TRAINING_MARKS]
    if unknown:
        mistakes.append(
            f"test column '{column.name}' has values such as '{unknown[0]}'; expected 0/1, "
            "false/true or train/test"
        )
    mistakes += [
        f"test column '{column.name}' marks no {part} row; mark some with {' or '.join(known)}"
        for part, known in (("training", TRAINING_MARKS), ("test", TEST_MARKS))
        if not new_rows and not unknown and not set(known) & set(marks)
    ]
    return mistakes


OR_DROP = ", or leave these rows out with `drop_missing`"
OR_UNKNOWN = f"{OR_DROP}, or keep them as people of an unknown group with `unknown_group`"


def gap_mistakes(column: pd.Series, remedy: str = "") -> list[str]:
    """Return error messages for missing values of ``column`` (n,); its index numbers the rows."""
    missing = column.index[column.isna()]
    if missing.empty:
        return []
    return [gap_sentence(str(column.name), len(missing), missing[:GAPS].tolist(), remedy)]


GAPS = 5  # rows with missing values that are listed in a sentence


def gap_sentence(name: str, number: int, rows: Sequence[int], remedy: str = "") -> str:
    """Describe the missing values of a column: their number, and the first rows."""
    listed = ", ".join(str(row + 1) for row in rows[:GAPS])
    listed += f" and {number - GAPS} more" if number > GAPS else ""
    return (
        f"column '{name}' has {number} missing value(s), such as an empty field, NA or None, in "
        f"row {listed} (counted from 1, without the header); fill them{remedy}"
    )
