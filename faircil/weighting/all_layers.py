"""Group statistics from the gradients of all layers.

If the gradients are outer products, one pass over all samples gives the gradients of the groups and
a second one the cosines with them, see ``layer_factors``; for any other net, see ``functional``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from faircil.compute import CHUNK
from faircil.errors import DataError, raise_all
from faircil.nets import evaluating, first_output
from faircil.samples import Inputs, Samples, rows_of
from faircil.weighting.any_data import Stream, some_inputs
from faircil.weighting.any_net import rounding
from faircil.weighting.functional import ForwardMode, forward_mode, functional_net
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.last_layer import mean_losses, missing_outputs
from faircil.weighting.layer_factors import (
    Factors,
    GroupGradients,
    Layer,
    layer_factors,
    linear_layers,
)
from faircil.weighting.losses import LossFunction, cross_entropy

KEPT = 2**27  # numbers cached between the two passes; beyond that, factors are recomputed
IMAGES = 256  # rows per pass with convolutions, whose inputs are large


@dataclass(frozen=True)
class AllLayerStatistics:
    """Statistics of G groups and n samples; alignments may be with combinations of groups.

    Parameters
    ----------
    losses : ndarray, shape (G,)
        Mean loss of each group.
    alignment : ndarray, shape (G, n) or (B, n)
        Cosines with the groups; with ``combine``, that matrix times the cosines.
    progress : callable
        Maps sample weights, (n,), to the weighted sums of cosines with the groups, (G,); valid
        until the net changes.
    """

    losses: Floats
    alignment: Floats
    progress: Callable[[Floats], Floats]


def all_layer_statistics(
    net: nn.Module,
    current: Samples | Stream,
    memory: Samples | Stream | None,
    membership: Membership,
    combine: Floats | None = None,
    loss: LossFunction = cross_entropy,
) -> AllLayerStatistics:
    """Compute statistics of all groups from the gradients of all trained parameters.

    Parameters
    ----------
    net : Module
        Any classifier that returns logits; each row must depend only on its own input.
    current, memory : Samples or Stream
        The task's training data, n samples, and the buffer.
    membership : Membership
        G groups.
    combine : ndarray, shape (B, G), optional
        Rows of a program: combinations of the groups' unit gradients to use instead of the
        groups. Fewer rows take less time if each requires a forward-mode product.
    loss : callable
    """
    if isinstance(memory, Samples):
        kept = torch.nonzero(membership.memory >= 0).squeeze(1)
        membership = replace(membership, memory=membership.memory[kept])
        memory = memory.take(kept) if len(kept) else None
    with evaluating(net):
        some = some_inputs(current)
        _check_net(net, some, membership)
        layers = linear_layers(net, some)
        if layers is not None:
            sums, products = factored_cosines(net, layers, current, memory, membership, loss)
        else:
            function = functional_net(net, some)
            mode = forward_mode(function, current, memory, membership, loss)
            sums = mode.losses
            if combine is not None and len(combine) < len(sums):
                products = mode.products(torch.from_numpy(combine).to(mode.directions))
                progress = partial(_backward, net, mode)
                losses = mean_losses(sums, membership)
                return AllLayerStatistics(losses, _array(products), progress)
            products = mode.products()
    cosines = _array(products)
    alignment = cosines if combine is None else combine @ cosines
    return AllLayerStatistics(mean_losses(sums, membership), alignment, cosines.__matmul__)


def factored_cosines(
    net: nn.Module,
    layers: Sequence[Layer],
    current: Samples | Stream,
    memory: Samples | Stream | None,
    membership: Membership,
    loss: LossFunction = cross_entropy,
) -> tuple[Tensor, Tensor]:
    """Compute the cosines of all current samples with all groups.

    Parameters
    ----------
    net : Module
        In eval mode.
    layers : sequence of Layer
        See :func:`~faircil.weighting.layer_factors.linear_layers`.
    current, memory : Samples or Stream
        n and m samples.
    membership : Membership
        G groups.
    loss : callable

    Returns
    -------
    losses : Tensor of float64, shape (G,)
        Summed within groups.
    cosines : Tensor, shape (G, n)
    """
    size = torch.from_numpy(membership.groups.size).to(membership.current.device)
    gradients = GroupGradients(layers, size)
    if memory is not None:
        for rows, factors in _chunks(net, layers, memory, membership.memory, loss):
            gradients.add(membership.memory[rows], factors)
    numbers = sum(layer.inputs + layer.outputs for layer in layers)
    keeps = len(current) * numbers <= KEPT
    kept: list[tuple[Tensor, Factors]] = []
    for rows, factors in _chunks(net, layers, current, membership.current, loss):
        gradients.add(membership.current[rows], factors)
        if keeps:
            kept.append((rows, factors))
    directions = gradients.directions()
    cosines = directions.shares.new_empty(len(size), len(current))
    again = _chunks(net, layers, current, membership.current, loss)
    for rows, factors in kept if keeps else again:
        cosines[:, rows] = directions.products(factors).T
    return gradients.losses, cosines


def _chunks(
    net: nn.Module,
    layers: Sequence[Layer],
    samples: Samples | Stream,
    group: Tensor,
    loss: LossFunction,
) -> Iterator[tuple[Tensor, Factors]]:
    """Yield the rows of samples, sorted by group, and their factors.

    A stream is sorted within each of its batches.
    """
    size = CHUNK if all(layer.inputs for layer in layers) else IMAGES
    if isinstance(samples, Stream):
        for part in samples.parts(size):
            order = torch.argsort(group[part.rows], stable=True)
            factors = layer_factors(net, layers, rows_of(part.x, order), part.y[order], loss)
            yield part.rows.start + order, factors
        return
    for rows in torch.split(torch.argsort(group, stable=True), size):
        taken = samples.take(rows)
        yield rows, layer_factors(net, layers, taken.x, taken.y, loss)


def _backward(net: nn.Module, mode: ForwardMode, weights: Floats) -> Floats:
    """Return the progress of each group, (G,), for sample weights, (n,), by a backward pass."""
    with evaluating(net):
        return _array(mode.progress(torch.from_numpy(weights).to(mode.directions)))


def _check_net(net: nn.Module, x: Inputs, membership: Membership) -> None:
    """Raise an error if the net has no trained parameters, no logits, or too few of them."""
    logits = first_output(net, x)
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    mistakes = []
    if not any(p.requires_grad for p in net.parameters()):
        mistakes.append(
            "no parameter of the net is trained (requires_grad), so its loss has no gradient"
        )
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        mistakes.append(
            f"the net returned {shape} for one sample, expected logits of shape (1, classes)"
        )
    else:
        mistakes += missing_outputs(logits.shape[1], membership.groups.label)
        if (logits >= 0).all() and (logits.double().sum() - 1).abs() <= 2 * rounding(logits):
            mistakes.append(
                "the net returned probabilities, expected logits; leave the softmax at its end "
                "out, or pass logits=, a function of the net and its inputs that returns them"
            )
    raise_all(mistakes, DataError)


def _array(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array
