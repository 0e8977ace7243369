"""The pool that a rule is fitted on: samples with probabilities, grouped and weighted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """N samples of Z groups, with probabilities of K classes.

    Parameters
    ----------
    probabilities : ndarray, shape (N, K)
    group : ndarray of int64, shape (N,)
        Number of the sample's group; every group has a sample.
    mass : ndarray, shape (N,)
        What the sample stands for within its group; positive, sums to 1 in each.
    share : ndarray, shape (Z,)
        π, how much of the population each group is; positive, sums to 1.
    """

    probabilities: Floats
    group: Integers
    mass: Floats
    share: Floats

    def rates(self, chances: Floats) -> Floats:
        """Return P(ŷ = k | z), shape (Z, K), if sample i is predicted k with ``chances[i, k]``."""
        return group_rates(chances, self.group, self.mass, len(self.share))

    def value(self, chances: Floats) -> float:
        """Return the share of right predictions that the probabilities promise."""
        right = np.einsum("ij,ij->i", chances, self.probabilities)
        return float((self.share[self.group] * self.mass) @ right)

    @property
    def effective_sizes(self) -> Floats:
        """How many samples of equal weight would be as good as those of each group, (Z,)."""
        sizes: Floats = 1 / np.bincount(self.group, self.mass**2)
        return sizes

    def sampling_error(self, rates: Floats) -> float:
        """Return the largest standard error of rates (Z, K): how well the pool knows them."""
        return float(np.sqrt((rates * (1 - rates) / self.effective_sizes[:, None]).max()))

    def take(self, rows: Integers) -> Pool:
        """Return some of the samples, which stand for all of their groups."""
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
