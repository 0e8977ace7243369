"""The gradient of a whole buffer, and how the gradients of a task's samples lie to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from faircil.nets import evaluating, find_head, traits_of, with_features
from faircil.samples import Samples
from faircil.weighting.functional import FunctionalNet, functional_net
from faircil.weighting.last_layer import feature_lengths, split_gradients
from faircil.weighting.layer_factors import Factors, Layer, layer_factors, linear_layers


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


class HeadMeter(GradientMeter):
    """Measures gradients of the last linear layer, in eval mode.

    ``layers`` is None as for nets whose layers are not all linear: what it measures is no gradient
    to train by.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...)
        Inputs; one of them is passed through the net.
    """

    def __init__(self, net: nn.Module, x: Tensor) -> None:
        self._net, self._head = net, find_head(net, x)
        self.layers = None

    def of_samples(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure the gradient of the cross-entropy of each sample, x (n, ...), y (n,)."""
        with evaluating(self._net):
            logits, features = with_features(self._net, self._head, x)
        at, bias = split_gradients(logits, y), self._head.bias is not None
        length = feature_lengths(features, bias)
        scale = torch.where(length == 0, 0.0, 1 / length)[:, None]
        return SampleGradients(at.length * length, (at.direction * scale,), (features,), (bias,))

    def of_sum(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure what :meth:`of_samples` does: that is less than their sum would be."""
        return self.of_samples(x, y)


def meter_of(net: nn.Module, x: Tensor, *, training: bool = False) -> GradientMeter:
    """Return what measures a net: all its layers, or the last one where it is large.

    Parameters are those of :class:`faircil.learners.gradients.GradientMeter`; for nets that
    are large see :class:`faircil.nets.NetTraits`.
    """
    if traits_of(net).large:
        return HeadMeter(net, x)
    return GradientMeter(net, x, training=training)


@dataclass(frozen=True)
class InputProducts:
    """Products ``h̃_i·h̃_j`` of the inputs of a layer that do not change while the net trains.

    Parameters
    ----------
    cross : Tensor, shape (n, m)
        Of the task's samples with those of the buffer.
    within : Tensor, shape (m, m)
        Of those of the buffer.
    """

    cross: Tensor
    within: Tensor


class BufferGradient:
    """Compares n samples of a task with the sum ``r = Σ_j g_j`` of the gradients of a buffer.

    In a layer, ``⟨g_i, r⟩ = δ_iᵀ R h̃_i`` and ``‖r‖ = ‖R‖`` with the matrix ``R = Σ_j δ_j h̃_jᵀ``, or
    ``Σ_j (δ_i·δ_j)(h̃_i·h̃_j)`` and ``Σ_jk (δ_j·δ_k)(h̃_j·h̃_k)``. The first layer of most nets sees
    the samples themselves: its products of inputs are made once, which saves the largest matrix.

    Parameters
    ----------
    meter : GradientMeter
    memory : Samples
        m of them.
    current : Samples
        Training data of the task, n of them.
    """

    def __init__(self, meter: GradientMeter, memory: Samples, current: Samples) -> None:
        self._meter, self._memory = meter, memory
        self._products = tuple(
            InputProducts(current.x.flatten(1) @ h.T + bias, h @ h.T + bias)
            if self._unchanging(h)
            else None
            for _, h, bias in self.measure()
        )

    def _unchanging(self, h: Tensor) -> bool:
        """Whether the input of a layer, (m, in), is the samples themselves, and m is small."""
        x = self._memory.x
        same = h.data_ptr() == x.data_ptr() and h.shape == (len(x), x[0].numel())
        return same and 2 * len(x) < h.shape[1]  # then products are smaller than the data

    def measure(self) -> SampleGradients:
        """Return the gradients of the buffer with the net as it is; or one row, their sum."""
        return self._meter.of_sum(self._memory.x, self._memory.y)

    def cosines(self, memory: SampleGradients, batch: SampleGradients, rows: Tensor) -> Tensor:
        """Return ``cos(g_i, r)``, (b,), of b samples; 0 where a gradient vanishes.

        Parameters
        ----------
        memory : SampleGradients
            What :meth:`measure` gave.
        batch : SampleGradients
            Of the b samples.
        rows : Tensor of int64, shape (b,)
            Their rows in the task.
        """
        # Only the direction of r matters: with 1 as the largest norm no square underflows.
        share = (memory.norms / memory.norms.max().clamp(min=1e-37))[:, None]
        inner, square = batch.norms.new_zeros(len(rows)), batch.norms.new_zeros(())
        for (delta, h, bias), (old_delta, old_h, _), products in zip(
            batch, memory, self._products, strict=True
        ):
            old_delta = old_delta * share
            if products is not None:
                cross = products.cross.index_select(0, rows)
                inner += torch.linalg.vecdot(delta @ old_delta.T, cross)
                # By rows first: a sum over all would depend on the number of threads.
                square += torch.linalg.vecdot(old_delta @ old_delta.T, products.within).sum()
                continue
            matrix = old_delta.T @ old_h
            inner += torch.linalg.vecdot(h @ matrix.T, delta)
            square += matrix.square().sum(dim=1).sum()
            if bias:
                column = old_delta.sum(dim=0)
                inner += delta @ column
                square += column.square().sum()
        return torch.where(square <= 0, 0.0, inner / square.clamp(min=0).sqrt())
