"""How the gradients of samples lie to each other, for all trained parameters of the net.

In a linear layer the gradient of sample i is an outer product, ``δ_i h̃_iᵀ`` with ``h̃ = [1; h]``, so
``⟨g_i, g_j⟩ = Σ_layers (δ_i·δ_j)(h_i·h_j + 1)``: one forward and backward pass over all samples and
a few small products, and no gradient is ever written out. Nets with other layers go through
``torch.func``; a written-out gradient is an outer product, too, with an h̃ that is just the 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from faircil.weighting.all_layers.factors import Factors, Layer, layer_factors, linear_layers
from faircil.weighting.all_layers.functional import FunctionalNet, functional_net
from faircil.weighting.all_layers.logits import split_gradients
from faircil.weighting.head import evaluating


@dataclass(frozen=True)
class SampleGradients:
    """Gradients of n samples, as unit vectors and lengths.

    Parameters
    ----------
    norms : Tensor, shape (n,)
        Their lengths.
    deltas : tuple of Tensor, shapes (n, out)
        Of each layer; ``δ_i h̃_iᵀ`` over all layers has length 1, or is zero.
    inputs : tuple of Tensor, shapes (n, in)
        Of each layer, without the constant 1; in = 0 where its weight is not trained.
    biases : tuple of bool
        Whether h̃ of a layer has the constant.
    """

    norms: Tensor
    deltas: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    biases: tuple[bool, ...]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Go through the layers."""
        return zip(self.deltas, self.inputs, self.biases, strict=True)

    def gram(self) -> Tensor:
        """Return the cosine of each gradient with each, (n, n); 0 where one vanishes."""
        return sum(
            ((delta @ delta.T) * (h @ h.T).add_(bias) for delta, h, bias in self),
            start=self.norms.new_zeros(()),
        )


class GradientMeter:
    """Measures gradients of a net while it trains; made once per task, since it tries the net out.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...)
        Inputs, a few of which are passed through the net.
    training : bool
        Whether to measure the net in training mode where that can be done, that is where its
        layers are linear and do not mix samples; otherwise it is measured in eval mode.
    """

    def __init__(self, net: nn.Module, x: Tensor, *, training: bool = False) -> None:
        self._net = net
        with evaluating(net):
            self.layers = linear_layers(net, x)
            if training and linear_layers(deepcopy(net).train(), x) is None:
                self.layers = None  # such as batch normalisation, which is linear in eval mode only
            self._kind = FunctionalNet if self.layers is not None else type(functional_net(net, x))
        self._training = training and self.layers is not None

    def of_samples(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure the gradient of the cross-entropy of each sample, x (n, ...), y (n,)."""
        if self._training:
            self._net.train()
        with nullcontext() if self._training else evaluating(self._net):
            if self.layers is not None:
                return _from_factors(layer_factors(self._net, self.layers, x, y), self.layers)
            net = self._kind(self._net)
            at = split_gradients(net.logits(x), y)
            return _from_vectors(net.gradients(x, at.direction), at.length)

    def of_sum(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure what :meth:`of_samples` does, or else their sum as if it were one sample."""
        if self.layers is not None:
            return self.of_samples(x, y)
        with evaluating(self._net):
            net = self._kind(self._net)
            at = split_gradients(net.logits(x), y)
            total = net.total(x, at.direction * at.length[:, None])[None]
            return _from_vectors(net.split(total), total.new_ones(1))

    def write(self, parts: Sequence[tuple[SampleGradients, Tensor, Tensor]]) -> None:
        """Make a sum of gradients the gradient of the net's parameters; there must be layers.

        Parameters
        ----------
        parts : sequence of (gradients, rows, coefficients)
            Which samples, (k,), and what each one's gradient counts, (k,).
        """
        assert self.layers is not None
        for number, layer in enumerate(self.layers):
            deltas, inputs = [], []
            for gradients, rows, coefficient in parts:
                scale = (coefficient * gradients.norms[rows])[:, None]
                deltas.append(gradients.deltas[number].index_select(0, rows) * scale)
                inputs.append(gradients.inputs[number].index_select(0, rows))
            delta = torch.cat(deltas)
            if layer.weight:
                layer.module.weight.grad = delta.T @ torch.cat(inputs)
            if layer.bias:
                layer.module.bias.grad = delta.sum(dim=0)


def cosines(gram: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return the cosines, (p, q), of linear combinations of n gradients.

    Parameters
    ----------
    gram : Tensor, shape (n, n)
        Products of the unit gradients.
    one, other : Tensor, shapes (p, n) and (q, n)
        Coefficients; of a mean of gradients, their norms. Zeros give the cosine 0.
    """
    # Only ratios matter: with 1 as the largest, squares of tiny coefficients do not underflow.
    one, other = (
        row / row.abs().amax(dim=1, keepdim=True).clamp(min=1e-37) for row in (one, other)
    )
    images = one @ gram
    squares = torch.linalg.vecdot(images, one)[:, None] * torch.linalg.vecdot(other @ gram, other)
    return torch.where(squares <= 0, 0.0, images @ other.T / squares.clamp(min=0).sqrt())


def _from_factors(factors: Factors, layers: tuple[Layer, ...]) -> SampleGradients:
    return SampleGradients(
        factors.norms,
        factors.deltas,
        tuple(h if at.weight else h[:, :0] for h, at in zip(factors.inputs, layers, strict=True)),
        tuple(layer.bias for layer in layers),
    )


def _from_vectors(parts: tuple[Tensor, ...], length: Tensor) -> SampleGradients:
    """Take gradients of each parameter, (n, size), times a length, (n,)."""
    norms = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
    norms = torch.linalg.vector_norm(norms, dim=0)
    scale = torch.where(norms == 0, 0.0, 1 / norms)[:, None]
    nothing = tuple(part[:, :0] for part in parts)
    units = tuple(part * scale for part in parts)
    return SampleGradients(norms * length, units, nothing, (True,) * len(parts))
