"""What one forward pass tells about the groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from faircil.errors import DataError, DivergedError, raise_all
from faircil.samples import Samples
from faircil.weighting.gradients import LastLayer, cosines, last_layers
from faircil.weighting.group_sums import GroupSums
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.head import find_head
from faircil.weighting.losses import Loss, cross_entropy


class GroupStatistics(Protocol):
    """What the program needs to know of G groups and n current samples, in float64."""

    @property
    def losses(self) -> Floats:
        """Mean loss of each group, (G,)."""

    @property
    def alignment(self) -> Floats:
        """Cosine of each current sample's gradient with each group's mean gradient, (G, n)."""

    def progress(self, weights: Floats) -> Floats:
        """Return the cosines weighted by the samples' weights, (n,), and added up: (G,)."""


@dataclass(frozen=True)
class LastLayerStatistics:
    """Statistics from last-layer gradients; see :class:`GroupStatistics`.

    Parameters
    ----------
    losses : ndarray, shape (G,)
    factors : LastLayer
        Of the current samples.
    gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
        Of the groups, up to a factor, which a cosine does not see.
    """

    losses: Floats
    factors: LastLayer
    gradients: Tensor

    @cached_property
    def alignment(self) -> Floats:
        """See :class:`GroupStatistics`; computed when asked for."""
        alignment: Floats = cosines(self.factors, self.gradients).double().cpu().numpy()
        return alignment

    def progress(self, weights: Floats) -> Floats:
        """See :class:`GroupStatistics`."""
        return self.alignment @ weights


def group_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    head: nn.Linear | str | None = None,
    loss: Loss = cross_entropy,
) -> LastLayerStatistics:
    """Measure all groups with the net as it is: one forward pass over task and buffer."""
    layer = find_head(net, current.x, head)
    raise_all(missing_outputs(layer.out_features, membership), DataError)
    sets, members = [(current.x, current.y)], [membership.current]
    if memory is not None and len(memory):
        sets.append((memory.x, memory.y))
        members.append(membership.memory)
    sums = [GroupSums(group, len(membership.groups)) for group in members]
    measured = last_layers(net, layer, sets, lambda k, *chunk: sums[k].add(*chunk), loss)
    totals = [each.total(factors) for each, factors in zip(sums, measured, strict=True)]
    gradients, losses = (sum(parts[1:], parts[0]) for parts in zip(*totals, strict=True))
    return LastLayerStatistics(mean_losses(losses, membership), measured[0], gradients)


def missing_outputs(outputs: int, membership: Membership) -> list[str]:
    """Say, in a list for mistakes, if a class has no output."""
    highest = int(membership.groups.label.max())
    if highest < outputs:
        return []
    return [
        f"class {highest} is beyond the net's {outputs} outputs; classes count from 0, and the "
        "last layer needs an output for each"
    ]


def mean_losses(sums: Tensor, membership: Membership) -> Floats:
    """Divide losses that were added up within groups, (G,), by the size of the groups."""
    if not torch.isfinite(sums).all():
        raise DivergedError(
            "the net's losses are not finite, so it has diverged or its inputs are not finite; "
            "lower the learning rate, and check the inputs for NaN"
        )
    mean: Floats = (sums.cpu() / torch.from_numpy(membership.groups.size)).numpy()
    return mean
