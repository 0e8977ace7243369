"""Granularity of the program: a variable is a sample, a group or a cluster of samples.

A granularity is a table row. It states which variable each sample belongs to, and whether the
variable's value is the weight of its samples or the probability of drawing each of them.

Clusters are formed of the normalised last-layer gradients ``ĝ_i = δ_i h̃_iᵀ / (‖δ_i‖ ‖h̃_i‖)``
within groups, without a matrix that has a row per sample: a centre c is one small matrix, and both
the inner products ``⟨ĝ_i, c⟩ = ‖c‖ cos(i, c)`` and sums of gradients are computed from the factors.
The nearest centre has the smallest ``‖ĝ_i − c‖² = 1 − 2 ‖c‖ cos(i, c) + ‖c‖²``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from faircil.compute import CHUNK
from faircil.errors import DataError, UsageError
from faircil.samples import rows_of_groups
from faircil.weighting.groups import Floats, Groups, Integers, Membership
from faircil.weighting.last_layer import LastLayer, cosines, feature_lengths, group_sums, unit

BATCH = 1024  # samples per update of the centres
ROUNDS = 10  # batches per group


def cluster(
    factors: LastLayer, group: Tensor, groups: int, clusters: int, generator: torch.Generator
) -> Tensor:
    """Partition the samples into clusters, each within a group.

    Parameters
    ----------
    factors : LastLayer
        Factors of n samples.
    group : Tensor of int64, shape (n,)
        Group of each sample.
    groups : int
        Number of groups, G.
    clusters : int
        Number of clusters, divided among groups by size, with at least one for each nonempty
        group. The result has fewer if a centre ends up without samples.
    generator : torch.Generator
        Draws the initial centres and the batches.

    Returns
    -------
    Tensor of int64, shape (n,)
        Cluster of each sample, numbered from 0 without gaps, group by group.
    """
    if clusters < 1:
        raise UsageError(f"clusters is {clusters}, expected at least 1")
    members = [rows for rows in rows_of_groups(group, groups) if len(rows)]
    owner = torch.empty_like(group)
    first = 0
    for rows, count in zip(members, _shared(members, clusters), strict=True):
        centres = _centres(factors, rows, count, generator)
        for part in torch.split(rows, CHUNK):
            owner[part] = first + nearest(_normalised(factors, part), centres)
        first += count
    consecutive: Tensor = torch.unique(owner, return_inverse=True)[1]
    return consecutive


def nearest(factors: LastLayer, centres: Tensor) -> Tensor:
    """Return the nearest centre of each sample's normalised gradient.

    Parameters
    ----------
    factors : LastLayer
        Factors of n samples.
    centres : Tensor, shape (k, classes, 1 + d) or (k, classes, d) without a bias

    Returns
    -------
    Tensor of int64, shape (n,)
    """
    length = centres.flatten(1).norm(dim=1)[:, None]
    distance: Tensor = length * (length - 2 * cosines(factors, centres))  # squared, less 1
    return distance.argmin(dim=0)


def _shared(members: list[Tensor], clusters: int) -> list[int]:
    """Divide the clusters among groups by size, between 1 and the size of each group."""
    sizes = torch.tensor([len(rows) for rows in members])
    n = int(sizes.sum())
    # Cumulative counts are rounded rather than single ones, which preserves the total.
    given = (sizes.cumsum(0) * min(clusters, n) + n // 2) // max(n, 1)
    counts: list[int] = given.diff(prepend=given.new_zeros(1)).clamp(min=1).tolist()
    return counts


def _centres(factors: LastLayer, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Find the centres of one group's samples: running means of the samples assigned to them."""
    start = torch.randperm(len(rows), generator=generator)[:count].to(rows.device)
    number = torch.arange(count, device=rows.device)
    centres, _ = group_sums(_normalised(factors, rows[start]), number, count)
    sizes = centres.new_ones(count)
    for _ in range(ROUNDS):
        batch_size = min(BATCH, len(rows))
        drawn = torch.randint(len(rows), (batch_size,), generator=generator).to(rows.device)
        batch = _normalised(factors, rows[drawn])
        owner = nearest(batch, centres)
        sums, _ = group_sums(batch, owner, count)
        added = torch.bincount(owner, minlength=count).to(sizes)
        sizes = sizes + added
        # Update of the running mean: c + Σ (ĝ_i − c) / size.
        centres = centres + (sums - added[:, None, None] * centres) / sizes[:, None, None]
    return centres


def _normalised(factors: LastLayer, rows: Tensor) -> LastLayer:
    """Select samples, with δ scaled to unit gradients; zero gradients stay zero."""
    features = factors.features[rows]
    length = feature_lengths(features, factors.bias)[:, None]
    delta = torch.where(length == 0, 0.0, unit(factors.delta[rows]) / length)
    return replace(factors, losses=factors.losses[rows], delta=delta, features=features)


Clustering = Callable[[], Tensor]  # cluster of each current sample, (n,), computed on call


@dataclass(frozen=True)
class Parts:
    """A partition of the n current samples within groups; one variable per part.

    Parameters
    ----------
    owner : ndarray of int64, shape (n,)
        Part of each sample, numbered from 0 without gaps.
    group : ndarray of int64, shape (parts,)
        Group of each part.
    share : ndarray, shape (parts,)
        The part's fraction of its group.
    """

    owner: Integers
    group: Integers
    share: Floats

    @classmethod
    def of(cls, owner: Integers, membership: Membership) -> Parts:
        """Build the parts from the part of each sample, (n,)."""
        size = np.bincount(owner)
        group = np.empty_like(size)
        group[owner] = membership.current.cpu().numpy()
        return cls(owner, group, size / membership.groups.size[group])

    def sums(self, values: Floats) -> Floats:
        """Sum (rows, n) within the parts: (rows, parts)."""
        sums = np.empty((len(values), len(self.group)))
        for row, result in zip(values, sums, strict=True):
            result[:] = np.bincount(self.owner, weights=row)
        return sums


@dataclass(frozen=True)
class Variables:
    """The variables of a program.

    Parameters
    ----------
    columns : ndarray, shape (rows, variables)
        Columns of the program, summed over the samples of each variable.
    groups : Groups
        G groups.
    parts : Parts or None
        The parts represented by variables; None: each sample is a variable.
    drawn : bool
        Whether a variable is the probability of drawing its samples; otherwise it is their weight.
    """

    columns: Floats
    groups: Groups
    parts: Parts | None
    drawn: bool

    def spread(self, solution: Floats) -> Floats:
        """Return the value of each sample's variable, (n,): its weight or expected weight."""
        return solution if self.parts is None else solution[self.parts.owner]

    def sample_weights(self, solution: Floats, generator: torch.Generator | None) -> Floats:
        """Return one weight per sample, (n,): the solution's, or 0/1 drawn by probability."""
        weights = self.spread(solution)
        if not self.drawn:
            return weights
        draw = torch.rand(len(weights), generator=required(generator), dtype=torch.float64)
        return (draw.numpy() < weights).astype(np.float64)

    def shares(self, solution: Floats) -> Floats | None:
        """Return the fraction of each group that the solution keeps, (G,); NaN for old groups.

        None if each sample has its own weight.
        """
        if self.parts is None:
            return None
        part = self.parts.share * solution
        taken = np.bincount(self.parts.group, weights=part, minlength=len(self.groups))
        return np.where(self.groups.current, taken, np.nan)


def required(generator: torch.Generator | None) -> torch.Generator:
    """Return the generator; raise an error if it is None."""
    if generator is None:
        raise DataError("this granularity draws samples: pass generator=torch.Generator()")
    return generator


def itself(_membership: Membership, _clustering: Clustering) -> None:
    """Make each sample a variable, as in the paper."""


def its_group(membership: Membership, _clustering: Clustering) -> Integers:
    """Return the group of each sample, (n,), numbered among the current groups."""
    number = np.cumsum(membership.groups.current) - 1
    owner: Integers = number[membership.current.cpu().numpy()]
    return owner


def its_cluster(_membership: Membership, clustering: Clustering) -> Integers:
    """Return the cluster of each sample, (n,)."""
    owner: Integers = clustering().cpu().numpy()
    return owner


@dataclass(frozen=True)
class Granularity:
    """A table row: the variable of each sample, and whether samples are drawn.

    If groups or clusters are drawn, the program decides the fraction of each part, and samples are
    drawn at random. The samples kept represent their part, and the program has few columns.
    """

    owner: Callable[[Membership, Clustering], Integers | None]
    drawn: bool
    summary: str
    approximates: bool = False  # approximates the program by sample

    def __call__(
        self, alignment: Floats, membership: Membership, clustering: Clustering
    ) -> Variables:
        """Build the variables of a program.

        Parameters
        ----------
        alignment : ndarray, shape (rows, n)
        membership : Membership
        clustering : callable
            Returns the cluster of each sample, (n,); called only if needed.
        """
        owner = self.owner(membership, clustering)
        if owner is None:
            return Variables(alignment, membership.groups, None, self.drawn)
        parts = Parts.of(owner, membership)
        return Variables(parts.sums(alignment), membership.groups, parts, self.drawn)


GRANULARITIES: dict[str, Granularity] = {
    "sample": Granularity(itself, False, "a weight for every sample, as in the paper"),
    "group": Granularity(its_group, True, "a share of every group; its samples are drawn"),
    "cluster": Granularity(
        its_cluster, True, "a share of every cluster; its samples are drawn", approximates=True
    ),
    "cluster-weights": Granularity(
        its_cluster, False, "a weight for every cluster's samples", approximates=True
    ),
}
