"""Confidence intervals, significance tests, and the best of several methods.

All tests are two-sided Student's t-tests. A sign-flip permutation test would assume less, but with
five seeds its smallest possible p-value is 2/2⁵ = 1/16: it could never be significant at 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev, variance

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

LEVEL = 0.95
FEWEST_SEEDS = 3  # common seeds for a mark: two easily give tiny or huge t-values by chance
NOTHING = 1e-12  # relative to the values: smaller differences are due to rounding

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its interval; these are None for a single value."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedComparison:
    """Difference a − b over ``n`` common seeds; None where undefined."""

    n: int
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None


@dataclass(frozen=True)
class Welch:
    """Our mean minus the published one; ``same`` if rounding and chance explain the difference."""

    difference: float
    low: float
    high: float
    p_value: float
    same: bool


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean with its interval by Student's t with n − 1 degrees of freedom.

    Examples
    --------
    >>> found = interval([0.91, 0.93, 0.92])
    >>> f"{found.mean:.3f}, between {found.low:.3f} and {found.high:.3f}"
    '0.920, between 0.895 and 0.945'
    """
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    half = _quantile(len(values) - 1, level) * stdev(values) / sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def paired(a: BySeed, b: BySeed, level: float = LEVEL) -> PairedComparison:
    """Compare two methods over their common seeds by the paired t-test.

    Runs with the same seed share data, initial weights and buffer draws, so their difference varies
    less than the values themselves.

    If all differences are equal, the t-test has no estimate of the variance. If all are 0, nothing
    differs: p = 1. Otherwise only their sign is used, which all n share with probability 2/2ⁿ if
    both signs are equally likely: this is p, without an interval. It is not 0, because values from
    small test sets are coarse, and differences can easily be equal by chance.

    Parameters
    ----------
    a, b : mapping from seed to value
    level : float
        Level of the interval of the mean difference a − b.
    """
    seeds = sorted(a.keys() & b.keys())
    n = len(seeds)
    differences = [a[seed] - b[seed] for seed in seeds]
    if n < 2:
        return PairedComparison(n, differences[0] if seeds else None, None, None, None)
    mean = fmean(differences)
    nothing = NOTHING * max(abs(values[seed]) for values in (a, b) for seed in seeds)
    if max(differences) - min(differences) <= nothing:
        if abs(mean) <= nothing:
            return PairedComparison(n, 0.0, 0.0, 0.0, 1.0)
        return PairedComparison(n, mean, None, None, 2.0 ** (1 - n))
    error = stdev(differences) / sqrt(n)
    half = _quantile(n - 1, level) * error
    return PairedComparison(n, mean, mean - half, mean + half, _p_value(mean / error, n - 1))


def against_published(
    values: Sequence[float],
    mean: float,
    deviation: float,
    n: int = 5,
    rounding: float = 0.0005,
    level: float = LEVEL,
) -> Welch:
    """Compare values over seeds with a published mean ± deviation, by Welch's t-test.

    A printed number may differ by ``rounding``, half of its last digit: a difference of this size
    is ignored, and a deviation printed as .000 may be as large. A single value of ours has no
    deviation; it is assumed to vary like the published values.

    Parameters
    ----------
    values : sequence of float
        Our values, one per seed.
    mean, deviation : float
        Published values; the deviation is computed with n − 1.
    n : int
        Number of seeds of the published result.
    rounding : float
        Positive.
    level : float
    """
    difference = fmean(values) - mean
    theirs = max(deviation, rounding) ** 2
    m, theirs_of_mean = len(values), theirs / n
    if m < 2:
        ours_of_mean, degrees = theirs, n - 1.0
    else:
        ours_of_mean = variance(values) / m
        degrees = (ours_of_mean + theirs_of_mean) ** 2 / (
            ours_of_mean**2 / (m - 1) + theirs_of_mean**2 / (n - 1)
        )
    error = sqrt(ours_of_mean + theirs_of_mean)
    half = _quantile(degrees, level) * error + rounding
    p_value = _p_value(max(abs(difference) - rounding, 0.0) / error, degrees)
    same = abs(difference) <= half
    return Welch(difference, difference - half, difference + half, p_value, same)


def _quantile(degrees: float, level: float) -> float:
    return float(stdtrit(degrees, (1 + level) / 2))


def _p_value(t: float, degrees: float) -> float:
    return float(2 * stdtr(degrees, -abs(t)))


@dataclass(frozen=True)
class Ranking:
    """The method proven to be the best, or the possibly best ones; see :func:`best_of`."""

    best: str | None
    among_best: frozenset[str]


def best_of(columns: Mapping[str, BySeed], higher_is_better: bool) -> Ranking:
    """Return which of several methods is the best, if any.

    The leader has the best mean among methods with at least three seeds. It is the best only if it
    is significantly better than every other method over at least three common seeds (paired t-test
    at 5 %, with Holm's correction over these comparisons). Otherwise the leader and the next
    methods in the order of their means, down to the first that is significantly worse than the
    leader, are among the best. A method with fewer common seeds cannot be tested, so the leader is
    then not the best. If none can be tested, the result is empty.

    So no method is among the best if a method with a better mean is not.

    Parameters
    ----------
    columns : mapping from name to values by seed
    higher_is_better : bool

    Notes
    -----
    The leader is chosen by the same values that test it. Still, one of several equally good methods
    is called the best with a probability of at most .05: it must beat the others, and between two
    of them a two-sided test at 5 % covers both directions. A method that is not among the best is
    not proven to be worse, since a method with a better mean may be. In simulated tables of five
    seeds, a given one of two to ten equal methods was left out in 3 % of cases.
    """
    sign = 1.0 if higher_is_better else -1.0
    means = {name: sign * fmean(c.values()) for name, c in columns.items() if c}
    order = sorted(means, key=means.__getitem__, reverse=True)
    leader = next((name for name in order if len(columns[name]) >= FEWEST_SEEDS), None)
    if leader is None:
        return Ranking(None, frozenset())
    others = {name: paired(columns[leader], columns[name]) for name in order if name != leader}
    tested = {name: c.p_value or 0.0 for name, c in others.items() if c.n >= FEWEST_SEEDS}
    if not tested:
        return Ranking(None, frozenset())
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    # Over common seeds, the order can differ from that of the means over all seeds.
    beaten = {
        name
        for name, p_value in adjusted.items()
        if p_value <= 1 - LEVEL and sign * (others[name].difference or 0.0) > 0
    }
    if beaten == others.keys():
        return Ranking(leader, frozenset())
    first_beaten = next((place for place, name in enumerate(order) if name in beaten), len(order))
    return Ranking(None, frozenset(order[:first_beaten]))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for multiple tests by Holm's step-down procedure.

    If adjusted p ≤ .05 is called significant, the probability of any false positive among the
    comparisons is at most .05, for any dependence. The k-th smallest of m p-values is multiplied by
    m − k + 1, and adjusted values are made monotone.

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
