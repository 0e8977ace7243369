"""Turn columns into numbers: values into codes, features into inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from faircil.data.stream import Inputs, Integers


@dataclass(frozen=True)
class Coded:
    """Values numbered from 0.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Number of each row's value; -1 where it is missing.
    names : tuple of str
        Name of value 0, 1, …; each of them occurs.
    """

    codes: Integers
    names: tuple[str, ...]


def code_values(column: pd.Series) -> Coded:
    """Give numbers to the distinct values of ``column`` (n,) in their sorted order.

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
    """Give numbers to the combinations of two codings (n,) that occur, in sorted order.

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
    """Learn from training rows how the features become inputs.

    Numbers are standardised with the first task's statistics, as later tasks are still unknown
    when the first is learned; booleans become 0 and 1; text becomes one column per category.

    Parameters
    ----------
    table : DataFrame, shape (n, features)
        Without missing values.
    train : ndarray of int64
        Rows whose categories get a column; another category gets zeros in all of them.
    first_task : ndarray of int64
        Rows that give mean and standard deviation. A column that is constant there is centred.

    Returns
    -------
    callable
        Makes the inputs of some rows, float32 of shape (len(rows), d): numeric and boolean
        columns in the order of the table, then those of the categories.
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
        # An unseen category has code -1, which no column has.
        blocks += [
            code[rows, None] == np.arange(len(known))
            for code, known in zip(codes, categories, strict=True)
        ]
        # A number far outside the first task's range may overflow: TaskStream refuses it.
        with np.errstate(over="ignore"):
            return np.concatenate(blocks, axis=1, dtype=np.float32, casting="same_kind")

    return inputs


def _statistics(
    numbers: pd.DataFrame, rows: Integers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = numbers.iloc[rows].to_numpy(np.float64)
    shift, scale = values.mean(axis=0), values.std(axis=0)
    # Rounding gives a constant column a tiny deviation, so its range is what tells.
    scale[np.ptp(values, axis=0) == 0] = 1
    flags = [is_bool_dtype(numbers[name]) for name in numbers]
    shift[flags], scale[flags] = 0, 1
    return shift, scale
