"""Confidence intervals of gaps: 95 % of them cover the true value, also near 0.

A gap is a mean of absolute differences, or a best minus a worst rate. The usual bootstrap of such a
number has two problems.

1. *It is biased upward.* If true rates are equal, observed ones are not. With T the observed gap
   and θ the true one, E T − θ is about the noise floor at θ = 0 and decreases to 0 as θ grows. The
   bootstrap adds this bias once more, and its interval never reaches 0.
2. *It depends on unknowns*: on how θ arises. Four values tied at the top give a larger T than one
   at the top; one class with the whole gap gives a larger mean |δ̂| than many classes with a part
   of it.

So a limit is found by inverting a test. For a possible θ, the rates are placed on a line through
the pooled rates,

    r(t) = c + t d,   c the rate of the row over all columns,   T(r(t)) = θ for some t,

which leads from no difference (t = 0) in the observed direction d. Tables are drawn from r(t) with
the given sizes, and T* is computed from each. θ is in the interval if the observed T is neither too
large nor too small for it:

    P(T* ≥ T) ≥ α_above(θ)   and   P(T* ≤ T) ≥ α_below(θ),

counting ties half, since counts are discrete. Trials with few samples are drawn at rates with
Jeffreys's prior of half a hit and half a miss (half a sample of each class for shares), so that a
cell without a mistake still varies: small cells thus follow a Dirichlet–multinomial distribution.
For large cells the prior is negligible, and this is the multinomial bootstrap.

*Near 0*, no T is too small for θ = 0, and an interval must not be empty because T happens to be
smaller than usual. With w(θ) the power to distinguish θ from 0, from 0 at θ = 0 to 1 far away,

    α_below = α w,   α_above = α + EXTRA (1 − w).

So the error is assigned to the side on which it can occur. At θ = 0 only the lower limit can be
wrong.

*The direction* d is unknown, so several are tried. A tail at θ is the mean of two tails: the
largest over all directions, and the mean over directions. That is, the least favourable direction
has probability ½, and otherwise all directions are equally likely:

- the observed one, whose noise separates rates that may be tied;
- one in which all rates that may be tied are tied: columns within two standard errors of the row's
  best or worst, and row gaps within two standard errors of the largest;
- one in which all rows that may have no difference have none, except for the widest. Among many
  classes, a single one with a gap does not stand out from the noise of the others;
- the mirrored one, if a line soon ends: the rate of a small group without mistakes cannot grow, so
  a larger gap is only possible in the other direction.

The largest tail alone makes intervals of small groups too wide: they are wrong in half as many
audits as allowed. The mean alone is wrong too often if values are evenly spread. As c is shared by
all cells, it has half a hit and half a miss once rather than per cell: with groups of 25 and rates
of .9, the latter would make T* vary too much.

``faircil bench audit`` measures how often these intervals cover the true value. None of this is
exact: the constants below were chosen by such simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from faircil.auditing.disparities import Statistic, Trials
from faircil.auditing.rate_intervals import NEAR, TAIL, TIE, Limits
from faircil.counts import Floats

EXTRA = 0.015  # additional error near 0, where T cannot be too small
GRID = 16  # number of values of θ tried
NUMBERS = 4_000_000  # drawn at once, at most
FAR = 5.0  # standard deviations around the observed value that are tried
FINE = 400  # points of a path that are evaluated without draws
MUCH = 8.0  # relative length of a path, compared to one without ends at 0 or 1
ENOUGH_OF = 0.8  # fraction of the last requested θ that suffices
EXACT = 1e-100  # variance of a rate that is fixed, such as the share of a single class


@dataclass(frozen=True)
class Floor:
    """The values expected without any difference at these sizes, from permutations.

    Parameters
    ----------
    mean, high : float
        Mean, and 95 % quantile.
    p_value : float
        Fraction of permutations at least as large as the observed value, including itself.
    """

    mean: float
    high: float
    p_value: float


def gap_limits(
    trials: Trials, statistics: Mapping[str, Statistic], draws: int, rng: np.random.Generator
) -> dict[str, Limits]:
    """Return the limits of a family's disparities, by inverting tests; see the module docstring.

    Parameters
    ----------
    trials : Trials, of R rows and K columns
    statistics : mapping from name to a function of rates, (..., R, K) to (...)
    draws : int
        Number of tables drawn for each value of θ tried.
    rng : Generator

    Returns
    -------
    dict from name to (low, high)
    """
    centre, directions = directions_of(trials)

    def is_seen(direction: Floats) -> bool:
        return any(float(of(centre + direction)) > TIE for of in statistics.values())

    directions = list(filter(is_seen, directions)) or [_any_direction(trials)]
    if not is_seen(directions[0]):  # a single class: no difference is possible
        return dict.fromkeys(statistics, (0.0, 0.0))
    observed = {name: float(of(trials.rates)) for name, of in statistics.items()}
    start = trials.draw(trials.possible(trials.smoothed)[None], max(draws // 4, 100), rng)[0]
    spread = {name: max(float(of(start).std()), TIE) for name, of in statistics.items()}
    wanted = {
        name: (observed[name] - FAR * spread[name], observed[name] + FAR * spread[name])
        for name in statistics
    }
    paths = [_path(trials, centre, direction, statistics, wanted) for direction in directions]
    if not all(long_enough for _, long_enough in paths):
        paths.append(_path(trials, centre, -directions[0], statistics, wanted))
    found: dict[str, list[Tails]] = {name: [] for name in statistics}
    for rates, _ in paths:
        drawn = _drawn(trials, rates, statistics, draws, rng)
        for name, of in statistics.items():
            true = of(rates)
            true[0] = 0.0
            # Once rates have reached 0 or 1, θ no longer grows.
            new = np.concatenate([[True], true[1:] > np.maximum.accumulate(true)[:-1] + TIE])
            found[name].append(_tails(true[new], drawn[name][new], observed[name]))
    least = 0.25 / draws
    return {
        name: _limits(combined_tails(tails, least), observed[name], least)
        for name, tails in found.items()
    }


def _path(
    trials: Trials,
    centre: Floats,
    direction: Floats,
    statistics: Mapping[str, Statistic],
    wanted: Mapping[str, Limits],
) -> tuple[Floats, bool]:
    """Return rates r(t), starting from no difference, at which to try θ.

    Parameters
    ----------
    trials : Trials
    centre, direction : array, shape (R, K)
    statistics : mapping from name to function
    wanted : mapping from name to (first, last)
        Range of θ to try for each statistic.

    Returns
    -------
    rates : array, shape (G, R, K)
        The first is the centre.
    long_enough : bool
        Whether every statistic nearly reaches its last requested value: rates end at 0 and 1.
    """
    unit = {name: float(of(centre + direction)) for name, of in statistics.items()}
    # A statistic that is constant in this direction does not limit the length.
    seen = [name for name in statistics if unit[name] > TIE]
    far = MUCH * max(wanted[name][1] / unit[name] for name in seen)
    # Close together at first, while rates are not limited.
    steps = far * np.linspace(0.0, 1.0, FINE) ** 2
    fine = trials.possible(centre + steps[:, None, None] * direction)
    true = {name: np.maximum.accumulate(statistics[name](fine)) for name in seen}
    # Evenly spaced in θ of each statistic, then midpoints in t, then the ends of all.
    places = []
    for name in seen:
        low, high = max(wanted[name][0], 0.0), min(wanted[name][1], float(true[name][-1]))
        places.append(np.interp(np.linspace(low, high, GRID), true[name], steps))
    middle = np.mean(places, axis=0)
    middle[0] = min(place[0] for place in places)
    middle[-1] = max(place[-1] for place in places)
    tried = np.unique([0.0, *middle])
    rates = trials.possible(centre + tried[:, None, None] * direction)
    rates[0] = centre
    return rates, all(true[name][-1] >= ENOUGH_OF * wanted[name][1] for name in seen)


def directions_of(trials: Trials) -> tuple[Floats, list[Floats]]:
    """Return the pooled rates and the directions of difference to try, all (R, K)."""
    rates, sizes = trials.smoothed, trials.sizes
    # Half a trial per outcome, once: adding half to every cell would pull c towards the middle,
    # where rates vary more, particularly for many small cells.
    outcomes = len(sizes) if trials.shares else 2
    hits, whole = trials.hits.sum(axis=1, keepdims=True), sizes.sum(axis=1, keepdims=True)
    pooled = (hits + 0.5) / (whole + outcomes / 2)
    centre = np.where(sizes > 0, pooled, np.nan)
    variance = np.where(sizes > 0, rates * (1 - rates) / np.maximum(sizes, 1), np.nan)
    directions = [rates - centre]
    if min(trials.hits.shape) > 1 or trials.hits.shape[1] > 2:
        directions.append(_evened(_tied(rates, variance), variance) - centre)
    if len(rates) > 1:
        directions.append(_sparse(directions[0], variance))
    return centre, directions


def _any_direction(trials: Trials) -> Floats:
    """Return an arbitrary direction, (R, K), for rates that are all equal."""
    number, sizes = np.arange(len(trials.sizes)), trials.sizes
    rows = np.ones(len(number))
    if trials.shares:  # what some classes lose, others gain; a single class has all
        odd = number % 2 == 1
        rows = np.where(odd, 1 / max(odd.sum(), 1), -1 / (~odd).sum()) * odd.any()
    signs = np.where(np.arange(sizes.shape[1]) % 2, 1.0, -1.0)
    return np.where(sizes > 0, 0.01 * rows[:, None] * signs, np.nan)


def _ends(rates: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the columns of the highest and the lowest rate of each row, (R,)."""
    return np.nanargmax(rates, axis=1), np.nanargmin(rates, axis=1)


def _tied(rates: Floats, variance: Floats) -> Floats:
    """Replace rates that may be tied with a row's best, or with its worst, by one rate; (R, K)."""
    best, worst = (ends[:, None] for ends in _ends(rates))
    tied = rates.copy()
    high = rates >= (np.take_along_axis(rates, best, 1) + np.take_along_axis(rates, worst, 1)) / 2
    for end, half in ((best, high), (worst, ~high)):
        error = np.sqrt(variance + np.take_along_axis(variance, end, 1))
        near = half & (np.abs(rates - np.take_along_axis(rates, end, 1)) <= NEAR * error)
        precision = np.where(near, 1 / np.maximum(variance, EXACT), 0.0)
        whole = precision.sum(axis=1)  # 0 if all rates are equal, so that none is lower
        mean = np.nansum(precision * rates, axis=1) / np.where(whole > 0, whole, 1.0)
        tied = np.where(near, mean[:, None], tied)
    return tied


def _evened(rates: Floats, variance: Floats) -> Floats:
    """Replace row gaps that may be tied with the largest by the mean of these gaps; (R, K)."""
    rows, best, worst = np.arange(len(rates)), *_ends(rates)
    gap = rates[rows, best] - rates[rows, worst]
    noise = variance[rows, best] + variance[rows, worst]
    largest = gap.argmax()
    near = (gap > TIE) & (gap[largest] - gap <= NEAR * np.sqrt(noise + noise[largest]))
    factor = np.ones(len(gap))
    if near.any():
        factor[near] = gap[near].mean() / gap[near]
    middle = np.nanmean(rates, axis=1, keepdims=True)
    evened: Floats = middle + (rates - middle) * factor[:, None]
    return evened


def _sparse(direction: Floats, variance: Floats) -> Floats:
    """Keep the widest row, and rows that differ more than the largest of so many would; (R, K).

    The largest of R normal deviates is about √(2 log R).
    """
    rows, best, worst = np.arange(len(direction)), *_ends(direction)
    gap = direction[rows, best] - direction[rows, worst]
    usual = max(NEAR, sqrt(2 * log(2 * len(rows))))
    kept = gap > usual * np.sqrt(variance[rows, best] + variance[rows, worst])
    kept[gap.argmax()] = True
    return np.where(kept[:, None], direction, 0.0 * direction)


def _drawn(
    trials: Trials,
    rates: Floats,
    statistics: Mapping[str, Statistic],
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Return each statistic, (G, draws), of tables drawn from each of the rates, (G, R, K)."""
    found = {name: np.empty((len(rates), draws)) for name in statistics}
    cells = trials.sizes.size
    some = min(draws, max(NUMBERS // cells, 1))
    points = max(NUMBERS // (cells * some), 1)
    for place in range(0, len(rates), points):
        part = rates[place : place + points]
        for first in range(0, draws, some):
            tables = trials.draw(part, min(some, draws - first), rng)
            for name, of in statistics.items():
                found[name][place : place + points, first : first + some] = of(tables)
    return found


@dataclass(frozen=True)
class Tails:
    """How unusual the observed T is at each θ of a direction.

    Parameters
    ----------
    true : array, shape (G,)
        θ, ascending from 0.
    above, below : array, shape (G,)
        P(T* ≥ T) and P(T* ≤ T), counting ties half.
    power : array, shape (G,)
        w(θ), the power to distinguish θ from 0.
    """

    true: Floats
    above: Floats
    below: Floats
    power: Floats


def _tails(true: Floats, drawn: Floats, observed: float) -> Tails:
    """Compute the tails from draws, (G, draws), at each θ, (G,)."""
    tied = (np.abs(drawn - observed) <= TIE).mean(axis=1) / 2
    above = (drawn > observed + TIE).mean(axis=1) + tied
    below = (drawn < observed - TIE).mean(axis=1) + tied
    usual = np.quantile(drawn[0], 1 - 2 * TAIL)
    larger = (drawn > usual).mean(axis=1)
    power = np.clip((larger - larger[0]) / (1 - larger[0]), 0.0, 1.0)
    return Tails(true, above, below, power)


def combined_tails(tails: Sequence[Tails], least: float) -> Tails:
    """Combine the tails of several directions, at the θ of all of them.

    Each direction counts up to its last θ. Logarithms of tails are interpolated linearly between
    two values of θ; tails without any draw are set to ``least``, a quarter of a draw.
    """
    true = np.unique(np.concatenate([one.true for one in tails]))

    def at_true(of: Callable[[Tails], Floats]) -> Floats:
        ends = [np.interp(true, one.true, of(one), right=np.nan) for one in tails]
        return np.stack(ends)

    def taken_together(of: Callable[[Tails], Floats]) -> Floats:
        each = np.exp(at_true(lambda one: np.log(np.maximum(of(one), least))))
        both: Floats = (np.nanmax(each, axis=0) + np.nanmean(each, axis=0)) / 2
        return both

    above, below = taken_together(lambda one: one.above), taken_together(lambda one: one.below)
    return Tails(true, above, below, np.nanmean(at_true(lambda one: one.power), axis=0))


def _limits(tails: Tails, observed: float, least: float) -> Limits:
    """Return the lowest and highest θ for which the observed value is not too small or large."""
    true, power = tails.true, tails.power
    too_large = np.log(np.maximum(tails.above, least)) - np.log(TAIL + EXTRA * (1 - power))
    too_small = np.log(np.maximum(tails.below, least)) - np.log(
        np.maximum(TAIL * power, least / 2)  # less than no draw at all
    )
    last = len(true) - 1
    fits = np.flatnonzero(too_large >= 0)
    low = _crossing(true, too_large, fits[0] - 1) if len(fits) else true[last]
    fits = np.flatnonzero(too_small >= 0)
    high = _crossing(true, too_small, fits[-1]) if len(fits) else 0.0
    if len(fits) and fits[-1] == last:  # rates end at 0 and 1 before θ is too large
        high = max(high, observed)
    return float(low), float(max(high, low))


def _crossing(true: Floats, values: Floats, before: int) -> float:
    """Return the zero crossing after index ``before``; the end if there is no next value."""
    if before < 0 or before + 1 == len(true):
        return float(true[max(before, 0)])
    left, right = values[before], values[before + 1]
    return float(true[before] + (true[before + 1] - true[before]) * left / (left - right))


def noise_floor(
    trials: Trials, statistics: Mapping[str, Statistic], draws: int, rng: np.random.Generator
) -> dict[str, Floor]:
    """Return the noise floor, with the p-value of the observed value.

    Parameters are those of :func:`gap_limits`.
    """
    tables = trials.permuted(draws, rng)
    found = {}
    for name, of in statistics.items():
        values = of(tables)
        as_large = int((values >= float(of(trials.rates)) - TIE).sum())
        p_value = (1 + as_large) / (1 + draws)
        high = float(np.quantile(values, 1 - 2 * TAIL, method="higher"))
        found[name] = Floor(float(values.mean()), high, p_value)
    return found
