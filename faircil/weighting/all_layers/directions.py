"""Unit gradients of groups in all layers, and their products with factors of samples.

The gradient of a group is a matrix per layer, ``V_l = Σ_j δ_lj h̃_ljᵀ`` over its samples, and its
product with sample i is ``Σ_l δ_liᵀ V_l h̃_li``. Of an old group the buffer holds few samples; then
the same sum in another order costs less, ``Σ_l Σ_j (δ_li·δ_lj)(h̃_li·h̃_lj)``: in + out numbers for
each of the group's samples instead of in × out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.weighting.all_layers.factors import Factors, Layer, join


@dataclass(frozen=True)
class Directions:
    """Unit gradients of G groups, of which B are matrices and the others factors of m samples.

    Parameters
    ----------
    layers : sequence of Layer
    groups : Tensor of int64, shape (B,)
        Those that have matrices.
    matrices : sequence of Tensor, shapes (B, out, columns)
        Of each layer.
    few : Factors
        Of the samples of all other groups.
    shares : Tensor, shape (m, G)
        What each of these samples adds to the unit gradient of each group.
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
    """Gradients of G groups, added up chunk by chunk.

    Parameters
    ----------
    layers : sequence of Layer
    size : Tensor of int64, shape (G,)
        Number of samples of each group.
    """

    def __init__(self, layers: Sequence[Layer], size: Tensor) -> None:
        shapes = [(layer.module.out_features, layer.columns) for layer in layers]
        parameters = sum(out * columns for out, columns in shapes)
        self._layers = layers
        self._sums = layers[0].module.weight.new_zeros(len(size), parameters)
        self._matrices = _by_layer(self._sums, layers)
        self._is_few = size * sum(map(sum, shapes)) < parameters
        self._few: list[tuple[Tensor, Factors]] = []
        self.losses = torch.zeros(len(size), dtype=torch.float64, device=size.device)

    def add(self, group: Tensor, factors: Factors) -> None:
        """Add samples sorted by group, (n,); those with a negative number take no part."""
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
        """Return the gradients at length 1; one that vanishes stays zero."""
        # In float64 the squares of tiny gradients do not underflow; row by row this costs little.
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
    shapes = [(layer.module.out_features, layer.columns) for layer in layers]
    parts = torch.split(flat, [out * columns for out, columns in shapes], dim=1)
    return [part.view(len(flat), *shape) for part, shape in zip(parts, shapes, strict=True)]
