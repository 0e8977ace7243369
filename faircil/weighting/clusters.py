"""Clusters of samples whose gradients point the same way: mini-batch k-means (Sculley 2010).

What is clustered are the normalised last-layer gradients ``ĝ_i = δ_i h̃_iᵀ / (‖δ_i‖ ‖h̃_i‖)``, within
groups, and never as a matrix with a row per sample: a centre c is one small matrix, the inner
products ``⟨ĝ_i, c⟩ = ‖c‖ cos(i, c)`` come from the factors, and so do sums of gradients. The
nearest centre has the smallest ``‖ĝ_i − c‖² = 1 − 2 ‖c‖ cos(i, c) + ‖c‖²``.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from faircil.errors import UsageError
from faircil.rows import rows_of_groups
from faircil.threads import CHUNK
from faircil.weighting.gradients import LastLayer, cosines, feature_lengths, unit
from faircil.weighting.group_sums import group_sums

BATCH = 1024  # samples that move the centres together
ROUNDS = 10  # batches per group


def cluster(
    factors: LastLayer, group: Tensor, groups: int, clusters: int, generator: torch.Generator
) -> Tensor:
    """Partition the samples into clusters, each within a group.

    Parameters
    ----------
    factors : LastLayer
        Of n samples.
    group : Tensor of int64, shape (n,)
        Group of each sample.
    groups : int
        Number of groups, G.
    clusters : int
        How many to look for, shared among the groups by size: at least one for each group that has
        samples. Fewer come out where a centre ends up without samples.
    generator : torch.Generator
        Draws the first centres and the batches.

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
        Of n samples.
    centres : Tensor, shape (k, classes, 1 + d) or (k, classes, d) without a bias

    Returns
    -------
    Tensor of int64, shape (n,)
    """
    length = centres.flatten(1).norm(dim=1)[:, None]
    distance: Tensor = length * (length - 2 * cosines(factors, centres))  # squared, less 1
    return distance.argmin(dim=0)


def _shared(members: list[Tensor], clusters: int) -> list[int]:
    """Share the clusters among groups by size; at least 1 and at most its size for each."""
    sizes = torch.tensor([len(rows) for rows in members])
    n = int(sizes.sum())
    # What is given out up to a group is rounded, not each group's own part: the total stays.
    given = (sizes.cumsum(0) * min(clusters, n) + n // 2) // max(n, 1)
    counts: list[int] = given.diff(prepend=given.new_zeros(1)).clamp(min=1).tolist()
    return counts


def _centres(factors: LastLayer, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Find the centres of one group's samples: means of all samples that came to them so far."""
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
        # The mean moves by its share of each newcomer: c + Σ (ĝ_i − c) / size.
        centres = centres + (sums - added[:, None, None] * centres) / sizes[:, None, None]
    return centres


def _normalised(factors: LastLayer, rows: Tensor) -> LastLayer:
    """Take some samples, with δ scaled so that their gradients have length 1; zero stays zero."""
    features = factors.features[rows]
    length = feature_lengths(features, factors.bias)[:, None]
    delta = torch.where(length == 0, 0.0, unit(factors.delta[rows]) / length)
    return replace(factors, losses=factors.losses[rows], delta=delta, features=features)
