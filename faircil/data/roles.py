"""What makes a column unusable in the role that a user gives it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from faircil.data.encode import code_values
from faircil.data.holdout import TEST_MARKS, TRAINING_MARKS
from faircil.errors import shortened

MAX_CATEGORIES = 500
MAX_NUMERIC_ATTRIBUTE_VALUES = 20


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
            f"texts, name it with --text {column.name}"
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
    if all(text.strip() == first for text in column):  # most often known at the second
        return [
            f"the {len(column)} texts of column '{column.name}' are all the same, {first!r:.40}; "
            "nothing can be learned from them"
        ]
    return []


def mark_mistakes(column: pd.Series) -> list[str]:
    """Return the mistakes of ``column`` (n,) as the mark of test rows."""
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
    """Say which rows of ``column`` (n,) have no value; its index counts the rows from 0."""
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
        # Inputs are float32, so what exceeds its range would become infinite.
        largest = np.finfo(np.float32).max
        if infinite := int((np.abs(column.to_numpy(np.float64)) > largest).sum()):
            mistakes.append(
                f"column '{column.name}' has {infinite} value(s) that are infinite or exceed "
                f"{largest:.1e}; replace or drop them"
            )
    return mistakes
