"""Which rows of a user's data are test rows: drawn by group, or marked in a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.data.encode import Coded, code_values
from faircil.data.stream import Integers
from faircil.errors import shortened

TEST_MARKS = ("1", "true", "test")
TRAINING_MARKS = ("0", "false", "train")


def draw_test(groups: Integers, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw ``share`` of each group at random.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        Group of each row, numbered from 0.
    share : float
        Between 0 and 1. A group of two or more rows keeps at least one row on either side, a
        group of one row is for training.
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
    # Where the bounds cross, at size 1, clip takes the upper one: 0.
    wanted = np.clip(np.rint(share * sizes), 1, sizes - 1)
    order = np.random.default_rng([seed, 12]).permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    rank_in_group = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    test = np.empty(len(groups), dtype=bool)
    test[order] = rank_in_group < np.repeat(wanted, sizes)
    return test


def marked_test(column: pd.Series) -> NDArray[np.bool_]:
    """Return where ``column`` (n,) has one of ``TEST_MARKS``, in any case, as bools (n,)."""
    marks = code_values(column)
    is_test = np.array([name.lower() in TEST_MARKS for name in marks.names])
    return is_test[marks.codes]


def part_mistakes(y: Coded, test: NDArray[np.bool_]) -> list[str]:
    """Say which classes of ``y`` (n,) have no training or no test row."""
    mistakes = []
    for part, chosen in (("training", ~test), ("test", test)):
        absent = np.setdiff1d(y.codes, y.codes[chosen])
        if len(absent):
            mistakes.append(
                f"no {part} sample of class(es) {shortened([y.names[c] for c in absent])}; mark "
                "some of their rows or, where test rows are drawn, make groups of two or more"
            )
    return mistakes
