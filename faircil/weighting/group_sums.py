"""Sums of gradients within groups, chunk by chunk."""

from __future__ import annotations

import torch
from torch import Tensor

from faircil.threads import map_chunks
from faircil.weighting.gradients import LastLayer, chunk_size


def group_sums(factors: LastLayer, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Add up gradients and losses within groups; the mean gradient is the sum over the size.

    Parameters
    ----------
    factors : LastLayer
        Of n samples.
    group : Tensor of int64, shape (n,)
        Group of each sample; samples with a negative number take no part.
    groups : int
        Number of groups, G.

    Returns
    -------
    gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
        ``Σ δ_i h̃_iᵀ``; zero for a group without samples.
    losses : Tensor of float64, shape (G,)
    """
    classes, d = factors.delta.shape[1], factors.features.shape[1]
    gradients = factors.delta.new_zeros(groups, classes, d + factors.bias)
    size, on_cpu = chunk_size(group.device), group.device.type == "cpu"
    parts = map_chunks(lambda rows: _chunk(factors, group, rows), len(group), size, threads=on_cpu)
    for g, total in (item for part in parts for item in part):
        gradients[g] += total
    losses = torch.zeros(groups, dtype=torch.float64, device=group.device)
    inside = group >= 0
    losses.index_add_(0, group[inside], factors.losses[inside].double())
    return gradients, losses


def _chunk(factors: LastLayer, group: Tensor, rows: slice) -> list[tuple[int, Tensor]]:
    """Return the groups of a chunk with the sums of their gradients, (classes, 1 + d)."""
    # Sorted within a chunk, which fits in cache, every group is one slice.
    part, order = torch.sort(group[rows], stable=True)
    delta = factors.delta[rows].index_select(0, order)
    features = factors.features[rows].index_select(0, order)
    present, sizes = torch.unique_consecutive(part, return_counts=True)
    sums, end = [], 0
    for g, size in zip(present.tolist(), sizes.tolist(), strict=True):
        members, end = slice(end, end + size), end + size
        if g >= 0:
            total = delta[members].T @ features[members]
            if factors.bias:
                total = torch.cat([delta[members].sum(dim=0)[:, None], total], dim=1)
            sums.append((g, total))
    return sums
