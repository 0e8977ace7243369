"""Columns of a table as inputs of a learner, decided on training rows and stored with a model.

Columns are converted as follows:

- numbers are standardised; booleans are 0 and 1;
- text in which nearly all values are numbers is numeric, and each other word has its own input;
- dates (2024-05-31 or 31.05.2024, optionally with a time) are three numbers: the day, with the time
  as its fraction, the month, and the weekday;
- other text has one input per category or, with very many categories, one per hash bucket;
- texts that all differ identify rows and are omitted, and so are whole numbers that all differ and
  fill half of their range;
- missing numbers are replaced by the median, and missing values have an indicator input.

Numbers are standardised with the rows of the first task, since later ones are unknown when it is
learned; categories, medians and indicators are those of all rows to which the encoder is fitted. A
category that did not occur there is all zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import (
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_integer_dtype,
    is_numeric_dtype,
)

from faircil.counts import Floats, Integers
from faircil.data.table_columns import MAX_CATEGORIES, distinct_words, infinite_mistakes
from faircil.errors import DataError, raise_all, shortened

BUCKETS = 256
FEW_ROWS = 20  # below which texts may all differ by chance
MANY_ROWS = 100  # from which whole numbers of a small range do not all differ by chance
MOSTLY = 0.9  # fraction of numbers from which text is numeric
TINY = 1e-150  # deviations below this are lost to rounding
MAX_WORDS = 20  # other words in a numeric column
DOTTED = r"(\d{2})\.(\d{2})\.(\d{4})"  # day, month, year
TIME = r"([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?"
NANOSECONDS = r"(\.\d{6})\d+"
DATES = rf"(\d{{4}}-\d{{2}}-\d{{2}}|{DOTTED}){TIME}"
TRUTH = {"true": 1.0, "false": 0.0}
HASH_KEY = "faircil-category"  # 16 bytes, as pandas requires

Kind = Literal["number", "boolean", "date", "category", "hashed", "identifier"]
WITHOUT_NUMBERS = ("category", "hashed", "identifier")
MAX_NEW = 1000  # new categories of a column that are stored by name


@dataclass
class NewValues:
    """Values that no row had when an encoder was fitted; counts of batches add up.

    Their size is bounded: a million new categories take no more memory than the first few.

    Parameters
    ----------
    missing, others : Counter
        Rows by column: without a value, and with a new category.
    names : dict
        The first new categories of a column, as ordered keys.
    """

    missing: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    names: dict[str, dict[str, None]] = field(default_factory=dict)

    def update(self, later: NewValues) -> None:
        """Add the counts of later rows."""
        self.missing.update(later.missing)
        self.others.update(later.others)
        for column, names in later.names.items():
            self.name(column, names)

    def name(self, column: str, names: Iterable[str]) -> None:
        """Store names of new categories, up to a limit."""
        # The first names of two tables together are among the first of each, so the result does not
        # depend on the parts in which a table is read.
        kept = self.names.setdefault(column, {})
        for name in names:
            if len(kept) > MAX_NEW:
                break
            kept[name] = None


@dataclass(frozen=True)
class FeatureColumn:
    """How a column is converted to inputs.

    Parameters
    ----------
    name : str
    kind : str
    levels : tuple of str
        Categories, or the words in a numeric column.
    gaps : bool
        Whether an input indicates missing values.
    fill : tuple of float
        Replacements of missing numbers, one for each number of a value.
    shift, scale : tuple of float
        These numbers are reduced by ``shift`` and divided by ``scale``.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    gaps: bool = False
    fill: tuple[float, ...] = ()
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def flags(self) -> int:
        """Number of 0/1 inputs, in addition to its numbers."""
        return self.gaps + (BUCKETS if self.kind == "hashed" else len(self.levels))

    def numbers(self, values: pd.Series) -> Floats:
        """Return the numbers of values (n,), standardised, (n, len(fill))."""
        found = raw_numbers(values, self.kind)
        missing = np.isnan(found)
        if missing.any():
            found = np.where(missing, self.fill, found)
        return (found - self.shift) / self.scale

    def flag_of(self, values: pd.Series) -> Integers:
        """Return the index of each value's flag, (n,), for values (n,); -1: none."""
        codes, words = distinct_words(values)
        flag = hashed(words) if self.kind == "hashed" else pd.Index(self.levels).get_indexer(words)
        missing = self.flags - 1 if self.gaps else -1
        return np.append(flag, missing)[codes]  # a missing value has code -1


@dataclass(frozen=True)
class TableEncoder:
    """Converts the feature columns of a table to inputs.

    Parameters
    ----------
    columns : tuple of FeatureColumn
    notes : tuple of str
        Decisions about columns, as notes for the user.
    """

    columns: tuple[FeatureColumn, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def width(self) -> int:
        """Number of inputs."""
        return sum(len(column.fill) + column.flags for column in self.columns)

    def inputs(self, table: pd.DataFrame) -> NDArray[np.float32]:
        """Return the inputs of all rows, (n, width): all numbers, then all flags."""
        found = np.zeros((len(table), self.width), dtype=np.float32)
        rows, place = np.arange(len(table)), 0
        for column in self.columns:
            width = len(column.fill)
            # A number far outside the first task's range may overflow; a stream rejects it.
            with np.errstate(over="ignore"):
                if width:
                    found[:, place : place + width] = column.numbers(table[column.name])
            place += width
        for column in self.columns:
            if column.flags:
                flag = column.flag_of(table[column.name])
                has = flag >= 0
                found[rows[has], place + flag[has]] = 1
            place += column.flags
        return found

    def check(self, table: pd.DataFrame) -> list[str]:
        """Return notes on another table than the encoder was fitted to; see :meth:`new_values`."""
        return self.notes_on(self.new_values(table))

    def new_values(self, table: pd.DataFrame) -> NewValues:
        """Count the values of a table that the encoder does not know.

        Raises
        ------
        DataError
            If columns are missing or have values of another type; all are listed.
        """
        needed = [one for one in self.columns if one.kind != "identifier"]
        absent = [one.name for one in needed if one.name not in table]
        mistakes = [
            f"the table has no column '{name}', which the model was fitted with; it has "
            f"{shortened([str(one) for one in table.columns])}"
            for name in absent
        ]
        found = NewValues()
        for column in needed:
            if column.name in absent:
                continue
            values = table[column.name]
            mistakes += other_values(values, column) + infinite_mistakes(values)
            missing = values.isna().to_numpy()
            if missing.any() and not column.gaps:
                found.missing[column.name] = int(missing.sum())
            if column.kind == "category":
                new = values[(column.flag_of(values) < 0) & ~missing]
                if len(new):
                    found.others[column.name] = len(new)
                    found.name(column.name, map(str, new.unique()))
        raise_all(mistakes, DataError)
        return found

    def notes_on(self, new: NewValues) -> list[str]:
        """Describe values that are new to the columns, and how they are replaced."""
        notes = []
        for column in self.columns:
            name = column.name
            if new.missing[name]:
                instead = "the median" if column.fill else "no category"
                notes.append(
                    f"column '{name}' has {new.missing[name]} missing value(s), and had none when "
                    f"the model was fitted: {instead} is used instead"
                )
            if new.others[name]:
                words = [f"'{value}'" for value in new.names[name]]
                more = " at least" if len(words) > MAX_NEW else ""
                notes.append(
                    f"column '{name}' has categories that the model does not know, in "
                    f"{new.others[name]} row(s): {shortened(words)}{more}; they are treated as "
                    "none of the known categories"
                )
        return notes


def fit_encoder(table: pd.DataFrame, train: Integers, first_task: Integers) -> TableEncoder:
    """Decide how the columns of a table are converted to inputs.

    Parameters
    ----------
    table : DataFrame, shape (n, features)
    train : ndarray of int64
        Rows that determine kinds, categories, medians and indicators.
    first_task : ndarray of int64
        Rows for mean and standard deviation; a number that is constant there is only centred.
    """
    fitted = [_fit_column(table[name], train, first_task) for name in table]
    return TableEncoder(tuple(fitted), tuple(_decisions(table, fitted)))


def _fit_column(values: pd.Series, train: Integers, first_task: Integers) -> FeatureColumn:
    name, known = str(values.name), values.iloc[train]
    kind, levels = kind_of(known)
    gaps = bool(known.isna().any())
    if kind in WITHOUT_NUMBERS:
        return FeatureColumn(name, kind, levels, gaps and kind != "identifier")
    raw = raw_numbers(known, kind)
    with np.errstate(invalid="ignore"):
        fill = np.zeros(raw.shape[1])
        there = ~np.isnan(raw).all(axis=0)
        fill[there] = np.nanmedian(raw[:, there], axis=0)
    first = raw_numbers(values.iloc[first_task], kind)
    first = np.where(np.isnan(first), fill, first)
    shift, scale = first.mean(axis=0), first.std(axis=0)
    # Rounding gives a constant column a tiny deviation, so its range is tested instead.
    reach = np.ptp(first, axis=0)
    scale[reach == 0] = 1
    lost = (scale < TINY) & (reach > 0)  # squares of such deviations underflow to 0
    scale[lost] = reach[lost]
    if kind == "boolean":
        shift, scale = np.zeros(1), np.ones(1)
    as_floats = (tuple(map(float, each)) for each in (fill, shift, scale))
    return FeatureColumn(name, kind, levels, gaps, *as_floats)


def kind_of(values: pd.Series) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of a column from its values (n,), and its categories or words."""
    if is_bool_dtype(values):
        return "boolean", ()
    if is_numeric_dtype(values):
        return ("identifier" if _counts_rows(values) else "number"), ()
    if is_datetime64_any_dtype(values):
        return "date", ()
    codes, words = distinct_words(values)
    distinct = words.unique()
    if isinstance(values.dtype, pd.CategoricalDtype):  # regardless of its categories
        many = len(distinct) > MAX_CATEGORIES
        return ("hashed", ()) if many else ("category", tuple(sorted(distinct)))
    if len(distinct) and set(distinct.str.lower()) <= TRUTH.keys():
        return "boolean", ()
    if len(distinct) and distinct.str.fullmatch(DATES).all() and _days(words).notna().all():
        return "date", ()
    is_word = np.isnan(_parsed(words))
    others = words[is_word].unique()
    share = 1 - is_word[codes[codes >= 0]].mean() if len(distinct) else 0.0
    if share >= MOSTLY and len(others) <= MAX_WORDS:
        return "number", tuple(sorted(others))
    if len(distinct) == len(values) > FEW_ROWS:
        return "identifier", ()
    if len(distinct) > MAX_CATEGORIES:
        return "hashed", ()
    return "category", tuple(sorted(distinct))


def _counts_rows(values: pd.Series) -> bool:
    """Return whether whole numbers (n,) all differ and fill half of their range, as row numbers do.

    A small number of rows may do so by chance.
    """
    if not is_integer_dtype(values) or len(values) < MANY_ROWS or not values.is_unique:
        return False
    reach = int(values.max()) - int(values.min())
    return not values.hasnans and reach <= 2 * len(values)


def raw_numbers(values: pd.Series, kind: Kind) -> Floats:
    """Return the numbers of values (n,) of a kind, (n, numbers); NaN where missing."""
    if kind in WITHOUT_NUMBERS:
        return np.empty((len(values), 0))
    if is_numeric_dtype(values) and kind != "date":
        numbers = values.to_numpy(np.float64, na_value=np.nan)[:, None]
        return numbers if kind == "number" else np.where(numbers**2 == numbers, numbers, np.nan)
    codes, words = distinct_words(values)
    if kind == "date":
        days = _days(words)
        # In seconds: nanoseconds cannot represent dates before 1677 or after 2262.
        number = (days - pd.Timestamp(0, tz="UTC").as_unit("s")) / pd.Timedelta(days=1)
        parts: list[pd.Series] = [number, days.dt.month, days.dt.day_of_week]
    elif kind == "boolean":
        parts = [pd.Series(words, dtype=object).str.lower().map(TRUTH)]
    else:
        parts = [pd.Series(_parsed(words))]
    known = np.stack([part.to_numpy(np.float64, na_value=np.nan) for part in parts], axis=1)
    return np.concatenate([known, np.full((1, known.shape[1]), np.nan)])[codes]


def _days(words: pd.Index[str]) -> pd.Series:
    """Return texts as points in time, (n,); NaT for others."""
    iso = pd.Series(words, dtype=object).str.replace(DOTTED, r"\3-\2-\1", regex=True)
    # If one text had nanoseconds, all would be in that unit, which ends in 2262.
    iso = iso.str.replace(NANOSECONDS, r"\1", regex=True)
    return pd.to_datetime(iso, errors="coerce", format="ISO8601", utc=True)


def _parsed(words: pd.Index[str]) -> Floats:
    """Return texts as numbers, (n,); NaN for others."""
    return pd.to_numeric(words.to_series(), errors="coerce").to_numpy(np.float64)


def hashed(words: pd.Index[str]) -> Integers:
    """Return the bucket of each text, (n,); it is the same in every process."""
    each = pd.util.hash_array(words.to_numpy(dtype=object), hash_key=HASH_KEY)
    return (each % BUCKETS).astype(np.int64)


def other_values(values: pd.Series, column: FeatureColumn) -> list[str]:
    """Return error messages for values (n,) that are not of the column's kind."""
    if column.kind in WITHOUT_NUMBERS:
        return []
    wrong = values.notna().to_numpy() & np.isnan(raw_numbers(values, column.kind)).any(axis=1)
    if column.levels:
        wrong &= column.flag_of(values) < 0
    if not wrong.any():
        return []
    expected = {"number": "numbers", "boolean": "true or false", "date": "dates"}[column.kind]
    examples = shortened([f"'{value}'" for value in dict.fromkeys(values[wrong])])
    rows = shortened([str(row + 1) for row in np.flatnonzero(wrong)])
    return [
        f"column '{column.name}' has {int(wrong.sum())} value(s) that are not {expected}, such as "
        f"{examples}, in row {rows} (counted from 1, without the header); the model was fitted "
        f"with {expected} there"
    ]


def _decisions(table: pd.DataFrame, columns: Sequence[FeatureColumn]) -> list[str]:
    """Describe the handling of columns that are not plain numbers."""
    notes = []

    def tell(words: str, some: Sequence[str]) -> None:
        if some:
            notes.append(f"{words}: {shortened(some)}")

    by_kind = {
        kind: [one for one in columns if one.kind == kind]
        for kind in ("number", "date", "category", "hashed", "identifier")
    }
    tell(
        "text columns (categories), one input per category",
        [f"{one.name} ({len(one.levels)})" for one in by_kind["category"]],
    )
    tell(
        f"columns with more than {MAX_CATEGORIES} categories, hashed into {BUCKETS} inputs",
        [f"{one.name} ({table[one.name].nunique():,})" for one in by_kind["hashed"]],
    )
    tell(
        "columns whose values all differ, left out: they identify rows",
        [one.name for one in by_kind["identifier"]],
    )
    tell("dates, as day, month and weekday", [one.name for one in by_kind["date"]])
    tell(
        "numbers with other words among them, one input per word",
        [f"{one.name} ({', '.join(one.levels)})" for one in by_kind["number"] if one.levels],
    )
    tell(
        "missing values: replaced by the median for numbers, with an input that marks them",
        [f"{one.name} ({int(table[one.name].isna().sum()):,})" for one in columns if one.gaps],
    )
    return notes
