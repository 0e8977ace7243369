"""A loss seen from the logits, its gradient split into direction and length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.weighting.gradients import unit
from faircil.weighting.losses import Loss, cross_entropy


@dataclass(frozen=True)
class SplitGradients:
    """Losses of n samples, and their gradients at the logits, split into direction and length.

    A gradient of the parameters is linear in the one at the logits, so it is computed for the
    direction alone: what a confident sample sends back would vanish on the way.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    direction : Tensor, shape (n, classes)
        ``δ_i / ‖δ_i‖`` for the gradients δ; zero where δ is.
    length : Tensor, shape (n,)
        ``‖δ_i‖``.
    """

    losses: Tensor
    direction: Tensor
    length: Tensor


def split_gradients(logits: Tensor, y: Tensor, loss: Loss = cross_entropy) -> SplitGradients:
    """Differentiate the loss of n samples by their logits, (n, classes)."""
    losses, delta = loss(logits, y)
    direction = unit(delta)
    return SplitGradients(losses, direction, torch.linalg.vecdot(delta, direction))
