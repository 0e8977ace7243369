"""Cosines of samples with groups, from the factors of all layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from faircil.samples import Samples
from faircil.threads import CHUNK
from faircil.weighting.all_layers.directions import GroupGradients
from faircil.weighting.all_layers.factors import Factors, Layer, layer_factors
from faircil.weighting.groups import Membership
from faircil.weighting.losses import Loss, cross_entropy

KEPT = 2**27  # numbers kept of the first pass for the second; beyond that, factors are made anew


def factored_cosines(
    net: nn.Module,
    layers: Sequence[Layer],
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    loss: Loss = cross_entropy,
) -> tuple[Tensor, Tensor]:
    """Compare all current samples with all groups.

    Parameters
    ----------
    net : Module
        In eval mode.
    layers : sequence of Layer
        See :func:`~faircil.weighting.all_layers.factors.linear_layers`.
    current, memory : Samples
        n and m of them.
    membership : Membership
        G groups.
    loss : Loss

    Returns
    -------
    losses : Tensor of float64, shape (G,)
        Added up within groups.
    cosines : Tensor, shape (G, n)
    """
    size = torch.from_numpy(membership.groups.size).to(current.y.device)
    gradients = GroupGradients(layers, size)
    if memory is not None:
        for rows, factors in _chunks(net, layers, memory, membership.memory, loss):
            gradients.add(membership.memory[rows], factors)
    numbers = sum(layer.module.in_features + layer.module.out_features for layer in layers)
    keeps = len(current) * numbers <= KEPT
    kept: list[tuple[Tensor, Factors]] = []
    for rows, factors in _chunks(net, layers, current, membership.current, loss):
        gradients.add(membership.current[rows], factors)
        if keeps:
            kept.append((rows, factors))
    directions = gradients.directions()
    cosines = directions.shares.new_empty(len(size), len(current))
    again = _chunks(net, layers, current, membership.current, loss)
    for rows, factors in kept if keeps else again:
        cosines[:, rows] = directions.products(factors).T
    return gradients.losses, cosines


def _chunks(
    net: nn.Module, layers: Sequence[Layer], samples: Samples, group: Tensor, loss: Loss
) -> Iterator[tuple[Tensor, Factors]]:
    """Yield the rows of samples, sorted by group, and their factors."""
    for rows in torch.split(torch.argsort(group, stable=True), CHUNK):
        part = samples.take(rows)
        yield rows, layer_factors(net, layers, part.x, part.y, loss)
