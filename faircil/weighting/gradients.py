"""Last-layer gradients as factors: never a matrix with a row per sample and a column per weight.

For logits ``o = W h + b`` the cross-entropy gradient of sample i with respect to ``[b W]`` is the
outer product ``δ_i h̃_iᵀ`` with ``δ_i = softmax(o_i) − onehot(y_i)`` and ``h̃_i = [1; h_i]``
(``h̃ = h`` for a head without bias). Two consequences carry the whole package:

- the mean gradient of a group is one small matrix product, ``Ḡ_g = Δ_gᵀ H̃_g / n_g``;
- the cosine of a sample with a group needs no outer product either,
  ``cos(i, g) = δ_iᵀ (Ḡ_g/‖Ḡ_g‖) h̃_i / (‖δ_i‖ ‖h̃_i‖)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from faircil.weighting.head import evaluating

CHUNK = 2048  # rows per forward pass: activations of this many rows stay in cache


@dataclass(frozen=True)
class LastLayer:
    """Factors of the last-layer gradients of n samples.

    Parameters
    ----------
    losses : Tensor, shape (n,)
        Cross-entropy.
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


def last_layer(net: nn.Module, head: nn.Linear, x: Tensor, y: Tensor) -> LastLayer:
    """Compute the gradient factors of all samples in one chunked forward pass.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.weighting.head.find_head`).
    x, y : Tensor, shape (n, ...) and (n,)
        The samples.
    """
    n, weight = len(y), head.weight
    delta = weight.new_empty(n, head.out_features)
    features = weight.new_empty(n, head.in_features)
    losses = weight.new_empty(n)
    rows = slice(0, 0)

    def record(_: nn.Module, arguments: tuple[Tensor]) -> None:
        features[rows] = arguments[0]

    hook = head.register_forward_pre_hook(record)
    try:
        with evaluating(net):
            for start in range(0, n, CHUNK):
                rows = slice(start, start + CHUNK)
                losses[rows], delta[rows] = logit_gradients(net(x[rows]), y[rows])
    finally:
        hook.remove()
    return LastLayer(losses, delta, features, head.bias is not None)


def logit_gradients(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of n samples, (n,), and its gradient δ at the logits, (n, classes).

    Exact also for samples that are almost certain.
    """
    log_p = torch.log_softmax(logits, dim=1)
    label = y[:, None]
    losses = -log_p.gather(1, label).squeeze(1)
    # δ_y = p_y − 1 = −Σ_{k≠y} p_k: the sum keeps its digits when p_y is almost 1.
    delta = log_p.exp_().scatter_(1, label, 0.0)
    return losses, delta.scatter_(1, label, -delta.sum(dim=1, keepdim=True))


def group_sums(factors: LastLayer, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Add up gradients and losses within groups; the mean gradient is the sum over the size.

    Parameters
    ----------
    factors : LastLayer
        Of n samples.
    group : Tensor of int64, shape (n,)
        Group of each sample; samples with a negative number take no part.
    groups : int
        Number of groups, G.

    Returns
    -------
    gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
        ``Σ δ_i h̃_iᵀ``; zero for a group without samples.
    losses : Tensor of float64, shape (G,)
    """
    classes, d = factors.delta.shape[1], factors.features.shape[1]
    gradients = factors.delta.new_zeros(groups, classes, d + factors.bias)
    losses = torch.zeros(groups, dtype=torch.float64, device=group.device)
    for start in range(0, len(group), CHUNK):
        # Sorted within a chunk, which fits in cache, every group is one slice.
        rows = slice(start, start + CHUNK)
        part, order = torch.sort(group[rows], stable=True)
        delta = factors.delta[rows].index_select(0, order)
        features = factors.features[rows].index_select(0, order)
        present, sizes = torch.unique_consecutive(part, return_counts=True)
        end = 0
        for g, size in zip(present.tolist(), sizes.tolist(), strict=True):
            members, end = slice(end, end + size), end + size
            if g < 0:
                continue
            gradients[g, :, -d:] += delta[members].T @ features[members]
            if factors.bias:
                gradients[g, :, 0] += delta[members].sum(dim=0)
    inside = group >= 0
    losses.index_add_(0, group[inside], factors.losses[inside].double())
    return gradients, losses


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
    result = factors.delta.new_empty(groups, len(factors.delta))
    for start in range(0, len(factors.delta), CHUNK):
        rows = slice(start, start + CHUNK)
        delta, features = unit(factors.delta[rows]), factors.features[rows]
        # δᵀ Ĝ h̃ for all groups at once: (rows, groups·classes), then a dot product over classes.
        product = torch.addmm(offset, features, matrix.T).view(-1, groups, classes)
        inner = torch.bmm(product, delta[:, :, None]).squeeze(2)
        length = feature_lengths(features, factors.bias)
        result[:, rows] = torch.where(length == 0, 0.0, inner.T / length)
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
