"""Put a projector and a reader in place of the last layer of any classifier."""

from __future__ import annotations

import torch
from torch import nn

from faircil.nets import MLP, build_mlp


def with_projector(
    net: nn.Module, reader: str, generator: torch.Generator
) -> tuple[nn.Module, MLP]:
    """Replace the net's last linear layer; return the net and its reader.

    Parameters
    ----------
    net : Module
        Is changed, unless it is nothing but a linear layer.
    reader : str
        ``linear``, or ``mlp`` for one hidden layer.
    generator : torch.Generator
        Of the initial weights.
    """
    head = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
    width = head.in_features
    projector = normalised_mlp(width, generator)
    hidden = (width,) if reader == "mlp" else ()
    read = build_mlp(width, head.out_features, hidden, _seed(generator))
    tail = nn.Sequential(projector, read).to(head.weight.device)
    for module in net.modules():
        for name, child in module.named_children():
            if child is head:
                setattr(module, name, tail)
                return net, read
    return tail, read


def normalised_mlp(width: int, generator: torch.Generator) -> nn.Module:
    """Make an MLP of three layers of the same width, its output normalised per sample."""
    mlp = build_mlp(width, width, (width, width), _seed(generator))
    return nn.Sequential(mlp, nn.LayerNorm(width, elementwise_affine=False))


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))
