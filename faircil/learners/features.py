"""Features of any classifier: the inputs of its last linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from faircil.threads import chunk_size, chunks_of
from faircil.weighting.head import evaluating, find_head


def with_features(net: nn.Module, head: nn.Linear, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits, (n, classes), and features, (n, d), of inputs in one pass, with gradients.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.weighting.head.find_head`).
    x : Tensor, shape (n, ...)
    """
    found: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    try:
        logits = net(x)
    finally:
        hook.remove()
    return logits, found[0]


def features_of(net: nn.Module, x: Tensor) -> Tensor:
    """Return the features, (n, d), of any number of inputs, without gradients, in eval mode."""
    head = find_head(net, x)
    with evaluating(net):
        chunks = chunks_of(len(x), chunk_size(x.device)) or [slice(0)]
        return torch.cat([with_features(net, head, x[rows])[1] for rows in chunks])
