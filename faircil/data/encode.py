"""Columns of a user's table: numbering values, encoding features, test rows, and validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from faircil.data.stream import Inputs, Integers
from faircil.errors import shortened

TEST_MARKS = ("1", "true", "test")
TRAINING_MARKS = ("0", "false", "train")
MAX_CATEGORIES = 500
MAX_NUMERIC_ATTRIBUTE_VALUES = 20


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


def code_values(column: pd.Series) -> Coded:
    """Encode the distinct values of ``column`` (n,) in sorted order.

    Examples
    --------
    >>> code_values(pd.Series([10.0, 9.0, 10.0])).names
    ('9', '10')
    """
    codes, values = pd.factorize(column, sort=True)
    return Coded(codes.astype(np.int64), tuple(_name(value) for value in values))


def _name(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def cross(first: Coded, second: Coded) -> Coded:
    """Encode the combinations of two codings (n,) that occur, in sorted order.

    Examples
    --------
    >>> sex, race = Coded(np.array([0, 1, 1]), ("F", "M")), Coded(np.array([1, 0, 1]), ("b", "w"))
    >>> cross(sex, race).names
    ('F × w', 'M × b', 'M × w')
    """
    width = len(second.names)
    present, codes = np.unique(first.codes * width + second.codes, return_inverse=True)
    names = [f"{first.names[pair // width]} × {second.names[pair % width]}" for pair in present]
    return Coded(codes.astype(np.int64), tuple(names))


def fit_inputs(table: pd.DataFrame, train: Integers, first_task: Integers) -> Inputs:
    """Fit the encoding of features on training rows.

    Numbers are standardised with statistics of the first task, since later tasks are unknown when
    it is learned; booleans become 0 and 1; text is one-hot encoded.

    Parameters
    ----------
    table : DataFrame, shape (n, features)
        Without missing values.
    train : ndarray of int64
        Rows whose categories get a column; an unseen category is all zeros.
    first_task : ndarray of int64
        Rows for mean and standard deviation; a column that is constant there is only centred.

    Returns
    -------
    callable
        Returns the inputs of given rows, float32 of shape (len(rows), d): numeric and boolean
        columns in the order of the table, then the one-hot columns.
    """
    numbers = table[[name for name in table if is_numeric_dtype(table[name])]]
    shift, scale = _statistics(numbers, first_task)
    texts = [table[name] for name in table if name not in numbers]
    categories = [pd.factorize(text.iloc[train], sort=True)[1] for text in texts]
    codes = [
        known.get_indexer(pd.Index(text)) for known, text in zip(categories, texts, strict=True)
    ]

    def inputs(rows: Integers) -> NDArray[np.float32]:
        blocks = [(numbers.iloc[rows].to_numpy(np.float64) - shift) / scale]
        # An unseen category has code -1, which matches no column.
        blocks += [
            code[rows, None] == np.arange(len(known))
            for code, known in zip(codes, categories, strict=True)
        ]
        # A number far outside the first task's range may overflow; TaskStream raises an error.
        with np.errstate(over="ignore"):
            return np.concatenate(blocks, axis=1, dtype=np.float32, casting="same_kind")

    return inputs


def _statistics(
    numbers: pd.DataFrame, rows: Integers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = numbers.iloc[rows].to_numpy(np.float64)
    shift, scale = values.mean(axis=0), values.std(axis=0)
    # Rounding gives a constant column a tiny deviation, so its range is tested.
    scale[np.ptp(values, axis=0) == 0] = 1
    flags = [is_bool_dtype(numbers[name]) for name in numbers]
    shift[flags], scale[flags] = 0, 1
    return shift, scale


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
    # For size 1 the bounds cross, and clip returns the upper one, 0.
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
    is_test = np.array([name.lower() in TEST_MARKS for name in marks.names])
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


def label_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as the class label."""
    mistakes = _value_mistakes(column)
    classes = code_values(column)
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


def attribute_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as a sensitive attribute."""
    mistakes = _value_mistakes(column)
    distinct = column.nunique()
    if distinct < 2:
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


def feature_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as a feature."""
    mistakes = _value_mistakes(column)
    if not is_numeric_dtype(column) and (distinct := column.nunique()) > MAX_CATEGORIES:
        mistakes.append(
            f"text column '{column.name}' has {distinct} distinct values, more than "
            f"{MAX_CATEGORIES} categories; drop it, merge values, make it numeric, or, if it holds "
            "texts, name it as the column of texts with `text`"
        )
    return mistakes


def text_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as the text."""
    if is_numeric_dtype(column) and column.notna().any():
        return [
            f"text column '{column.name}' holds numbers, such as {column.dropna().iloc[0]}, not "
            "texts; it is probably the wrong column"
        ]
    return missing_mistakes(column)


def same_text_mistakes(column: pd.Series) -> list[str]:
    """Return a mistake if all texts, (n,), are the same."""
    first = column.iloc[0].strip()
    if all(text.strip() == first for text in column):  # usually stops at the second
        return [
            f"the {len(column)} texts of column '{column.name}' are all the same, {first!r:.40}; "
            "nothing can be learned from them"
        ]
    return []


def mark_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as the indicator of test rows."""
    mistakes = _value_mistakes(column)
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
        if not unknown and not set(known) & set(marks)
    ]
    return mistakes


def missing_mistakes(column: pd.Series) -> list[str]:
    """Return rows of ``column`` (n,) without a value, as mistakes; its index numbers the rows."""
    missing = column.index[column.isna()]
    if missing.empty:
        return []
    rows = shortened([str(row + 1) for row in missing])
    return [
        f"column '{column.name}' has {len(missing)} missing value(s), such as an empty field, NA "
        f"or None, in row {rows} (counted from 1, without the header); fill or drop them"
    ]


def _value_mistakes(column: pd.Series) -> list[str]:
    mistakes = missing_mistakes(column)
    if is_numeric_dtype(column):
        # Inputs are float32, so larger values would become infinite.
        largest = np.finfo(np.float32).max
        if infinite := int((np.abs(column.to_numpy(np.float64)) > largest).sum()):
            mistakes.append(
                f"column '{column.name}' has {infinite} value(s) that are infinite or exceed "
                f"{largest:.1e}; replace or drop them"
            )
    return mistakes
