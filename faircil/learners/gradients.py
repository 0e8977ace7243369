"""Per-sample gradients of a net in training, and their cosines with the gradient of a buffer.

GSS and OCS select samples by them.

In a linear layer, the gradient of sample i is an outer product, ``δ_i h̃_iᵀ`` with ``h̃ = [1; h]``,
so ``⟨g_i, g_j⟩ = Σ_layers (δ_i·δ_j)(h_i·h_j + 1)``: it takes one forward and backward pass over all
samples and a few small products, and no gradient is materialised. Nets with other layers go through
``torch.func``; a materialised gradient is an outer product, too, with an h̃ of just the 1.

For a pre-trained encoder, each sample's gradient is as large as the encoder and takes a separate
backward pass. The gradient of the last layer is ``δ_i h̃_iᵀ``, with δ the gradient at the logits
and ``h̃`` the features and a 1: one pass without gradients gives those of all samples. FSW uses the
same part of the gradient in place of the whole.
"""

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
    """Gradients of n samples as norms and factored unit vectors.

    Parameters
    ----------
    norms : Tensor, shape (n,)
        Gradient norms.
    deltas : tuple of Tensor, shapes (n, out)
        For each layer; ``δ_i h̃_iᵀ`` over all layers has norm 1, or is zero.
    inputs : tuple of Tensor, shapes (n, in)
        For each layer, without the constant 1; in = 0 if its weight is not trained.
    biases : tuple of bool
        Whether h̃ of a layer includes the constant 1.
    """

    norms: Tensor
    deltas: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    biases: tuple[bool, ...]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Iterate over the layers."""
        return zip(self.deltas, self.inputs, self.biases, strict=True)

    def gram(self) -> Tensor:
        """Return the pairwise cosines of the gradients, (n, n); 0 for a zero gradient."""
        return sum(
            ((delta @ delta.T) * (h @ h.T).add_(bias) for delta, h, bias in self),
            start=self.norms.new_zeros(()),
        )


class GradientMeter:
    """Computes per-sample gradients of a net during training.

    Create it once per task: the constructor passes inputs through the net to inspect it.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...)
        Inputs; a few of them are passed through the net.
    training : bool
        Whether to use training mode if possible, that is, if all layers are linear and do not mix
        samples; otherwise eval mode is used.
    """

    def __init__(self, net: nn.Module, x: Tensor, *, training: bool = False) -> None:
        self._net = net
        with evaluating(net):
            self.layers = linear_layers(net, x)
            if training and linear_layers(deepcopy(net).train(), x) is None:
                self.layers = None  # such as batch normalisation, linear only in eval mode
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
        """Return :meth:`of_samples` if cheap, else the summed gradient as a single row."""
        if self.layers is not None:
            return self.of_samples(x, y)
        with evaluating(self._net):
            net = self._kind(self._net)
            at = split_gradients(net.logits(x), y)
            total = net.total(x, at.direction * at.length[:, None])[None]
            return _from_vectors(net.split(total), total.new_ones(1))

    def write(self, parts: Sequence[tuple[SampleGradients, Tensor, Tensor]]) -> None:
        """Write a weighted sum of gradients to the parameters' ``grad``; needs factored layers.

        Parameters
        ----------
        parts : sequence of (gradients, rows, coefficients)
            Row indices, (k,), and the coefficient of each gradient, (k,).
        """
        assert self.layers is not None
        for number, layer in enumerate(self.layers):
            deltas, inputs = [], []
            for gradients, rows, coefficient in parts:
                scale = (coefficient * gradients.norms[rows])[:, None]
                deltas.append(gradients.deltas[number].index_select(0, rows) * scale)
                inputs.append(gradients.inputs[number].index_select(0, rows))
            sums = layer.sums(torch.cat(deltas), torch.cat(inputs))
            for parameter, total in zip(layer.trained, sums, strict=True):
                parameter.grad = total


def cosines(gram: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return the cosines, (p, q), of linear combinations of n gradients.

    Parameters
    ----------
    gram : Tensor, shape (n, n)
        Products of the unit gradients.
    one, other : Tensor, shapes (p, n) and (q, n)
        Coefficients; for a mean of gradients, their norms. Zeros give cosine 0.
    """
    # Only ratios matter: scaled to maximum 1, squares of tiny coefficients do not underflow.
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
    """Build from gradients of each parameter, (n, size), times a length, (n,)."""
    norms = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
    norms = torch.linalg.vector_norm(norms, dim=0)
    scale = torch.where(norms == 0, 0.0, 1 / norms)[:, None]
    nothing = tuple(part[:, :0] for part in parts)
    units = tuple(part * scale for part in parts)
    return SampleGradients(norms * length, units, nothing, (True,) * len(parts))


class HeadMeter(GradientMeter):
    """Computes gradients of the last linear layer, in eval mode.

    ``layers`` is None, as for nets with other than linear layers: these gradients cannot be used
    for an update.

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
        """Return :meth:`of_samples`, which takes less memory than the sum."""
        return self.of_samples(x, y)


def meter_of(net: nn.Module, x: Tensor, *, training: bool = False) -> GradientMeter:
    """Return the meter of a net: of all layers, or of the last one if the net is large.

    Parameters as for :class:`faircil.learners.gradients.GradientMeter`; for large nets see
    :class:`faircil.nets.NetTraits`.
    """
    if traits_of(net).large:
        return HeadMeter(net, x)
    return GradientMeter(net, x, training=training)


@dataclass(frozen=True)
class InputProducts:
    """Products ``h̃_i·h̃_j`` of layer inputs that stay constant during training.

    Parameters
    ----------
    cross : Tensor, shape (n, m)
        Task samples times buffer samples.
    within : Tensor, shape (m, m)
        Buffer samples times buffer samples.
    """

    cross: Tensor
    within: Tensor


class BufferGradient:
    """Computes cosines of n task samples with the gradient sum ``r = Σ_j g_j`` of a buffer.

    In a layer, ``⟨g_i, r⟩ = δ_iᵀ R h̃_i`` and ``‖r‖ = ‖R‖`` with the matrix ``R = Σ_j δ_j h̃_jᵀ``, or
    ``Σ_j (δ_i·δ_j)(h̃_i·h̃_j)`` and ``Σ_jk (δ_j·δ_k)(h̃_j·h̃_k)``. The inputs of the
    first layer are usually the samples themselves; their products are computed once, which avoids
    the largest matrix.

    Parameters
    ----------
    meter : GradientMeter
    memory : Samples
        m samples.
    current : Samples
        Training data of the task, n samples.
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
        return same and 2 * len(x) < h.shape[1]  # then the products are smaller than the data

    def measure(self) -> SampleGradients:
        """Return the buffer's gradients under the current net, or one row with their sum."""
        return self._meter.of_sum(self._memory.x, self._memory.y)

    def cosines(self, memory: SampleGradients, batch: SampleGradients, rows: Tensor) -> Tensor:
        """Return ``cos(g_i, r)``, (b,), of b samples; 0 for a zero gradient.

        Parameters
        ----------
        memory : SampleGradients
            Result of :meth:`measure`.
        batch : SampleGradients
            Gradients of the b samples.
        rows : Tensor of int64, shape (b,)
            Their rows in the task.
        """
        # Only the direction of r matters: scaled to maximum norm 1, no square underflows.
        share = (memory.norms / memory.norms.max().clamp(min=1e-37))[:, None]
        inner, square = batch.norms.new_zeros(len(rows)), batch.norms.new_zeros(())
        for (delta, h, bias), (old_delta, old_h, _), products in zip(
            batch, memory, self._products, strict=True
        ):
            old_delta = old_delta * share
            if products is not None:
                cross = products.cross.index_select(0, rows)
                inner += torch.linalg.vecdot(delta @ old_delta.T, cross)
                # Row sums first: one sum over all entries would depend on the number of threads.
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
