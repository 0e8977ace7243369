"""Last-layer gradients as factors: never a matrix with a row per sample and a column per weight.

For logits ``o = W h + b`` the loss gradient of sample i with respect to ``[b W]`` is the outer
product ``δ_i h̃_iᵀ`` with δ_i the gradient at the logits, ``softmax(o_i) − onehot(y_i)`` for the
cross-entropy (see :mod:`faircil.weighting.losses`), and ``h̃_i = [1; h_i]`` (``h̃ = h`` for a head
without bias). Two consequences carry the whole package:

- the mean gradient of a group is one small matrix product, ``Ḡ_g = Δ_gᵀ H̃_g / n_g``;
- the cosine of a sample with a group needs no outer product either,
  ``cos(i, g) = δ_iᵀ (Ḡ_g/‖Ḡ_g‖) h̃_i / (‖δ_i‖ ‖h̃_i‖)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import local

import torch
from torch import Tensor, nn

from faircil.threads import chunk_size, chunks_of, map_chunks, map_tasks, thread_safe
from faircil.weighting.head import evaluating
from faircil.weighting.losses import Loss, cross_entropy


@dataclass(frozen=True)
class LastLayer:
    """Factors of the last-layer gradients of n samples.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    delta : Tensor, shape (n, classes)
        Gradient with respect to the logits.
    features : Tensor, shape (n, d)
        Input of the last layer, without the constant 1.
    bias : bool
        Whether the layer has a bias, that is, whether h̃ has the constant.
    """

    losses: Tensor
    delta: Tensor
    features: Tensor
    bias: bool


def last_layer(
    net: nn.Module, head: nn.Linear, x: Tensor, y: Tensor, loss: Loss = cross_entropy
) -> LastLayer:
    """Compute the gradient factors of all samples, x (n, ...), y (n,), in one forward pass."""
    return last_layers(net, head, [(x, y)], loss=loss)[0]


def last_layers(
    net: nn.Module,
    head: nn.Linear,
    sets: Sequence[tuple[Tensor, Tensor]],
    visit: Callable[[int, LastLayer, slice], None] = lambda *_: None,
    loss: Loss = cross_entropy,
) -> list[LastLayer]:
    """Compute the gradient factors of several sets of samples in one chunked forward pass.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.weighting.head.find_head`).
    sets : sequence of (x, y), shapes (n, ...) and (n,)
        The samples.
    visit : callable
        Called with the number of a set, its factors, and the rows of a chunk that has just been
        filled in and is still in cache. Chunks come in any order, on any thread.
    loss : Loss
    """
    results = [_empty(head, len(y)) for _, y in sets]
    size = chunk_size(head.weight.device)
    tasks = [(k, rows) for k, (_, y) in enumerate(sets) for rows in chunks_of(len(y), size)]
    place = local()  # each thread has its own chunk in hand

    def record(_: nn.Module, arguments: tuple[Tensor]) -> None:
        place.features[:] = arguments[0]

    def measure(task: tuple[int, slice]) -> None:
        number, rows = task
        (x, y), result = sets[number], results[number]
        place.features = result.features[rows]
        result.losses[rows], result.delta[rows] = loss(net(x[rows]), y[rows])
        visit(number, result, rows)

    hook = head.register_forward_pre_hook(record)
    try:
        with evaluating(net):
            map_tasks(measure, tasks, threads=thread_safe(net))
    finally:
        hook.remove()
    return results


def _empty(head: nn.Linear, n: int) -> LastLayer:
    new = head.weight.new_empty
    delta, features = new(n, head.out_features), new(n, head.in_features)
    return LastLayer(new(n), delta, features, head.bias is not None)


def cosines(factors: LastLayer, gradients: Tensor) -> Tensor:
    """Return the cosine of every sample's gradient with every group's; 0 where one vanishes.

    Parameters
    ----------
    factors : LastLayer
        Of n samples.
    gradients : Tensor, shape (groups, classes, 1 + d) or (groups, classes, d) without a bias
        Mean gradients of the groups, or any positive multiple of them.

    Returns
    -------
    Tensor, shape (groups, n)
    """
    groups, classes, _ = gradients.shape
    directions = unit_gradients(gradients)
    matrix = directions[:, :, -factors.features.shape[1] :].reshape(groups * classes, -1)
    offset = directions[:, :, 0].reshape(-1) if factors.bias else matrix.new_zeros(len(matrix))
    n, device = len(factors.delta), factors.delta.device
    result = factors.delta.new_empty(groups, n)

    def measure(rows: slice) -> None:
        delta, features = unit(factors.delta[rows]), factors.features[rows]
        # δᵀ Ĝ h̃ for all groups at once: (rows, groups·classes), then a dot product over classes.
        product = torch.addmm(offset, features, matrix.T).view(-1, groups, classes)
        inner = torch.bmm(product, delta[:, :, None]).squeeze(2)
        length = feature_lengths(features, factors.bias)
        result[:, rows] = torch.where(length == 0, 0.0, inner.T / length)

    map_chunks(measure, n, chunk_size(device), threads=device.type == "cpu")
    return result


def feature_lengths(features: Tensor, bias: bool) -> Tensor:
    """Return ``‖h̃‖`` of each row of features, (n, d): with the constant 1 if there is a bias."""
    length: Tensor = torch.linalg.vector_norm(features, dim=1)
    return torch.hypot(length, torch.ones_like(length)) if bias else length


def unit_gradients(gradients: Tensor) -> Tensor:
    """Scale every gradient, (groups, classes, …), to length 1; a zero gradient stays."""
    return unit(gradients.flatten(1)).view_as(gradients)


def unit(vectors: Tensor) -> Tensor:
    """Scale every row to length 1; a row of zeros stays."""
    # By the largest entry first: the squares of a confident sample's tiny entries would underflow.
    largest = vectors.abs().amax(dim=1, keepdim=True)
    scaled = torch.where(largest == 0, 0.0, vectors / largest)
    result: Tensor = scaled / scaled.norm(dim=1, keepdim=True).clamp(min=1.0)
    return result
