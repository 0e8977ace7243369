"""Features of any classifier: the inputs of its last linear layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from faircil.compute import chunk_size, chunks_of
from faircil.errors import UsageError


class MLP(nn.Module):
    """Fully connected layers with ReLU, and one linear head over all classes.

    Parameters
    ----------
    n_inputs, n_classes : int
    hidden : sequence of int
        Widths of the hidden layers.
    """

    def __init__(self, n_inputs: int, n_classes: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        widths = [n_inputs, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for inputs (n, ...)."""
        logits: Tensor = self.head(self.features(x.flatten(1)))
        return logits


def build_mlp(n_inputs: int, n_classes: int, hidden: Sequence[int], seed: int) -> MLP:
    """Make an MLP with initial weights from the seed, without touching the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return MLP(n_inputs, n_classes, hidden)


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


def with_features(net: nn.Module, head: nn.Linear, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits, (n, classes), and features, (n, d), of inputs in one pass, with gradients.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.nets.find_head`).
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
