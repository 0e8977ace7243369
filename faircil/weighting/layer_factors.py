"""Gradients of samples and groups for nets of linear layers, which are outer products.

Where a layer ``o_l = W_l h_l + b_l`` runs once, on one row per sample, the gradient of sample i
with respect to ``[b_l W_l]`` is ``δ_li h̃_liᵀ``, with δ the gradient at the layer's output and
``h̃ = [1; h]`` its input. One backward pass that ends at the outputs gives δ of all layers and
samples without the gradient of a single parameter, and ``‖∇ℓ_i‖² = Σ_l ‖δ_li‖² ‖h̃_li‖²``.

The gradient of a group is a matrix per layer, ``V_l = Σ_j δ_lj h̃_ljᵀ`` over its samples, and its
product with sample i is ``Σ_l δ_liᵀ V_l h̃_li``. If the buffer holds few samples of an old group,
the same sum costs less in another order, ``Σ_l Σ_j (δ_li·δ_lj)(h̃_li·h̃_lj)``: in + out numbers for
each of the group's samples instead of in × out.

A convolution has a row of δ and h for each position in an image, and the gradient of a sample is
the sum over positions, ``Σ_p δ_lip h_lipᵀ``. Its filters are small, so this matrix is computed
explicitly. As a vector, it too is an outer product, with an h̃ of just the 1: the convolution
counts as a layer with as many outputs as it has parameters, of which only the bias is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.functional import unfold

from faircil.compute import chunks_of
from faircil.samples import Inputs, rows_of
from faircil.weighting.any_data import PROBE
from faircil.weighting.any_net import precise, rounding
from faircil.weighting.last_layer import split_gradients
from faircil.weighting.losses import LossFunction, cross_entropy

ROUNDING = 1e-3  # relative difference between factors and autograd that counts as rounding
IN_CACHE = 16  # images whose patches are extracted at once


@dataclass(frozen=True)
class Layer:
    """A linear layer, or a convolution seen as one.

    Parameters
    ----------
    module : Linear or Conv2d
    weight, bias : bool
        Whether h̃ includes the input and the constant 1, that is, what is trained.
    outputs, inputs : int
        Lengths of δ and of h.
    """

    module: nn.Linear | nn.Conv2d
    weight: bool
    bias: bool
    outputs: int
    inputs: int

    @property
    def columns(self) -> int:
        """Length of h̃."""
        return self.bias + self.weight * self.inputs

    @property
    def trained(self) -> list[Tensor]:
        """The trained parameters."""
        return [p for p in (self.module.weight, self.module.bias) if p is not None and _trained(p)]

    def rowwise(self, h: Tensor, n: int) -> bool:
        """Whether an input has one row for each of n samples."""
        return h.shape[:-1] == (n,)

    def factors(self, h: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Return δ, (n, outputs), and h, (n, inputs), from input and output gradient."""
        return delta.to(precise(delta.dtype)), h.to(precise(h.dtype))

    def sums(self, delta: Tensor, h: Tensor) -> list[Tensor]:
        """Return the gradient of each trained parameter, summed over samples."""
        weight = [delta.T @ h] if self.weight else []
        return [*weight, delta.sum(dim=0)] if self.bias else weight


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution, where δ is the gradient of the trained parameters."""

    module: nn.Conv2d

    def rowwise(self, h: Tensor, n: int) -> bool:
        """Whether an input has one image for each of n samples."""
        return h.ndim == 4 and len(h) == n

    def factors(self, h: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of each sample, summed over positions, and an h without columns."""
        conv, padding, parts = self.module, self.module.padding, []
        delta, h = super().factors(h, delta)
        assert not isinstance(padding, str)  # such modules are not converted to layers
        for rows in chunks_of(len(h), IN_CACHE):
            patches = unfold(h[rows], conv.kernel_size, conv.dilation, padding, conv.stride)
            at = delta[rows].flatten(2)
            sums = [at @ patches.mT if p is conv.weight else at.sum(dim=2) for p in self.trained]
            parts.append(torch.cat([part.flatten(1) for part in sums], dim=1))
        return torch.cat(parts) if parts else h.new_zeros(0, self.outputs), h.new_zeros(len(h), 0)

    def sums(self, delta: Tensor, h: Tensor) -> list[Tensor]:
        """Return the gradient of each trained parameter, summed over samples."""
        del h
        parts = torch.split(delta.sum(dim=0), [p.numel() for p in self.trained])
        return [part.view_as(p) for part, p in zip(parts, self.trained, strict=True)]


def as_layer(module: nn.Module) -> Layer | None:
    """Return the layer of a module whose gradients can be factored; None for other modules."""
    if type(module) is nn.Linear:
        parts = _trained(module.weight), _trained(module.bias)
        return Layer(module, *parts, module.out_features, module.in_features)
    if type(module) is nn.Conv2d:
        trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
        named = isinstance(module.padding, str)  # such as "same"
        plain = not named and module.padding_mode == "zeros" and module.groups == 1
        return Convolution(module, False, True, trained, 0) if plain else None
    return None


@dataclass(frozen=True)
class Factors:
    """Losses and unit gradients of n samples.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    norms : Tensor, shape (n,)
        ``‖∇ℓ_i‖``.
    deltas : tuple of Tensor, shapes (n, out)
        For each layer, scaled so that ``δ_li h̃_liᵀ`` over all layers has norm 1, or is zero.
    inputs : tuple of Tensor, shapes (n, in)
        For each layer, without the constant 1.
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
    """A call of a layer: its input, (n, in), and the graph node of its output."""

    layer: Layer
    inputs: Tensor
    output: GradientEdge


def linear_layers(net: nn.Module, x: Inputs) -> tuple[Layer, ...] | None:
    """Return the layers of a net if all its gradients can be factored; otherwise None.

    Parameters
    ----------
    net : Module
        In eval mode.
    x : Tensor, shape (n, ...)
        Inputs; a few of them are passed through the net. The modules do not show how the forward
        pass uses their weights, so the factors are compared with autograd's gradient.
    """
    layers = [layer for module in net.modules() if (layer := as_layer(module)) and layer.trained]
    owned = [p for layer in layers for p in layer.trained]
    if sorted(map(id, owned)) != sorted(id(p) for p in net.parameters() if p.requires_grad):
        return None  # other parameters are trained, or two layers share one
    logits, calls = _run(net, layers, rows_of(x, slice(PROBE)))
    once = len({call.layer for call in calls}) == len(calls)
    rowwise = all(call.layer.rowwise(call.inputs, len(logits)) for call in calls)
    if not (once and rowwise and logits.requires_grad):
        return None
    # Only half of the samples have a gradient, which reveals rows that are not samples.
    half = (len(logits) + 1) // 2
    sent = torch.zeros_like(logits)
    sent[:half] = torch.arange(1, 1 + logits.shape[1])
    ends = [*(call.output for call in calls), *map(get_gradient_edge, owned)]
    found = torch.autograd.grad(logits, ends, sent, allow_unused=True)
    used = [(call, d[:half]) for call, d in zip(calls, found, strict=False) if d is not None]
    factored: dict[Tensor, Tensor] = {}
    for call, d in used:
        layer = call.layer
        sums = layer.sums(*layer.factors(call.inputs[:half], d))
        factored |= zip(layer.trained, sums, strict=True)
    exact = zip(owned, found[len(calls) :], strict=True)
    near = max(ROUNDING, 4 * rounding(logits, *owned))
    if not all(_equal(p, factored.get(p), gradient, near) for p, gradient in exact):
        return None
    return tuple(call.layer for call, _ in used) or None


def layer_factors(
    net: nn.Module,
    layers: Sequence[Layer],
    x: Inputs,
    y: Tensor,
    loss: LossFunction = cross_entropy,
) -> Factors:
    """Compute the factors of n samples, x (n, ...), y (n,), in one forward-backward pass."""
    logits, calls = _run(net, layers, x)
    at = split_gradients(logits.detach(), y, loss)
    sent = at.direction.to(logits.dtype)
    found = torch.autograd.grad(logits, [call.output for call in calls], sent)
    factors = [call.layer.factors(call.inputs, d) for call, d in zip(calls, found, strict=True)]
    deltas, inputs = zip(*factors, strict=True)
    norms = at.length.new_zeros(len(y))
    for layer, delta, h in zip(layers, deltas, inputs, strict=True):
        length = torch.linalg.vector_norm(h, dim=1) * layer.weight
        length = torch.hypot(length, torch.full_like(length, layer.bias))
        norms = torch.hypot(norms, torch.linalg.vector_norm(delta, dim=1) * length)
    scale = torch.where(norms == 0, 0.0, 1 / norms)[:, None]
    return Factors(at.losses, at.length * norms, tuple(delta * scale for delta in deltas), inputs)


def join(parts: Sequence[Factors]) -> Factors:
    """Concatenate the factors of several sets of samples."""
    return Factors(
        torch.cat([part.losses for part in parts]),
        torch.cat([part.norms for part in parts]),
        tuple(map(torch.cat, zip(*(part.deltas for part in parts), strict=True))),
        tuple(map(torch.cat, zip(*(part.inputs for part in parts), strict=True))),
    )


def _run(net: nn.Module, layers: Sequence[Layer], x: Inputs) -> tuple[Tensor, list[_Call]]:
    """Return the logits, and all calls of the layers in order."""
    calls: list[_Call] = []

    def record(layer: Layer, _: nn.Module, arguments: tuple[Tensor], output: Tensor) -> None:
        if output.requires_grad:
            # Keep the graph node: an activation may overwrite the tensor in place.
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


def _equal(parameter: Tensor, one: Tensor | None, other: Tensor | None, near: float) -> bool:
    """Whether two gradients of a parameter are equal up to rounding; None means zero."""
    one, other = (torch.zeros_like(parameter) if g is None else g for g in (one, other))
    return bool((one - other).abs().max() <= near * other.abs().max())


@dataclass(frozen=True)
class Directions:
    """Unit gradients of G groups: B of them as matrices, the others as factors of m samples.

    Parameters
    ----------
    layers : sequence of Layer
    groups : Tensor of int64, shape (B,)
        Groups stored as matrices.
    matrices : sequence of Tensor, shapes (B, out, columns)
        For each layer.
    few : Factors
        Factors of the samples of all other groups.
    shares : Tensor, shape (m, G)
        Coefficient of each of these samples in the unit gradient of each group.
    """

    layers: Sequence[Layer]
    groups: Tensor
    matrices: Sequence[Tensor]
    few: Factors
    shares: Tensor

    def products(self, factors: Factors) -> Tensor:
        """Return the products with the unit gradients of n samples, (n, G)."""
        n = len(factors.norms)
        product = self.shares.new_zeros(n, len(self.groups))
        kernel = self.shares.new_zeros(n, len(self.shares))
        parts = zip(factors.deltas, factors.inputs, self.few.deltas, self.few.inputs, strict=True)
        for layer, matrix, (delta, h, few_delta, few_h) in zip(
            self.layers, self.matrices, parts, strict=True
        ):
            inner, bias = delta @ few_delta.T, int(layer.bias)
            if layer.weight:
                inner *= (h @ few_h.T).add_(bias)
                outputs = h @ matrix[:, :, bias:].flatten(0, 1).T
                product += torch.linalg.vecdot(outputs.view(n, *matrix.shape[:2]), delta[:, None])
            if layer.bias:
                product += delta @ matrix[:, :, 0].T
            kernel += inner
        return (kernel @ self.shares).index_add_(1, self.groups, product)


class GroupGradients:
    """Gradients of G groups, accumulated chunk by chunk.

    Parameters
    ----------
    layers : sequence of Layer
    size : Tensor of int64, shape (G,)
        Number of samples of each group.
    """

    def __init__(self, layers: Sequence[Layer], size: Tensor) -> None:
        shapes = [(layer.outputs, layer.columns) for layer in layers]
        parameters = sum(out * columns for out, columns in shapes)
        self._layers = layers
        weight = layers[0].module.weight
        self._sums = weight.new_zeros(len(size), parameters, dtype=precise(weight.dtype))
        self._matrices = _by_layer(self._sums, layers)
        self._is_few = size * sum(map(sum, shapes)) < parameters
        self._few: list[tuple[Tensor, Factors]] = []
        self.losses = torch.zeros(len(size), dtype=torch.float64, device=size.device)

    def add(self, group: Tensor, factors: Factors) -> None:
        """Add samples, (n,), sorted by group; those with a negative group are ignored."""
        present, sizes = torch.unique_consecutive(group, return_counts=True)
        end = 0
        for g, size in zip(present.tolist(), sizes.tolist(), strict=True):
            rows, end = slice(end, end + size), end + size
            if g >= 0:
                self._add(g, factors.take(rows))
                self.losses[g] += factors.losses[rows].double().sum()
        few = torch.nonzero((group >= 0) & self._is_few[group]).squeeze(1)
        self._few.append((group[few], factors.take(few)))

    def _add(self, g: int, members: Factors) -> None:
        for layer, matrix, delta, h in zip(
            self._layers, self._matrices, members.deltas, members.inputs, strict=True
        ):
            scaled = (delta * members.norms[:, None]).T
            if layer.weight:
                matrix[g, :, int(layer.bias) :].addmm_(scaled, h)
            if layer.bias:
                matrix[g, :, 0] += scaled.sum(dim=1)

    def directions(self) -> Directions:
        """Return the gradients scaled to norm 1; a zero gradient stays zero."""
        # In float64, squares of tiny gradients do not underflow; row by row, it needs little
        # memory.
        length = torch.stack([row.double().norm() for row in self._sums])
        scale = torch.where(length == 0, 0.0, 1 / length)
        group = torch.cat([group for group, _ in self._few])
        few = join([factors for _, factors in self._few])
        shares = self._sums.new_zeros(len(group), len(length))
        share = (few.norms * scale[group]).to(shares)
        shares.scatter_(1, group[:, None], share[:, None])
        groups = torch.nonzero(~self._is_few).squeeze(1)
        unit = (self._sums.index_select(0, groups) * scale[groups, None]).to(shares)
        return Directions(self._layers, groups, _by_layer(unit, self._layers), few, shares)


def _by_layer(flat: Tensor, layers: Sequence[Layer]) -> list[Tensor]:
    """View rows of all parameters, (B, parameters), as one matrix per layer, (B, out, columns)."""
    shapes = [(layer.outputs, layer.columns) for layer in layers]
    parts = torch.split(flat, [out * columns for out, columns in shapes], dim=1)
    return [part.view(len(flat), *shape) for part, shape in zip(parts, shapes, strict=True)]
