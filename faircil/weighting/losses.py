"""Losses of the program: what a group's disparity is made of, seen from the logits.

A loss is a function of logits, (n, classes), and labels, (n,). It returns the loss of each sample,
(n,), and its gradient at the logits, (n, classes). Training has a loss of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def cross_entropy(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``−log p_y`` of the softmax p, and its gradient ``δ = p − onehot(y)``.

    Exact also for samples that are almost certain.
    """
    log_p = torch.log_softmax(logits, dim=1)
    label = y[:, None]
    losses = -log_p.gather(1, label).squeeze(1)
    # δ_y = p_y − 1 = −Σ_{k≠y} p_k: the sum keeps its digits when p_y is almost 1.
    delta = log_p.exp_().scatter_(1, label, 0.0)
    return losses, delta.scatter_(1, label, -delta.sum(dim=1, keepdim=True))


def hinge(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Σ_{j≠y} max(0, p_j − p_y + 1)`` of the softmax p, and its gradient ``C p_y δ``.

    C is the number of outputs, classes to come included. No term is below zero, since probabilities
    differ by 1 at most; so the sum is ``(1 − p_y) − (C−1) p_y + (C−1) = C (1 − p_y) = −C δ_y``. Its
    gradient is ``−C ∂p_y = −C p_y ∂log p_y``: a sample has the direction of its cross-entropy, and
    counts in its group by its probability.
    """
    losses, delta = cross_entropy(logits, y)
    classes, precision = logits.shape[1], torch.finfo(logits.dtype)
    # Where p_y underflows a sample keeps its direction: the least factor that leaves δ its digits.
    p_y = losses.neg_().exp_().clamp_(min=precision.tiny / precision.eps)
    hinges = -classes * delta.gather(1, y[:, None]).squeeze(1)
    return hinges, delta.mul_(classes * p_y[:, None])


LOSSES: dict[str, Loss] = {"cross-entropy": cross_entropy, "hinge": hinge}
