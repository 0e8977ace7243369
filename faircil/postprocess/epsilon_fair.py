"""ε-fair post-processing: the most accurate rule whose predictions are nearly independent of z."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.errors import DataError, raise_all, shortened, whole_mistakes
from faircil.postprocess.optimum import solve
from faircil.postprocess.pool import (
    Floats,
    Integers,
    Pool,
    as_numbers,
    as_values,
    codes_of,
    largest_gap,
    normalised,
    population_mistakes,
    probability_mistakes,
    value_mistakes,
    weight_mistakes,
)

TIE = 1e-7  # scores with a smaller difference are tied
LEAST = 1e-9  # share of a group in the population; rates of smaller groups are lost to rounding
FEW = 30  # effective samples of a group; with fewer, its rates are unreliable


@dataclass(frozen=True)
class Ties:
    """Random choice among tied classes, for T patterns of a group and a set of classes.

    Parameters
    ----------
    group : ndarray of int64, shape (T,)
    classes : ndarray of bool, shape (T, K)
        The tied classes.
    chances : ndarray, shape (T, K)
        0 for classes that are not tied.
    """

    group: Integers
    classes: NDArray[np.bool_]
    chances: Floats


@dataclass(frozen=True)
class FittedRule:
    """Predicts the class with the largest ``p_k + offset`` of the sample's group.

    The best rule under the constraint is random if several classes tie: these are drawn with the
    probabilities that satisfy the constraint on the pool. If predicted probabilities are spread
    out, only a few pool samples tie, and new samples do not. If a model is so confident that many
    samples have equal probabilities, ties can be a large part of a group.

    Parameters
    ----------
    epsilon : float
    groups : ndarray, shape (Z,)
        Values of the attribute, sorted.
    offsets : ndarray, shape (Z, K)
        0 if the constraint is not active.
    ties : Ties
    value : float
        Expected accuracy on the pool under the predicted probabilities.
    bound : float
        Upper bound of the value of any rule within ε: ``bound − value`` proves optimality.
    gap : float
        Largest ``|P(ŷ=k | z) − P(ŷ=k)|`` on the pool, in expectation over draws; at most ε.
    error : float
        Largest standard error of a rate on the pool; gaps on new data are larger by about this.
    notes : tuple of str
        Notes for the user.
    """

    epsilon: float
    groups: NDArray[Any]
    offsets: Floats
    ties: Ties
    value: float
    bound: float
    gap: float
    error: float
    notes: tuple[str, ...] = ()

    def chances(self, probabilities: ArrayLike, sensitive: ArrayLike) -> Floats:
        """Return the probability of predicting each class, (n, K): 0 or 1 except for ties.

        Parameters
        ----------
        probabilities : array, shape (n, K)
            Columns in the order of classes of the pool.
        sensitive : array, shape (n,)
            Attribute values, which the rule needs.
        """
        p, values = as_numbers(probabilities, "probabilities"), as_values(sensitive)
        mistakes = probability_mistakes(p, "probabilities")
        n_classes = self.offsets.shape[1]
        if not mistakes and p.shape[1] != n_classes:
            mistakes.append(
                f"probabilities have {p.shape[1]} classes, and those of the pool had {n_classes}; "
                "give the same classes in the same order"
            )
        wrong_values = value_mistakes(values, len(p) if p.ndim else 0)
        codes = np.zeros(0, dtype=np.int64) if wrong_values else codes_of(values, self.groups)
        if (codes < 0).any():
            unknown = shortened([str(value) for value in np.unique(values[codes < 0])])
            known = shortened([str(value) for value in self.groups])
            wrong_values.append(
                f"the pool had no sample of group {unknown} (it had {known}), so the rule has no "
                "offsets for it; fit on a pool with every group"
            )
        raise_all([*mistakes, *wrong_values], DataError)
        return apply_offsets(p.astype(np.float64), codes, self.offsets, self.ties)

    def predict(
        self,
        probabilities: ArrayLike,
        sensitive: ArrayLike,
        seed: int | np.random.Generator = 0,
    ) -> Integers:
        """Return the predicted class, (n,), as a column index; ties are drawn with the seed."""
        chances = self.chances(probabilities, sensitive)
        return draw(chances, np.random.default_rng(seed))


def apply_offsets(probabilities: Floats, group: Integers, offsets: Floats, ties: Ties) -> Floats:
    """Return prediction probabilities (n, K); unknown ties go to the largest probability."""
    scores = probabilities + offsets[group]
    tied = tied_classes(scores)
    chances = np.zeros_like(scores)
    chances[np.arange(len(scores)), scores.argmax(axis=1)] = 1
    for number, classes in enumerate(ties.classes):
        rows = (group == ties.group[number]) & (tied == classes).all(axis=1)
        chances[rows] = ties.chances[number]
    return chances


def tied_classes(scores: Floats) -> NDArray[np.bool_]:
    """Return which classes have the largest score, (n, K)."""
    tied: NDArray[np.bool_] = scores >= scores.max(axis=1, keepdims=True) - TIE
    return tied


def find_ties(pool: Pool, offsets: Floats, optimal: Floats) -> Ties:
    """Average optimal probabilities (N, K) over samples of a group with the same ties.

    Tied samples are exchangeable: the average has the same rates and value, and depends only on
    probabilities and group.
    """
    tied = tied_classes(pool.probabilities + offsets[pool.group])
    rows = np.flatnonzero(tied.sum(axis=1) > 1)
    keys = np.column_stack([pool.group[rows], tied[rows]])
    patterns, pattern = np.unique(keys, axis=0, return_inverse=True)
    # Rounding of the solver may leave chances slightly below 0.
    weighted = pool.mass[rows, None] * np.maximum(optimal[rows], 0) * tied[rows]
    sums = np.zeros((len(patterns), tied.shape[1]))
    np.add.at(sums, pattern.reshape(-1), weighted)
    # Samples with negligible mass may have no tied class: any of these is then as good.
    lost = ~sums.any(axis=1)
    sums[lost] = patterns[lost, 1:]
    chances = sums / sums.sum(axis=1, keepdims=True)
    return Ties(patterns[:, 0], patterns[:, 1:].astype(bool), chances)


def draw(chances: Floats, generator: np.random.Generator) -> Integers:
    """Draw a class for each row of probabilities, (n,); rows without a tie are deterministic."""
    point = generator.random((len(chances), 1))
    below = (np.cumsum(chances, axis=1) <= point).sum(axis=1)
    last = chances.shape[1] - 1 - (chances[:, ::-1] > 0).argmax(axis=1)
    drawn: Integers = np.minimum(below, last)  # rounding may leave the sum slightly below 1
    return drawn


@dataclass(frozen=True)
class EpsilonFair:
    """Fits the most accurate rule with ``|P(ŷ=k | z) − P(ŷ=k)| ≤ ε`` for every class and group.

    After Denis, Elie, Hebiri and Hu (2024), for any number of groups and with an exact optimum.
    The attribute z is needed for every prediction; labels are not needed at all.

    Parameters
    ----------
    epsilon : float
        From 0 (equal rates) to 1 (no constraint). It bounds each term of the metric ``dp``, which
        is a mean over classes and groups.

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
        """Fit a rule on a pool of samples, preferably not used to train the model.

        Parameters
        ----------
        probabilities : array, shape (N, K)
            Predicted probabilities of all classes, for each sample of the pool.
        sensitive : array, shape (N,)
            Attribute value of each sample: numbers or text.
        sample_weight : array, shape (N,), optional
            Number of population samples that each pool sample represents; equal by default.
        population : mapping, optional
            Size of each group in the population, ``{value: count or share}``; by default the sum of
            its sample weights.
        seed : int
            Seed of the solver's start. It can change the rule if several rules are optimal, but not
            the optimum.

        Raises
        ------
        DataError
            If the arrays are invalid; all problems are listed.
        """
        raise_all(whole_mistakes(seed=seed))
        p, values = as_numbers(probabilities, "probabilities"), as_values(sensitive)
        n = len(p) if p.ndim else 0
        weight = np.ones(n) if sample_weight is None else as_numbers(sample_weight, "sample_weight")
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
        with np.errstate(over="ignore", invalid="ignore"):
            share = counts / counts.sum()
        small = [str(value) for value, part in zip(groups, share, strict=True) if not part >= LEAST]
        if small:
            raise DataError(
                f"group {shortened(small)} is less than {LEAST:g} of the population, beyond what "
                "numbers can hold; check sample_weight and population, or leave the group out"
            )
        pool = Pool(p.astype(np.float64), group, normalised(weight, group), share)
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
    """Return the mistakes of a value of ε."""
    if 0 <= epsilon <= 1:
        return []
    return [f"epsilon is {epsilon}, expected 0 (equal rates) to 1 (no constraint)"]


def _notes(pool: Pool, groups: NDArray[Any], epsilon: float, error: float) -> list[str]:
    """Return warnings about groups that are too small for reliable rates."""
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
