"""The measures of an audit, and the trials they are computed from.

Every measure is a function of counts(value, truth, prediction) only. A disparity compares rates of
trials: each cell of a small table has n samples, of which h are hits. A *family* determines which
cells are compared; measures of a family share all draws.

=========  =======================================  ============================================
family     a row of the table                       a cell
=========  =======================================  ============================================
group      a class with two or more values          predicted correctly, of its samples with z
favoured   the same, for favoured classes           the same
shares     a class                                  predicted as it, of all samples with value z
value      all samples                              predicted correctly, of all samples with z
class      all samples                              predicted correctly, of the samples of a class
=========  =======================================  ============================================

Given their sizes, cells are independent binomials. Only in ``shares`` are the cells of a column a
single multinomial: every sample with value z is predicted as exactly one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from faircil.counts import Counts, Floats, Integers, share
from faircil.formulas import comparable, gaps, mean_deviation, mean_distance, mean_gap
from faircil.labels import Labels
from faircil.metrics import METRICS

Statistic = Callable[[Floats], Floats]  # rates (..., R, K) to values (...)
MOST_SAMPLES = 10**9 - 1  # limit of numpy for drawing permutations


@dataclass(frozen=True)
class Trials:
    """A table of trials, whose columns are compared within each row.

    Parameters
    ----------
    hits, sizes : ndarray of int64, shape (R, K)
        Cells of size 0 are absent.
    rows, columns : ndarray of labels, shape (R,) and (K,)
        None for rows: a single row with all samples.
    shares : bool
        Whether the hits of a column are shares of a whole, the column's size.
    """

    hits: Integers
    sizes: Integers
    rows: Labels | None
    columns: Labels
    shares: bool = False

    @property
    def rates(self) -> Floats:
        """The observed rates, NaN for absent cells, (R, K)."""
        return share(self.hits, self.sizes)

    @property
    def smoothed(self) -> Floats:
        """Rates with Jeffreys's prior, half a trial per outcome: never 0 or 1, (R, K)."""
        outcomes = len(self.hits) if self.shares else 2
        return np.where(self.sizes > 0, (self.hits + 0.5) / (self.sizes + outcomes / 2), np.nan)

    def possible(self, rates: Floats) -> Floats:
        """Return the nearest rates that trials of this kind can have, (..., R, K)."""
        least = 0.25 / (self.sizes + 1)
        if not self.shares:
            return np.clip(rates, least, 1 - least)
        rates = np.maximum(rates, least)
        whole: Floats = rates / rates.sum(axis=-2, keepdims=True)
        return whole

    def draw(self, rates: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """Draw observed rates given true ones: (G, draws, R, K) from (G, R, K)."""
        grid = len(rates)
        if self.shares:
            found = [
                rng.multinomial(size, rates[:, None, :, column], size=(grid, draws))
                for column, size in enumerate(self.sizes[0].tolist())
            ]
            return np.stack(found, axis=-1) / self.sizes
        # Draw repeatedly from one cell at a time: numpy then prepares each distribution once.
        shape = (grid, *self.sizes.shape, draws)
        drawn = rng.binomial(self.sizes[..., None], np.nan_to_num(rates)[..., None], size=shape)
        present = np.where(self.sizes > 0, self.sizes, np.nan)
        drawn_rates: Floats = np.moveaxis(drawn / present[..., None], -1, 1)
        return drawn_rates

    def permuted(self, draws: int, rng: np.random.Generator) -> Floats:
        """Draw rates with no difference between columns, given all margins: (draws, R, K).

        Samples of a row (of all rows, for shares) are randomly reassigned to columns. The counts
        are then hypergeometric, so no individual samples are needed: the test is exact.
        """
        if not self.shares:
            dealt = [
                rng.multivariate_hypergeometric(sizes, hits, size=draws, method="marginals")
                for sizes, hits in zip(self.sizes, self.hits.sum(axis=1), strict=True)
            ]
            present = np.where(self.sizes > 0, self.sizes, np.nan)
            return np.stack(dealt, axis=1) / present
        left = np.repeat(self.sizes[:1], draws, axis=0)  # samples of each column not yet assigned
        found = np.zeros((draws, *self.hits.shape), dtype=np.int64)
        for row, hits in enumerate(self.hits.sum(axis=1).tolist()):
            wanted = np.full(draws, hits)
            for column in range(self.hits.shape[1]):
                rest = left[:, column + 1 :].sum(axis=1)
                found[:, row, column] = rng.hypergeometric(left[:, column], rest, wanted)
                wanted -= found[:, row, column]
            left -= found[:, row]
        return found / self.sizes


@dataclass(frozen=True)
class Disparity:
    """A measure of difference; 0 means no difference.

    Parameters
    ----------
    says : str
        Short description in plain language.
    statistic : callable
        ``statistic(trials, counts)`` is a function of rates (..., R, K).
    """

    says: str
    statistic: Callable[[Trials, Counts], Statistic]


@dataclass(frozen=True)
class Family:
    """Disparities that compare the same cells.

    Parameters
    ----------
    trials : callable
        Maps counts to trials, or to None if there is nothing to compare.
    measures : mapping from name to Disparity
    by_attribute : bool
        Whether values of an attribute are compared; otherwise classes are.
    """

    trials: Callable[[Counts], Trials | None]
    measures: Mapping[str, Disparity]
    by_attribute: bool = True


def _compared(compared: Counts) -> Trials | None:
    if not len(compared.classes):
        return None
    return Trials(compared.hits, compared.samples, compared.classes, compared.attributes)


def _group_trials(counts: Counts) -> Trials | None:
    return _compared(comparable(counts))


def _favoured_trials(counts: Counts) -> Trials | None:
    return None if counts.favoured is None else _compared(comparable(counts, counts.favoured))


def _share_trials(counts: Counts) -> Trials | None:
    known = counts.known
    if len(known.attributes) < 2:
        return None
    sizes = np.broadcast_to(known.samples.sum(axis=0), known.predicted.shape)
    return Trials(known.predicted, sizes, known.classes, known.attributes, shares=True)


def _value_trials(counts: Counts) -> Trials | None:
    known = counts.known
    if len(known.attributes) < 2:
        return None
    hits, sizes = known.hits.sum(axis=0)[None], known.samples.sum(axis=0)[None]
    return Trials(hits, sizes, None, known.attributes)


def _class_trials(counts: Counts) -> Trials | None:
    seen = counts.seen
    if seen.sum() < 2:
        return None
    hits, sizes = counts.hits.sum(axis=1)[seen][None], counts.samples.sum(axis=1)[seen][None]
    return Trials(hits, sizes, None, counts.classes[seen])


def _alone(summary: Statistic) -> Callable[[Trials, Counts], Statistic]:
    """Wrap a summary that depends only on the rates."""
    return lambda *_: summary


def _worst(rates: Floats) -> Floats:
    largest: Floats = gaps(rates).max(axis=-1)
    return largest


def _overall(rates: Floats, sizes: Integers) -> Floats:
    """Return the rate of each row over all of its columns, (..., R, 1)."""
    whole: Floats = (rates * sizes).sum(axis=-1, keepdims=True) / sizes.sum(axis=-1, keepdims=True)
    return whole


def _from_overall(trials: Trials, counts: Counts) -> Statistic:
    rows = counts.known.seen if trials.shares else np.ones(len(trials.hits), dtype=bool)
    return lambda rates: mean_distance(
        rates[..., rows, :], _overall(rates, trials.sizes)[..., rows, :]
    )


def _worst_share(trials: Trials, counts: Counts) -> Statistic:
    del trials
    seen = counts.known.seen
    return lambda rates: _worst(rates[..., seen, :])


FAMILIES: Mapping[str, Family] = {
    "group": Family(
        _group_trials,
        {
            "eo": Disparity("equalized odds, mean distance", _alone(mean_deviation)),
            "eo_gap": Disparity("equalized odds, mean gap", _alone(mean_gap)),
            "eo_worst": Disparity("equalized odds, largest gap", _alone(_worst)),
        },
    ),
    "favoured": Family(
        _favoured_trials,
        {
            "eopp": Disparity("equal opportunity, mean distance", _alone(mean_deviation)),
            "eopp_gap": Disparity("equal opportunity, mean gap", _alone(mean_gap)),
        },
    ),
    "shares": Family(
        _share_trials,
        {
            "dp": Disparity("demographic parity, mean distance", _from_overall),
            "dp_worst": Disparity("demographic parity, largest gap", _worst_share),
        },
    ),
    "value": Family(_value_trials, {"accuracy_gap": Disparity("accuracy gap", _alone(mean_gap))}),
    "class": Family(
        _class_trials,
        {"eer": Disparity("equal error rate of classes, mean distance", _from_overall)},
        by_attribute=False,
    ),
}
DISPARITIES = {name: one for family in FAMILIES.values() for name, one in family.measures.items()}
LEVELS = {"accuracy": "accuracy, mean over classes", "worst_group": "worst group's accuracy"}
MEASURES: Mapping[str, str] = {
    **LEVELS,
    **{name: disparity.says for name, disparity in DISPARITIES.items()},
}


def value_of(name: str, counts: Counts, trials: Trials) -> float:
    """Return the observed value: that of the metric of the same name, if there is one."""
    if name in METRICS:
        value = METRICS[name].of(counts)
        if value is not None:
            return value
    return float(DISPARITIES[name].statistic(trials, counts)(trials.rates))


def class_weights(counts: Counts) -> Floats:
    """Return the weight of each class, (C,), in ``accuracy``, a mean over tasks and classes."""
    members: Any = counts.members & counts.seen
    weights: Floats = (members / members.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights
