"""What the gradients of all layers tell about the groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from faircil.errors import DataError, raise_all
from faircil.nets import evaluating
from faircil.samples import Samples
from faircil.weighting.functional import ForwardMode, forward_mode, functional_net
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.last_layer import mean_losses, missing_outputs
from faircil.weighting.layer_factors import factored_cosines, linear_layers
from faircil.weighting.losses import LossFunction, cross_entropy


@dataclass(frozen=True)
class AllLayerStatistics:
    """Statistics of G groups and n samples whose alignment may be with combinations of groups.

    Parameters
    ----------
    losses : ndarray, shape (G,)
        Mean loss of each group.
    alignment : ndarray, shape (G, n) or (B, n)
        Cosines with the groups; with ``combine``, that matrix times the cosines.
    progress : callable
        From weights of the samples, (n,), to cosines with the groups weighted and added up, (G,);
        to be called before the net changes.
    """

    losses: Floats
    alignment: Floats
    progress: Callable[[Floats], Floats]


def all_layer_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    combine: Floats | None = None,
    loss: LossFunction = cross_entropy,
) -> AllLayerStatistics:
    """Measure all groups with the net as it is, by the gradients of all trained parameters.

    Parameters
    ----------
    net : Module
        Any classifier that returns logits; each row of them depends on its own input only.
    current, memory : Samples
        The task's training data, n samples, and the buffer.
    membership : Membership
        G groups.
    combine : ndarray, shape (B, G), optional
        Rows of a program: combinations of the groups' unit gradients that are wanted instead of
        the groups. Fewer rows than groups cost less where a row costs a forward-mode product.
    loss : callable
    """
    if memory is not None:
        kept = torch.nonzero(membership.memory >= 0).squeeze(1)
        membership = replace(membership, memory=membership.memory[kept])
        memory = memory.take(kept) if len(kept) else None
    with evaluating(net):
        _check_net(net, current.x, membership)
        layers = linear_layers(net, current.x)
        if layers is not None:
            sums, products = factored_cosines(net, layers, current, memory, membership, loss)
        else:
            function = functional_net(net, current.x)
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


def _backward(net: nn.Module, mode: ForwardMode, weights: Floats) -> Floats:
    """Return what weights of the samples, (n,), do to each group, (G,), by a backward pass."""
    with evaluating(net):
        return _array(mode.progress(torch.from_numpy(weights).to(mode.directions)))


def _check_net(net: nn.Module, x: Tensor, membership: Membership) -> None:
    """Raise an error if the net has nothing to train, no logits, or too few of them."""
    logits = net(x[:1])
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
        mistakes += missing_outputs(logits.shape[1], membership)
    raise_all(mistakes, DataError)


def _array(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array
