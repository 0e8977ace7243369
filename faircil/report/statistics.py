"""Confidence intervals, significance tests, and the best of several methods.

All tests are Student's t, two-sided. A sign-flip permutation test would assume less, but over five
seeds its smallest possible p-value is 2/2⁵ = 1/16: it could never tell anything apart at 5 %.
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
FEWEST_SEEDS = 3  # in common, for a mark: with two, chance makes tiny or huge t-values easily
NOTHING = 1e-12  # of the values' size: differences as small come from the arithmetic

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its interval; None where a single value gives none."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedComparison:
    """How much larger a is than b over ``n`` common seeds; None where it is undefined."""

    n: int
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None


@dataclass(frozen=True)
class Welch:
    """Our mean less the published one; ``same`` where rounding and chance explain it."""

    difference: float
    low: float
    high: float
    p_value: float
    same: bool


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean with its interval by Student's t, n − 1 degrees of freedom.

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
    """Compare two methods over their common seeds, by the paired t-test.

    Runs with the same seed share data, initial weights and buffer draws, so that their difference
    varies less than either of them.

    Differences that are all the same leave the t-test without a measure of chance. If all are 0,
    nothing differs: p = 1. Else only their sign is left, which all n share with probability 2/2ⁿ if
    either sign is as likely: that is p, without an interval. It is not 0: values from small test
    sets are coarse, and two differences are then easily the same by chance.

    Parameters
    ----------
    a, b : mapping from seed to value
    level : float
        Of the interval of the mean difference a − b.
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

    A printed number may be off by ``rounding``, half of its last digit: so much of a difference is
    nothing, and a deviation printed as .000 may be as large. A single value of ours has no
    deviation of its own; it is taken to vary like the published ones.

    Parameters
    ----------
    values : sequence of float
        Ours, one per seed.
    mean, deviation : float
        Published, the deviation with n − 1.
    n : int
        Seeds of the published figure.
    rounding : float
        Above 0.
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
    """The proven best, or else those that may be the best: see :func:`best_of`."""

    best: str | None
    among_best: frozenset[str]


def best_of(columns: Mapping[str, BySeed], higher_is_better: bool) -> Ranking:
    """Say which of several methods is the best, if one is.

    The leader is the best mean among methods of at least three seeds. It is the best only if it is
    significantly better than every other method over at least three common seeds (paired t-test at
    5 %, after Holm over these comparisons). Otherwise the leader and those in the order of their
    means, down to the first that is significantly worse than the leader, are among the best. A
    method with fewer common seeds cannot be tested: it keeps the leader from being the best. If
    none can be tested, nothing is said.

    So no method is among the best while one with a better mean is not.

    Parameters
    ----------
    columns : mapping from name to values by seed
    higher_is_better : bool

    Notes
    -----
    The leader is chosen by the same values that test it. Still, one of several equally good methods
    is called the best with probability .05 at most: it has to beat the others, and between two of
    them a two-sided test at 5 % covers both directions. A method that is not among the best is not
    proven to be worse: a method with a better mean may be. In simulated tables of five seeds, a
    given one of two to ten equal methods was left out in 3 %.
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
    # Over common seeds the order can be another than that of the means over all seeds.
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
    """Adjust p-values for being many, by Holm's step-down rule.

    Calling different what has an adjusted p ≤ .05 is wrong in any of the comparisons with
    probability .05 at most, whatever their dependence. The k-th smallest of m is multiplied by
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
