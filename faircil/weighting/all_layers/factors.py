"""Gradients of all layers as factors, for nets whose trained layers are all linear.

Where a layer ``o_l = W_l h_l + b_l`` runs once, on one row per sample, the gradient of sample i
with respect to ``[b_l W_l]`` is ``δ_li h̃_liᵀ``, with δ the gradient at the layer's output and
``h̃ = [1; h]`` its input. One backward pass that ends at the outputs gives δ of all layers and
samples without the gradient of a single parameter, and ``‖∇ℓ_i‖² = Σ_l ‖δ_li‖² ‖h̃_li‖²``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from faircil.weighting.all_layers.logits import split_gradients
from faircil.weighting.losses import Loss, cross_entropy

PROBE = 8  # samples that show how a net uses its layers
ROUNDING = 1e-3  # relative difference between factors and autograd that is no difference


@dataclass(frozen=True)
class Layer:
    """A linear layer, and which parts of it are trained."""

    module: nn.Linear
    weight: bool
    bias: bool

    @property
    def columns(self) -> int:
        """Length of h̃: the constant if the bias is trained, and the input if the weight is."""
        return self.bias + self.weight * self.module.in_features


@dataclass(frozen=True)
class Factors:
    """Losses and unit gradients of n samples.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    norms : Tensor, shape (n,)
        ``‖∇ℓ_i‖``.
    deltas : tuple of Tensor, shapes (n, out)
        Of each layer, scaled such that ``δ_li h̃_liᵀ`` over all layers has length 1, or is zero.
    inputs : tuple of Tensor, shapes (n, in)
        Of each layer, without the constant 1.
    """

    losses: Tensor
    norms: Tensor
    deltas: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]

    def take(self, rows: Tensor | slice) -> Factors:
        """Return the factors of some samples: row numbers (a copy) or a slice (a view)."""
        return Factors(
            self.losses[rows],
            self.norms[rows],
            tuple(delta[rows] for delta in self.deltas),
            tuple(h[rows] for h in self.inputs),
        )


@dataclass(frozen=True)
class _Call:
    """One run of a layer: its input, (n, in), and the place of its output in the graph."""

    layer: Layer
    inputs: Tensor
    output: GradientEdge


def linear_layers(net: nn.Module, x: Tensor) -> tuple[Layer, ...] | None:
    """Return the layers of a net whose gradients have factors; None for any other net.

    Parameters
    ----------
    net : Module
        In eval mode.
    x : Tensor, shape (n, ...)
        Inputs; a few of them are passed through the net. No list of modules tells what a forward
        does with a weight, so the factors are compared with autograd's gradient.
    """
    layers = [
        Layer(module, _trained(module.weight), _trained(module.bias))
        for module in net.modules()
        if type(module) is nn.Linear
    ]
    layers = [layer for layer in layers if layer.columns]
    owned = [p for layer in layers for p in (layer.module.weight, layer.module.bias) if _trained(p)]
    if sorted(map(id, owned)) != sorted(id(p) for p in net.parameters() if p.requires_grad):
        return None  # something else is trained, or two layers share a parameter
    logits, calls = _run(net, layers, x[:PROBE])
    once = len({call.layer for call in calls}) == len(calls)
    rowwise = all(call.inputs.shape[:-1] == logits.shape[:1] for call in calls)
    if not (once and rowwise and logits.requires_grad):
        return None
    # Only half of the samples send something back, so that rows which are not samples show, too.
    half = (len(logits) + 1) // 2
    sent = torch.zeros_like(logits)
    sent[:half] = torch.arange(1, 1 + logits.shape[1])
    ends = [*(call.output for call in calls), *map(get_gradient_edge, owned)]
    found = torch.autograd.grad(logits, ends, sent, allow_unused=True)
    used = [(call, d[:half].T) for call, d in zip(calls, found, strict=False) if d is not None]
    factored = {call.layer.module.weight: d @ call.inputs[:half] for call, d in used}
    factored |= {call.layer.module.bias: d.sum(dim=1) for call, d in used}
    exact = zip(owned, found[len(calls) :], strict=True)
    if not all(_equal(p, factored.get(p), gradient) for p, gradient in exact):
        return None
    return tuple(call.layer for call, _ in used) or None


def layer_factors(
    net: nn.Module, layers: Sequence[Layer], x: Tensor, y: Tensor, loss: Loss = cross_entropy
) -> Factors:
    """Compute the factors of n samples, x (n, ...), y (n,), by one forward and one backward."""
    logits, calls = _run(net, layers, x)
    at = split_gradients(logits.detach(), y, loss)
    deltas = torch.autograd.grad(logits, [call.output for call in calls], at.direction)
    inputs = [call.inputs for call in calls]
    norms = logits.new_zeros(len(y))
    for layer, delta, h in zip(layers, deltas, inputs, strict=True):
        length = torch.linalg.vector_norm(h, dim=1) * layer.weight
        length = torch.hypot(length, torch.full_like(length, layer.bias))
        norms = torch.hypot(norms, torch.linalg.vector_norm(delta, dim=1) * length)
    scale = torch.where(norms == 0, 0.0, 1 / norms)[:, None]
    return Factors(
        at.losses, at.length * norms, tuple(delta * scale for delta in deltas), tuple(inputs)
    )


def join(parts: Sequence[Factors]) -> Factors:
    """Put the factors of several sets of samples one after the other."""
    return Factors(
        torch.cat([part.losses for part in parts]),
        torch.cat([part.norms for part in parts]),
        tuple(map(torch.cat, zip(*(part.deltas for part in parts), strict=True))),
        tuple(map(torch.cat, zip(*(part.inputs for part in parts), strict=True))),
    )


def _run(net: nn.Module, layers: Sequence[Layer], x: Tensor) -> tuple[Tensor, list[_Call]]:
    """Return the logits, and every run of the layers in order."""
    calls: list[_Call] = []

    def record(layer: Layer, _: nn.Module, arguments: tuple[Tensor], output: Tensor) -> None:
        if output.requires_grad:
            # An edge of the graph, since an activation may overwrite the tensor in place.
            calls.append(_Call(layer, arguments[0].detach(), get_gradient_edge(output)))

    hooks = [layer.module.register_forward_hook(partial(record, layer)) for layer in layers]
    try:
        with torch.enable_grad():
            logits: Tensor = net(x)
    finally:
        for hook in hooks:
            hook.remove()
    return logits, calls


def _trained(parameter: Tensor | None) -> bool:
    return isinstance(parameter, nn.Parameter) and parameter.requires_grad


def _equal(parameter: Tensor, one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two gradients of a parameter are the same up to rounding; None stands for zero."""
    one, other = (torch.zeros_like(parameter) if g is None else g for g in (one, other))
    return bool((one - other).abs().max() <= ROUNDING * other.abs().max())
