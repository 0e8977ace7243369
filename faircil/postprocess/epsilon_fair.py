"""ε-fair post-processing: the most accurate rule whose predictions are nearly independent of z."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.errors import DataError, raise_all
from faircil.postprocess.checks import (
    as_values,
    population_mistakes,
    probability_mistakes,
    value_mistakes,
    weight_mistakes,
)
from faircil.postprocess.pool import Pool, largest_gap, normalised
from faircil.postprocess.program import solve
from faircil.postprocess.rule import FittedRule, Ties, apply_offsets, find_ties

FEW = 30  # samples of a group, counted by their weights, below which its rates are a guess


@dataclass(frozen=True)
class EpsilonFair:
    """Fits the most accurate rule with ``|P(ŷ=k | z) − P(ŷ=k)| ≤ ε`` for every class and group.

    After Denis, Elie, Hebiri and Hu (2024), for any number of groups and with an exact optimum.
    The attribute z is needed for every prediction; labels are not needed at all.

    Parameters
    ----------
    epsilon : float
        From 0, equal rates, to 1, no constraint. It bounds each cell whose mean over classes and
        groups is the metric ``dp``.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.3, 0.7], [0.1, 0.9]]
    >>> z = ["F", "F", "F", "M", "M", "M"]
    >>> rule = EpsilonFair(epsilon=0).fit(p, z)
    >>> round(rule.value, 3), round(rule.gap, 3)
    (0.617, 0.0)
    """

    epsilon: float = 0.05

    def __post_init__(self) -> None:
        raise_all(epsilon_mistakes(self.epsilon))

    def fit(
        self,
        probabilities: ArrayLike,
        sensitive: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        population: Mapping[Any, float] | None = None,
        seed: int = 0,
    ) -> FittedRule:
        """Fit a rule on a pool, best one that the model was not trained on.

        Parameters
        ----------
        probabilities : array, shape (N, K)
            Of every class, for every sample of the pool.
        sensitive : array, shape (N,)
            Attribute value of each sample: numbers or text.
        sample_weight : array, shape (N,), optional
            How many samples of the population each stands for; by default all stand for equally
            many.
        population : mapping, optional
            How large each group is in the population, ``{value: count or share}``; by default as
            large as the sum of its weights.
        seed : int
            Of the start of the solver. The optimum does not depend on it, but where several rules
            are optimal it may.

        Raises
        ------
        DataError
            With all that is wrong with the arrays.
        """
        p, values = np.asarray(probabilities), as_values(sensitive)
        n = len(p) if p.ndim else 0
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight)
        mistakes = probability_mistakes(p, "probabilities")
        mistakes += weight_mistakes(weight, n)
        wrong_values = value_mistakes(values, n)
        groups = np.array([]) if wrong_values else np.unique(values)
        if not wrong_values and len(groups) < 2:
            wrong_values.append(
                f"sensitive has {len(groups)} distinct value(s); at least two are needed to "
                "compare groups"
            )
        if not wrong_values and population is not None:
            wrong_values += population_mistakes(population, groups)
        raise_all([*mistakes, *wrong_values], DataError)

        group = np.searchsorted(groups, values).astype(np.int64)
        weight = weight.astype(np.float64)
        counts = np.bincount(group, weight)
        if population is not None:
            counts = np.array([population[value] for value in groups.tolist()], dtype=np.float64)
        pool = Pool(p.astype(np.float64), group, normalised(weight, group), counts / counts.sum())
        return self._fit(pool, groups, np.random.default_rng(seed))

    def _fit(self, pool: Pool, groups: NDArray[Any], generator: np.random.Generator) -> FittedRule:
        n_classes = pool.probabilities.shape[1]
        offsets = np.zeros((len(groups), n_classes))
        no_ties = np.zeros((0, n_classes))
        ties = Ties(np.zeros(0, dtype=np.int64), no_ties.astype(bool), no_ties)
        chances = apply_offsets(pool.probabilities, pool.group, offsets, ties)
        bound = pool.value(chances)
        if largest_gap(pool.rates(chances), pool.share) > self.epsilon:
            optimum = solve(pool, self.epsilon, generator)
            offsets = -optimum.prices / pool.share[:, None]
            bound = optimum.bound(pool, self.epsilon)
            ties = find_ties(pool, offsets, optimum.chances)
            chances = apply_offsets(pool.probabilities, pool.group, offsets, ties)
        rates = pool.rates(chances)
        error = pool.sampling_error(rates)
        return FittedRule(
            epsilon=self.epsilon,
            groups=groups,
            offsets=offsets,
            ties=ties,
            value=pool.value(chances),
            bound=bound,
            gap=largest_gap(rates, pool.share),
            error=error,
            notes=tuple(_notes(pool, groups, self.epsilon, error)),
        )


def epsilon_mistakes(epsilon: float) -> list[str]:
    """Say why a number cannot be ε."""
    if 0 <= epsilon <= 1:
        return []
    return [f"epsilon is {epsilon}, expected 0 (equal rates) to 1 (no constraint)"]


def _notes(pool: Pool, groups: NDArray[Any], epsilon: float, error: float) -> list[str]:
    """Warn of groups that are too small for their rates to be known."""
    notes = [
        f"the pool has {size} sample(s) of group {value}"
        + ("" if worth > size - 0.5 else f", with their weights worth {worth:.0f}")
        + f", fewer than {FEW}: on new data its shares may be quite different"
        for value, size, worth in zip(
            groups, np.bincount(pool.group), pool.effective_sizes, strict=True
        )
        if worth < FEW
    ]
    if epsilon < error:
        notes.append(
            f"epsilon {epsilon:g} is below the sampling error of the pool's shares: it fits noise "
            "too; a larger pool or epsilon helps"
        )
    return notes
