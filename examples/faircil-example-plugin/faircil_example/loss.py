"""A loss: the Brier score, which is bounded where cross-entropy is not."""

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def brier(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Brier score of the softmax outputs, and its gradient.

    With e = p − onehot(y) the loss is ``Σ_k e_k²``, and its gradient at the logits
    ``2 p_j (e_j − Σ_k p_k e_k)``.
    """
    p = torch.softmax(logits, dim=1)
    error = p - one_hot(y, logits.shape[1])
    gradient = 2 * p * (error - (p * error).sum(dim=1, keepdim=True))
    return error.square().sum(dim=1), gradient
