"""The weighted ridge solution of all rows seen, and the loss of every group, from moments alone.

With weights w_g over groups and a penalty λ:

- ``A(w) = Σ_g (w_g/n_g) S_g + λ I``, ``B(w) = Σ_g (w_g/n_g) s_g e_yᵀ``, ``W(w) = A⁻¹ B`` minimises
  ``F(w) = Σ_g w_g ℓ_g(W) + λ ‖W‖²``, where ℓ_g is the mean over a group of the squared distance
  between scores ``Wᵀφ`` and the one-hot class.
- ``ℓ_g = (tr(Wᵀ S_g W) − 2 s_gᵀ W e_y)/n_g + 1``: exact, without any row.
- With ``R_g = (s_g e_yᵀ − S_g W)/n_g``: ``∂W/∂w_g = A⁻¹ R_g`` and
  ``∂ℓ_h/∂w_g = −2 ⟨R_h, A⁻¹ R_g⟩``: symmetric and negative semi-definite, since ℓ is the gradient
  of F, which is concave in w as a minimum of linear functions.
- The leverage of row i of group g is ``(w_g/n_g) φ_iᵀ A⁻¹ φ_i``; its mean over the group is
  ``h_g = (w_g/n_g²) tr(A⁻¹ S_g)``. Without row i, its residual would be 1/(1 − h_i) as large. With
  the mean for all of them, ``ℓ_g/(1 − h_g)²`` is the *left-out loss*: what the group's rows would
  lose if each were predicted by the solution without it. Exact for equal leverages.
- ``∂h_g/∂w_k = δ_gk h_g/w_g − (w_g/n_g²) tr(A⁻¹ S_k A⁻¹ S_g)/n_k``. These traces would take a
  product of (d, d) matrices for each group; a few random ±1 vectors estimate them, which is enough
  for a direction of search. All values are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from faircil.compute import one_thread
from faircil.errors import DataError
from faircil.moments.group_moments import GroupMoments
from faircil.weighting.groups import Floats, Integers

PROBES = 16
BORROWED = 10  # rows that a group's variance borrows from all groups
WIDE = 3000  # features from which a solution is worth several threads, which wait for each other
LARGEST = 0.98  # of a mean leverage: beyond it a left-out loss says nothing


@dataclass(frozen=True)
class RidgeSolution:
    """The solution for given weights of G groups.

    Parameters
    ----------
    weights : ndarray, shape (G,)
    head : Tensor, shape (d, C)
        W; one column per class.
    losses, leverage : ndarray, shape (G,)
        Mean squared loss and mean leverage of each group's rows.
    errors : ndarray, shape (G,)
        Standard errors of ``losses``: scores of a group taken as Gaussian with their mean μ and
        covariance Σ, a squared loss has the variance ``2 tr Σ² + 4 rᵀ Σ r``, r = μ − e_y; small
        groups borrow from the mean over groups.
    loss_slopes, leverage_slopes : ndarray, shape (G, G)
        Derivatives of ``losses`` and ``leverage`` (rows) by the weights (columns); NaN if they were
        not asked for.
    """

    weights: Floats
    head: Tensor
    losses: Floats
    leverage: Floats
    errors: Floats
    loss_slopes: Floats
    leverage_slopes: Floats

    @property
    def squared_norm(self) -> float:
        """``‖W‖²``."""
        return float(self.head.double().square().sum())

    @property
    def left_out(self) -> RidgeSolution:
        """The same with left-out losses in place of the losses: ``ℓ_g/(1 − h_g)²``."""
        rest = 1 - self.leverage
        by_leverage = (2 * self.losses / rest**3)[:, None] * self.leverage_slopes
        return replace(
            self,
            losses=self.losses / rest**2,
            errors=self.errors / rest**2,
            loss_slopes=self.loss_slopes / rest[:, None] ** 2 + by_leverage,
        )


class RidgeProblem:
    """Ridge solutions of the same moments for different weights.

    Parameters
    ----------
    moments : GroupMoments
    group : sequence of int
        Group, from 0 to G − 1, of each cell. A group may have several cells: their sums are added.
    label : ndarray of int64, shape (G,)
        Class of each group, as a column of the head from 0 to C − 1.
    ridge : float
        λ relative to the mean of the diagonal of ``A`` for equal weights.
    """

    def __init__(
        self, moments: GroupMoments, group: Sequence[int], label: Integers, ridge: float
    ) -> None:
        self.moments = moments
        device, dtype = moments.device, moments.dtype
        self.group = torch.tensor(group, device=device)
        self.label = torch.tensor(label, device=device)
        self.classes = int(label.max()) + 1
        count = torch.tensor(moments.count, dtype=dtype, device=device)
        self.size = self._by_group(count)
        self.first = self._by_group(torch.stack(moments.first))
        self.scale = float((self._diagonals() / self.size).mean())
        self.penalty = ridge * self.scale
        generator = torch.Generator().manual_seed(0)
        probes = torch.randint(0, 2, (moments.width, PROBES), generator=generator) * 2 - 1
        self.probes = probes.to(device=device, dtype=dtype)

    def __len__(self) -> int:
        return len(self.size)

    def with_ridge(self, ridge: float) -> RidgeProblem:
        """Return the same problem with another penalty; nothing is summed up again."""
        other = copy(self)
        other.penalty = ridge * self.scale
        return other

    def _by_group(self, cells: Tensor) -> Tensor:
        """Add up values of the cells, (cells, ...), by group."""
        groups = int(self.group.max()) + 1
        return cells.new_zeros(groups, *cells.shape[1:]).index_add_(0, self.group, cells)

    def _diagonals(self) -> Tensor:
        """Return the mean diagonal entry of each S_g, (G,)."""
        eye = torch.eye(self.moments.width, dtype=self.moments.dtype, device=self.moments.device)
        return self._by_group(self.moments.traces(eye)) / self.moments.width

    def solve(self, weights: Floats, *, slopes: bool = True) -> RidgeSolution:
        """Return the solution for weights, (G,), with the losses and, if asked, their slopes."""
        with nullcontext() if self.moments.width >= WIDE else one_thread():
            return self._solve(weights, slopes)

    def _solve(self, weights: Floats, with_slopes: bool) -> RidgeSolution:
        moments, size = self.moments, self.size
        w = torch.tensor(weights, dtype=size.dtype, device=size.device)
        per_row = w / size
        matrix = moments.combined(per_row[self.group])
        matrix.diagonal().add_(self.penalty)
        factor = cholesky(matrix)
        target = size.new_zeros(self.classes, moments.width)
        target.index_add_(0, self.label, per_row[:, None] * self.first)
        head = torch.cholesky_solve(target.T, factor)
        known = head
        if with_slopes:
            probes = torch.linalg.solve_triangular(factor.T, self.probes, upper=True)
            known = torch.cat([head, probes], dim=1)
        products = self._by_group(moments.products(known))
        on_head, on_probes = products[:, :, : self.classes], products[:, :, self.classes :]
        each = torch.arange(len(size), device=size.device)
        own = (self.first @ head)[each, self.label]
        losses = ((head * on_head).sum(dim=(1, 2)) - 2 * own) / size + 1
        inverse = torch.cholesky_inverse(factor)
        leverage = per_row * self._by_group(moments.traces(inverse)) / size
        slopes = spread = torch.full((len(size), len(size)), torch.nan)
        if with_slopes:
            rest = -on_head / size[:, None, None]
            rest[each, :, self.label] += self.first / size[:, None]
            slopes = -2 * self._inner(factor, rest)
            pairs = self._inner(factor, on_probes / size[:, None, None]) / PROBES
            spread = torch.diag(leverage / w.clamp(min=1e-30)) - per_row[:, None] * pairs
        return RidgeSolution(
            weights=weights,
            head=head,
            losses=_floats(losses).clip(min=0),
            leverage=_floats(leverage).clip(0, LARGEST),
            errors=_floats(self._errors(head, on_head)),
            loss_slopes=_floats(slopes),
            leverage_slopes=_floats(spread),
        )

    def _inner(self, factor: Tensor, x: Tensor) -> Tensor:
        """Return ``⟨x_g, A⁻¹ x_h⟩`` of x, (G, d, k), for all pairs, (G, G)."""
        groups, width, k = x.shape
        columns = x.permute(1, 0, 2).reshape(width, groups * k)
        half = torch.linalg.solve_triangular(factor, columns, upper=False)
        rows = half.reshape(width, groups, k).permute(1, 0, 2).reshape(groups, -1)
        inner: Tensor = rows @ rows.T
        return inner

    def scores(self, head: Tensor, on_head: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return mean, (G, C), and covariance, (G, C, C), of the scores of each group."""
        if on_head is None:
            on_head = self._by_group(self.moments.products(head))
        size = self.size[:, None]
        mean = self.first @ head / size
        square: Tensor = head.T @ on_head / size[..., None]
        return mean, square - mean[:, :, None] * mean[:, None, :]

    def _errors(self, head: Tensor, on_head: Tensor) -> Tensor:
        """Return the standard error of each group's mean loss, (G,)."""
        mean, spread = self.scores(head, on_head)
        away = mean.clone()
        away[torch.arange(len(mean), device=mean.device), self.label] -= 1
        along = (away[:, None, :] @ spread @ away[:, :, None]).flatten()
        variance = (2 * spread.square().sum(dim=(1, 2)) + 4 * along).clamp(min=0)
        # One row has no spread of its own: a small group borrows that of all groups.
        shared = (self.size * variance + BORROWED * variance.mean()) / (self.size + BORROWED)
        errors: Tensor = (shared / self.size).sqrt()
        return errors


def cholesky(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor; raise a DataError if the matrix has none."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        wide, failed = torch.linalg.cholesky_ex(matrix.double())
        factor = wide.to(matrix.dtype)
    if int(failed):
        raise DataError(
            "the moments are singular: features depend on each other too closely for this "
            "penalty; choose a larger `ridge`, such as .01, or fewer features with `width`"
        )
    return factor


def _floats(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array
