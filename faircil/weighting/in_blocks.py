"""Statistics of very many samples in bounded memory: two passes that keep no factors.

The factors of last-layer gradients take d + classes numbers per sample, usually more than its
inputs, which may be mapped from a file. A cosine requires the gradients of all groups, so the first
pass sums these, and the second computes the factors again. Both process one block of samples at a
time. Only the numbers that the program needs are kept: one per sample and group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from faircil.compute import chunks_of
from faircil.samples import Samples
from faircil.weighting.any_data import PROBE
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.last_layer import (
    GroupSums,
    LastLayer,
    compared_layer,
    cosines,
    last_layers,
    mean_losses,
)
from faircil.weighting.losses import LossFunction, cross_entropy

BLOCK = 2**16  # samples whose factors are in memory at a time; whole chunks


@dataclass(frozen=True)
class Aligned:
    """Statistics of G groups and n samples without factors.

    See :class:`faircil.weighting.last_layer.GroupStatistics`.

    Parameters
    ----------
    losses : ndarray, shape (G,)
    alignment : ndarray, shape (G, n)
    """

    losses: Floats
    alignment: Floats

    def progress(self, weights: Floats) -> Floats:
        """Return the sums of cosines weighted by sample weights, (n,): (G,)."""
        return self.alignment @ weights


def block_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    head: nn.Linear | str | None = None,
    loss: LossFunction = cross_entropy,
) -> Aligned:
    """Compute statistics of all groups, bit-identical to those of a single pass."""
    layer = compared_layer(net, current.x[:PROBE], membership.groups, head)
    groups = len(membership.groups)

    def blocks(samples: Samples) -> Iterator[tuple[slice, LastLayer]]:
        for rows in chunks_of(len(samples), BLOCK):
            sets = [(samples.x[rows], samples.y[rows])]
            yield rows, last_layers(net, layer, sets, loss=loss)[0]

    def total(samples: Samples, group: Tensor) -> tuple[Tensor, Tensor]:
        sums, losses = GroupSums(group, groups), []
        for rows, factors in blocks(samples):
            sums.add_chunks(factors, rows.start)
            losses.append(factors.losses)
        return sums.total(replace(factors, losses=torch.cat(losses)))

    gradients, losses = total(current, membership.current)
    if memory is not None and len(memory):
        of_memory = total(memory, membership.memory)
        gradients, losses = gradients + of_memory[0], losses + of_memory[1]
    means = mean_losses(losses, membership)
    alignment = np.empty((groups, len(current)))
    for rows, factors in blocks(current):
        alignment[:, rows] = cosines(factors, gradients).cpu().numpy()
    return Aligned(means, alignment)
