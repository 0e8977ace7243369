"""Losses of the weighting program, as functions of logits and labels.

A loss maps logits, (n, classes), and labels, (n,), to the unreduced losses, (n,), and their
gradients with respect to the logits, (n, classes). The training loss is separate. A new loss is
such a function, passed directly or registered under a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from faircil.registry import Loaded, Registry, summary_of

LossFunction = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Loss:
    """A loss of the program.

    Parameters
    ----------
    function : callable
        Maps logits, (n, classes), and labels, (n,), to losses, (n,), and their gradients with
        respect to the logits, (n, classes).
    summary : str
        One-line description.
    """

    function: Loaded[LossFunction] = Loaded()
    summary: str = ""

    def __call__(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses, (n,), and gradients, (n, classes)."""
        return self.function(logits, y)


def as_loss(piece: Any) -> Loss:
    """Build a registry row from a function; its docstring is the summary."""
    if isinstance(piece, Loss):
        return piece
    if not callable(piece):
        raise TypeError(f"expected a Loss or a function of logits and labels, got {piece!r}")
    return Loss(piece, summary_of(piece))


def cross_entropy(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``−log p_y`` of the softmax p, and its gradient ``δ = p − onehot(y)``.

    Accurate also for very confident samples.
    """
    log_p = torch.log_softmax(logits, dim=1)
    label = y[:, None]
    losses = -log_p.gather(1, label).squeeze(1)
    # δ_y = p_y − 1 = −Σ_{k≠y} p_k: the sum does not cancel when p_y is close to 1.
    delta = log_p.exp_().scatter_(1, label, 0.0)
    return losses, delta.scatter_(1, label, -delta.sum(dim=1, keepdim=True))


def hinge(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``Σ_{j≠y} max(0, p_j − p_y + 1)`` of the softmax p, and its gradient ``C p_y δ``.

    C is the number of outputs, including classes of later tasks. No term is negative, since
    probabilities differ by at most 1, so the sum is
    ``(1 − p_y) − (C−1) p_y + (C−1) = C (1 − p_y) = −C δ_y``. Its gradient is ``−C ∂p_y =
    −C p_y ∂log p_y``: the gradient of the cross-entropy, scaled by C and the probability.
    """
    losses, delta = cross_entropy(logits, y)
    classes, precision = logits.shape[1], torch.finfo(logits.dtype)
    # If p_y underflows, a minimal factor keeps the direction of δ representable.
    p_y = losses.neg_().exp_().clamp_(min=precision.tiny / precision.eps)
    hinges = -classes * delta.gather(1, y[:, None]).squeeze(1)
    return hinges, delta.mul_(classes * p_y[:, None])


_BUILT_IN = {
    "cross-entropy": Loss(cross_entropy, "cross-entropy of the softmax outputs"),
    "hinge": Loss(hinge, "hinge loss of the softmax outputs"),
}
LOSSES: Registry[Loss] = Registry("loss", "faircil.losses", as_loss, _BUILT_IN)


def find_loss(loss: str | Loss | LossFunction) -> LossFunction:
    """Look up a loss by name; accept a Loss or a function."""
    return (LOSSES.find(loss) if isinstance(loss, str) else as_loss(loss)).function
