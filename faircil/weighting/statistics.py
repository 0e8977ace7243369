"""What one forward pass tells about the groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from faircil.errors import DataError
from faircil.samples import Samples
from faircil.weighting.gradients import cosines, group_sums, last_layer
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.head import find_head


@dataclass(frozen=True)
class GroupStatistics:
    """What the program needs to know, in float64.

    Parameters
    ----------
    losses : ndarray, shape (G,)
        Mean cross-entropy of each group.
    alignment : ndarray, shape (G, n)
        Cosine of each current sample's gradient with each group's mean gradient.
    """

    losses: Floats
    alignment: Floats


def group_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    head: nn.Linear | str | None = None,
) -> GroupStatistics:
    """Measure all groups with the net as it is: one forward pass over task and buffer."""
    layer = find_head(net, current.x, head)
    highest = int(membership.groups.label.max())
    if highest >= layer.out_features:
        raise DataError(
            f"class {highest} is beyond the net's {layer.out_features} outputs; classes count from "
            "0, and the last layer needs an output for each"
        )
    factors = last_layer(net, layer, current.x, current.y)
    g = len(membership.groups)
    gradients, losses = group_sums(factors, membership.current, g)
    if memory is not None and len(memory):
        old = last_layer(net, layer, memory.x, memory.y)
        old_gradients, old_losses = group_sums(old, membership.memory, g)
        gradients, losses = gradients + old_gradients, losses + old_losses
    if not torch.isfinite(losses).all():
        raise DataError(
            "the net's losses are not finite, so it has diverged or its inputs are not finite; "
            "lower the learning rate, and check the inputs for NaN"
        )
    size = torch.from_numpy(membership.groups.size).to(losses.device)
    # The mean gradient differs from the sum by a factor, which a cosine does not see.
    alignment = cosines(factors, gradients)
    return GroupStatistics((losses / size).cpu().numpy(), alignment.double().cpu().numpy())
