"""Sums of gradients within groups, chunk by chunk."""

from __future__ import annotations

import torch
from torch import Tensor

from faircil.threads import chunk_size, map_chunks
from faircil.weighting.gradients import LastLayer


class GroupSums:
    """Adds up gradients and losses within groups, as chunks of samples come by.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        Group of each sample; samples with a negative number take no part.
    groups : int
        Number of groups, G.
    """

    def __init__(self, group: Tensor, groups: int) -> None:
        self._group, self._groups = group, groups
        # By first row: chunks come in any order, and are added up in theirs.
        self._parts: dict[int, list[tuple[int, Tensor]]] = {}

    def add(self, factors: LastLayer, rows: slice) -> None:
        """Add up the gradients of one chunk."""
        # Sorted within a chunk, which fits in cache, every group is one slice.
        part, order = torch.sort(self._group[rows], stable=True)
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
        self._parts[rows.start] = sums

    def total(self, factors: LastLayer) -> tuple[Tensor, Tensor]:
        """Return the sums over all chunks; the mean gradient is the sum over the size.

        Returns
        -------
        gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
            ``Σ δ_i h̃_iᵀ``; zero for a group without samples.
        losses : Tensor of float64, shape (G,)
        """
        columns = factors.features.shape[1] + factors.bias
        gradients = factors.delta.new_zeros(self._groups, factors.delta.shape[1], columns)
        for _, part in sorted(self._parts.items()):
            for g, total in part:
                gradients[g] += total
        losses = torch.zeros(self._groups, dtype=torch.float64, device=self._group.device)
        inside = self._group >= 0
        losses.index_add_(0, self._group[inside], factors.losses[inside].double())
        return gradients, losses


def group_sums(factors: LastLayer, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Add up gradients and losses of n samples within G groups; see :class:`GroupSums`."""
    sums, device = GroupSums(group, groups), group.device
    size, on_cpu = chunk_size(device), device.type == "cpu"
    map_chunks(lambda rows: sums.add(factors, rows), len(group), size, threads=on_cpu)
    return sums.total(factors)
