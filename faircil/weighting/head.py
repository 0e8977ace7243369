"""The last linear layer of any classifier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from faircil.errors import UsageError


def find_head(net: nn.Module, x: Tensor, head: nn.Linear | str | None = None) -> nn.Linear:
    """Return the linear layer whose output is the net's output.

    Parameters
    ----------
    net : Module
        Any classifier that returns logits.
    x : Tensor, shape (n, ...)
        Inputs; one row of them is passed through the net.
    head : Linear or str, optional
        The layer, or its name in the net; by default the last one that runs is taken.
    """
    if isinstance(head, str):
        named = dict(net.named_modules())
        linear = [name for name, module in named.items() if isinstance(module, nn.Linear)]
        if head not in linear:
            raise UsageError(f"head '{head}' is no linear layer of the net; it has: {linear}")
        head = named[head]
    outputs: list[tuple[nn.Linear, Tensor]] = []
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    hooks = [
        layer.register_forward_hook(lambda layer, _, output: outputs.append((layer, output)))
        for layer in layers
    ]
    try:
        with evaluating(net):
            logits = net(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    matching = [layer for layer, output in outputs if output is logits]
    found = matching[-1] if matching else None
    if found is None or (head is not None and head is not found):
        raise UsageError(
            f"the output of {type(net).__name__} is not the output of "
            f"{'its last' if head is None else 'the given'} linear layer; return the logits "
            "(no softmax after the layer), with the classifier as the last nn.Linear"
        )
    return found


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Put the net in eval mode without gradients, then restore the mode of every module."""
    training = [module for module in net.modules() if module.training]
    net.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
