"""The pool of samples that a rule is fitted on, its rates, and validation of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.counts import Floats as Floats, Integers as Integers
from faircil.errors import DataError, shortened
from faircil.labels import as_array, is_missing

SUM_TOLERANCE = 0.01  # probabilities are often rounded to few digits
ROUNDING = 1e-6  # 1 − the others may be slightly negative


@dataclass(frozen=True)
class Pool:
    """N samples of Z groups, with probabilities of K classes.

    Parameters
    ----------
    probabilities : ndarray, shape (N, K)
    group : ndarray of int64, shape (N,)
        Index of the sample's group; every group has a sample.
    mass : ndarray, shape (N,)
        Weight of the sample within its group; positive, sums to 1 in each group.
    share : ndarray, shape (Z,)
        π, the share of each group in the population; positive, sums to 1.
    """

    probabilities: Floats
    group: Integers
    mass: Floats
    share: Floats

    def rates(self, chances: Floats) -> Floats:
        """Return P(ŷ = k | z), (Z, K), for prediction probabilities ``chances[i, k]``."""
        return group_rates(chances, self.group, self.mass, len(self.share))

    def value(self, chances: Floats) -> float:
        """Return the expected accuracy under the predicted probabilities."""
        right = np.einsum("ij,ij->i", chances, self.probabilities)
        return float((self.share[self.group] * self.mass) @ right)

    @property
    def effective_sizes(self) -> Floats:
        """Effective sample size of each group, (Z,)."""
        sizes: Floats = 1 / np.bincount(self.group, self.mass**2)
        return sizes

    def sampling_error(self, rates: Floats) -> float:
        """Return the largest standard error of rates (Z, K) estimated on the pool."""
        return float(np.sqrt((rates * (1 - rates) / self.effective_sizes[:, None]).max()))

    def take(self, rows: Integers) -> Pool:
        """Return some of the samples, reweighted to represent their groups."""
        return Pool(
            self.probabilities[rows],
            self.group[rows],
            normalised(self.mass[rows], self.group[rows]),
            self.share,
        )


def normalised(weight: Floats, group: Integers) -> Floats:
    """Divide weights (n,) by their sum within each group."""
    masses: Floats = weight / np.bincount(group, weight)[group]
    return masses


def group_rates(chances: Floats, group: Integers, mass: Floats, n_groups: int) -> Floats:
    """Sum mass · chances within groups: (n, K) to (Z, K)."""
    columns = [np.bincount(group, mass * column, n_groups) for column in chances.T]
    return np.stack(columns, axis=1)


def largest_gap(rates: Floats, share: Floats) -> float:
    """Return the largest ``|P(ŷ=k | z) − P(ŷ=k)|`` of rates (Z, K) and shares (Z,)."""
    return float(np.abs(rates - share @ rates).max())


def probability_mistakes(values: NDArray[Any], what: str) -> list[str]:
    """Return the mistakes of an (n, classes) array of probabilities; ``what`` names it."""
    if values.ndim != 2 or values.shape[1] < 2 or len(values) == 0:
        return [
            f"{what} have shape {values.shape}, expected (samples, classes) with at least one "
            "sample and two classes"
        ]
    if values.dtype.kind not in "biuf":
        return [f"{what} are of type {values.dtype}, expected numbers"]
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        return [
            f"{what} have NaN or infinite values in {np.count_nonzero(~finite)} of {len(values)} "
            f"rows (first: row {np.argmin(finite)}); fill or drop these rows"
        ]
    if values.min() < -ROUNDING or values.max() > 1 + SUM_TOLERANCE:
        return [
            f"{what} have values from {values.min():.3g} to {values.max():.3g}, expected 0 to 1; "
            "if these are logits, give their softmax"
        ]
    sums = values.sum(axis=1, dtype=np.float64)
    wrong = np.abs(sums - 1) > SUM_TOLERANCE
    if wrong.any():
        first = int(wrong.argmax())
        return [
            f"{what} do not sum to 1 in {np.count_nonzero(wrong)} of {len(values)} rows (row "
            f"{first} sums to {sums[first]:.3g}); give the probabilities of all classes"
        ]
    return []


def as_numbers(given: ArrayLike, what: str) -> NDArray[Any]:
    """Return a given value as an array; raise a DataError if it cannot be converted."""
    try:
        return np.asarray(given)
    except ValueError:
        raise DataError(f"{what} has rows of several lengths; expected equal ones") from None


def as_values(sensitive: ArrayLike) -> NDArray[Any]:
    """Return attribute values as an array, sortable if they are of one type.

    Missing values are kept: numpy would turn NaN in a list of texts into the text "nan".
    """
    values = as_array(sensitive)
    if values.dtype == object and values.ndim == 1 and not any(map(is_missing, values)):
        return as_numbers(values.tolist(), "sensitive")  # text from pandas
    return values


def value_mistakes(values: NDArray[Any], n: int) -> list[str]:
    """Return the mistakes of an array of attribute values, one per sample."""
    if values.shape != (n,):
        hint = "; join several attributes into one" if values.ndim == 2 else ""
        return [f"sensitive has shape {values.shape}, expected ({n},), a value per row{hint}"]
    if values.dtype == object or any(map(is_missing, np.unique(values))):
        return ["sensitive has missing values or values of no simple type; give numbers or text"]
    return []


def weight_mistakes(weight: NDArray[Any], n: int) -> list[str]:
    """Return the mistakes of an array of sample weights."""
    if weight.shape != (n,) or weight.dtype.kind not in "biuf":
        return [
            f"sample_weight has shape {weight.shape} and type {weight.dtype}, expected ({n},) and "
            "numbers"
        ]
    if not (np.isfinite(weight).all() and (weight > 0).all()):
        return ["sample_weight has values that are not positive and finite; drop these samples"]
    return []


def population_mistakes(population: Mapping[Any, float], groups: NDArray[Any]) -> list[str]:
    """Return the mistakes of population shares for the groups of the pool."""
    mistakes = []
    known = groups.tolist()
    if missing := [str(value) for value in known if value not in population]:
        mistakes.append(f"population has no share of {shortened(missing)}; give one for each value")
    if surplus := [str(value) for value in population if value not in known]:
        mistakes.append(f"the pool has no sample of {shortened(surplus)}, which population names")
    if not all(np.isfinite(share) and share > 0 for share in population.values()):
        mistakes.append("population has shares that are not positive and finite; give counts")
    return mistakes


def codes_of(values: NDArray[Any], groups: NDArray[Any]) -> Integers:
    """Return the index of each value, (n,), in the sorted ``groups``; −1 if it is missing."""
    kinds = ["number" if array.dtype.kind in "biuf" else "text" for array in (values, groups)]
    if kinds[0] != kinds[1]:
        return np.full(len(values), -1)
    position = np.searchsorted(groups, values).clip(max=len(groups) - 1)
    return np.where(groups[position] == values, position, -1)
