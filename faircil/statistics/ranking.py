"""Which of several methods is the best, and when nobody can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.statistics.differences import LEVEL, BySeed, paired


@dataclass(frozen=True)
class Ranking:
    """The proven best, or else the best mean with all that are not told apart from it."""

    best: str | None
    not_told_apart: frozenset[str]


def best_of(columns: Mapping[str, BySeed], higher_is_better: bool) -> Ranking:
    """Say which of several methods is the best, if one is.

    The best mean leads, among methods of at least two seeds. It is the best only if it beats every
    other one over common seeds at 5 %, after Holm over these comparisons. A method with fewer than
    two seeds in common with the leader is not told apart from it. If that is so for all, nothing
    can be told, and nobody is named.

    Parameters
    ----------
    columns : mapping from name to values by seed
    higher_is_better : bool

    Notes
    -----
    The leader is chosen by the same values that test it. Still, one of several equally good methods
    is called the best with probability .05 at most: it has to beat the others, and between two of
    them a two-sided test at 5 % covers both directions. A given one of them is left out as rarely.
    That *none* of them is, Holm over the leader's comparisons does not promise: of ten equal
    methods some were left out in 10 % of simulated tables of five seeds.
    """
    sign = 1.0 if higher_is_better else -1.0
    means = {name: sign * fmean(c.values()) for name, c in columns.items() if len(c) > 1}
    if not means:
        return Ranking(None, frozenset())
    leader = max(means, key=means.__getitem__)
    others = {name: paired(columns[leader], c) for name, c in columns.items() if name != leader}
    tested = {name: c.p_value for name, c in others.items() if c.p_value is not None}
    if not tested:
        return Ranking(None, frozenset())
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    # Over common seeds the order can be another than that of the means over all seeds.
    beaten = {
        name
        for name, p_value in adjusted.items()
        if p_value <= 1 - LEVEL and sign * (others[name].difference or 0.0) > 0
    }
    rest = frozenset(columns) - beaten
    return Ranking(leader, frozenset()) if rest == {leader} else Ranking(None, rest)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for being many, by Holm's step-down rule.

    Calling different what has an adjusted p ≤ .05 is wrong in any of the comparisons with
    probability .05 at most, whatever their dependence. The k-th smallest of m is multiplied by
    m − k + 1, and none comes out below a smaller one.

    Parameters
    ----------
    p_values : array, shape (m,)

    Returns
    -------
    array, shape (m,)
        In the order of ``p_values``.

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03])
    array([0.06, 0.03, 0.06])
    """
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    return np.minimum(adjusted, 1.0)
