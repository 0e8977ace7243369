"""Intervals of levels: of one rate, of a mean of rates, and of the lowest of several.

A single rate has Jeffreys's limits. Accuracy, a weighted mean of independent rates a_y, has the
limits A ∓ √(Σ w_y² (a_y − l_y)²), where l_y is the limit of the class (and u_y above): variances
are evaluated at the limits, and the sum is not shifted by the priors of the classes.

The lowest of K rates, θ = min r_i, is observed as t = min r̂_i, which is biased downward.

*Above.* θ is too high if P(min ≤ t) is small. Groups within two standard errors of the lowest are
assumed to be tied at θ: their smallest rate is distributed as 1 − Π (1 − F_i).

*Below.* Any group i may be the lowest. Its rate is then θ, and θ is too low for the observations

- if r̂_i is too high for it, by the group's own limit;
- or if all groups were observed to be at least t, which has probability P_θ(r̂_i ≥ t) Π_j P(r̂_j ≥
t)
  over the others j. Their rates are estimated. As the lowest of these estimates is too low by
  selection, those that may be tied with it share one rate.

The limit is the lowest that any i allows. The first test alone is valid for any rates of the other
groups, but is conservative: it is wrong in hardly any audit if several groups are nearly as low.
The second test uses the other groups. How close they are is only estimated, so coverage is not
exact: if groups are nearly but not quite tied, intervals are too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv

from faircil.counts import Floats, Integers, share

TAIL = 0.025  # of a 95 % interval, on either side
TIED_TAIL = 0.035  # above the worst of groups that may be tied, as errors below it are rare
NEAR = 2.0  # standard errors within which rates may be tied
HALVINGS = 50  # of an interval of length 1: exact in double precision
TIE = 1e-9  # T is a ratio of counts, so equal values differ only by rounding

Limits = tuple[float, float]


def rate_limits(hits: Integers, sizes: Integers, tail: float = TAIL) -> tuple[Floats, Floats]:
    """Return elementwise limits of rates with Jeffreys's prior; 0 to 1 without trials.

    Examples
    --------
    >>> low, high = rate_limits(np.array([7, 10]), np.array([10, 10]))
    >>> low.round(2), high.round(2)
    (array([0.39, 0.78]), array([0.91, 1.  ]))
    """
    low = betaincinv(hits + 0.5, sizes - hits + 0.5, tail)
    high = betaincinv(hits + 0.5, sizes - hits + 0.5, 1 - tail)
    return np.where(hits == 0, 0.0, low), np.where(hits == sizes, 1.0, high)


def mean_limits(hits: Integers, sizes: Integers, weights: Floats) -> Limits:
    """Return the limits of a weighted mean of rates; all (C,), with positive sizes."""
    rates = share(hits, sizes)
    low, high = rate_limits(hits, sizes)
    middle = float(weights @ rates)
    below = np.sqrt(((weights * (rates - low)) ** 2).sum())
    above = np.sqrt(((weights * (high - rates)) ** 2).sum())
    return max(middle - float(below), 0.0), min(middle + float(above), 1.0)


def worst_limits(hits: Integers, sizes: Integers) -> Limits:
    """Return the limits of the lowest of several true rates; all (K,), with positive sizes."""
    worst = float((hits / sizes).min())
    smoothed = (hits + 0.5) / (sizes + 1)
    near = _near_lowest(smoothed, sizes)
    tail = TIED_TAIL if near.sum() > 1 else TAIL
    most, fewer = _up_to(worst, sizes)
    tied = sizes[near]

    def is_usual(rate: float) -> bool:  # P(min ≤ worst) with all that may be tied at the rate
        none_lower = np.prod(1 - _at_most(fewer[near], tied, rate))
        none_as_low = np.prod(1 - _at_most(most[near], tied, rate))
        return bool(1 - (none_lower + none_as_low) / 2 >= tail)

    return _lowest_limit(hits, sizes), _last(is_usual, worst, 1.0)


def _lowest_limit(hits: Integers, sizes: Integers) -> float:
    """Return the lower limit of the lowest rate: the lowest that any group allows."""
    own, _ = rate_limits(hits, sizes)
    low = 1.0
    # Groups with the same counts have the same limit. Start with the lowest: a group whose own
    # limit is above the result so far cannot lower it.
    _, places = np.unique(np.stack([hits, sizes]), axis=1, return_index=True)
    for group in sorted(places.tolist(), key=lambda place: float(own[place])):
        if own[group] >= low:
            break
        low = min(low, max(float(own[group]), _limit_by_all(group, hits, sizes)))
    return low


def _limit_by_all(group: int, hits: Integers, sizes: Integers) -> float:
    """Return the limit of a group's rate as the lowest, given that all were at least t."""
    others = np.arange(len(sizes)) != group
    if not others.any():
        return 0.0
    worst, n = float((hits / sizes).min()), sizes[others]
    rates = (hits[others] + 0.5) / (n + 1)
    near = _near_lowest(rates, n)
    rates[near] = (rates[near] * n[near]).sum() / n[near].sum()
    ends = np.stack(_up_to(worst, sizes))  # P(all > t) and P(all ≥ t), as ties count half
    spared = np.prod(1 - _at_most(ends[:, others], n, rates), axis=1)

    def is_unusual(rate: float) -> bool:
        alone = 1 - _at_most(ends[:, group], sizes[group], rate)
        return float(np.mean(alone * spared)) < TAIL

    return _last(is_unusual, 0.0, worst)


def _near_lowest(rates: Floats, sizes: Integers) -> NDArray[np.bool_]:
    """Return which rates, (K,), may be tied with the lowest of them."""
    variance, first = rates * (1 - rates) / sizes, rates.argmin()
    near: NDArray[np.bool_] = rates - rates[first] <= NEAR * np.sqrt(variance + variance[first])
    return near


def _up_to(rate: float, sizes: Integers) -> tuple[Floats, Floats]:
    """Return the largest hit counts with rates at most, and below, the given rate; (K,)."""
    most = np.floor(rate * sizes + TIE)
    return most, np.where(most >= rate * sizes - TIE, most - 1, most)


def _last(holds: Callable[[float], bool], first: float, end: float) -> float:
    """Return the last rate for which a monotone condition holds, by bisection."""
    for _ in range(HALVINGS):
        middle = (first + end) / 2
        first, end = (middle, end) if holds(middle) else (first, middle)
    return first


def _at_most(hits: Floats, sizes: Any, rate: Floats | float) -> Floats:
    """P(binomial ≤ hits); 0 for negative hits."""
    return np.where(hits < 0, 0.0, bdtr(np.maximum(hits, 0.0), sizes, rate))
