"""The weighted ridge solution over all rows seen, and the loss of every group, from moments only.

With weights w_g over groups and a penalty λ:

- ``A(w) = Σ_g (w_g/n_g) S_g + λ I``, ``B(w) = Σ_g (w_g/n_g) s_g e_yᵀ``, ``W(w) = A⁻¹ B`` minimises
  ``F(w) = Σ_g w_g ℓ_g(W) + λ ‖W‖²``, where ℓ_g is the mean over a group of the squared distance
  between scores ``Wᵀφ`` and the one-hot class.
- ``ℓ_g = (tr(Wᵀ S_g W) − 2 s_gᵀ W e_y)/n_g + 1``: exact, without any row.
- With ``R_g = (s_g e_yᵀ − S_g W)/n_g``: ``∂W/∂w_g = A⁻¹ R_g`` and
  ``∂ℓ_h/∂w_g = −2 ⟨R_h, A⁻¹ R_g⟩``: symmetric and negative semi-definite, since ℓ is the gradient
  of F, which is concave in w as a minimum of linear functions.
- The leverage of row i of group g is ``(w_g/n_g) φ_iᵀ A⁻¹ φ_i``; its mean over the group is
  ``h_g = (w_g/n_g²) tr(A⁻¹ S_g)``. Leaving out row i multiplies its residual by 1/(1 − h_i). With
  the mean leverage for all rows, ``ℓ_g/(1 − h_g)²`` is the *left-out loss*: the loss of the group's
  rows if each were predicted by the solution without it. It is exact for equal leverages.
- ``∂h_g/∂w_k = δ_gk h_g/w_g − (w_g/n_g²) tr(A⁻¹ S_k A⁻¹ S_g)/n_k``. These traces would take a
  product of (d, d) matrices for each group; they are estimated with a few random ±1 vectors, which
  suffices for a search direction. All values are exact.

With many groups and classes, products of (G, d, C) numbers do not fit. Beyond ``AT_ONCE`` numbers:

- Groups are processed class by class. Slopes between classes are replaced by their mean, which is
  known: ``Σ_h w_h R_h = λ W``, so ``Σ_h w_h ∂ℓ_h/∂w_g = −2λ ⟨W, A⁻¹ R_g⟩``; and ``Σ_h (w_h/n_h) S_h
  = A − λ I`` gives the same for leverages. Equalized odds compares groups of one class, where this
  mean cancels.
- ``COLUMNS`` random ±1 combinations Z of the columns of W, ``E[ZZᵀ] = I``, replace these columns in
  slopes and standard errors. Losses and leverages stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from faircil.compute import chunks_of, one_thread, several_threads
from faircil.moments.factors import cholesky, inverse_of
from faircil.moments.group_moments import GroupMoments
from faircil.weighting.groups import Floats, Integers

PROBES = 16
AT_ONCE = 2**24  # entries of products with second moments that are kept at the same time
COLUMNS = 64  # of a head with more classes, if not all products are kept
BORROWED = 10  # pseudo-rows with the variance of all groups that are added to a group
WIDE = 3000  # features from which solving pays off on several threads, which synchronise
LARGEST = 0.98  # limit of the mean leverage, above which a left-out loss is meaningless
DRAWS = 200  # scores per group, at least, for the temperature


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
        Standard errors of ``losses``. If the scores of a group are Gaussian with mean μ and
        covariance Σ, a squared loss has the variance ``2 tr Σ² + 4 rᵀ Σ r``, r = μ − e_y. Small
        groups borrow from the mean over groups.
    loss_slopes, leverage_slopes : ndarray, shape (G, G)
        Derivatives of ``losses`` and ``leverage`` (rows) by the weights (columns); empty, (0, 0),
        if not requested.
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
        """The same solution with left-out losses, ``ℓ_g/(1 − h_g)²``, in place of the losses."""
        rest, slopes = 1 - self.leverage, self.loss_slopes
        if slopes.size:
            slopes = slopes / rest[:, None] ** 2
            slopes += (2 * self.losses / rest**3)[:, None] * self.leverage_slopes
        return replace(
            self,
            losses=self.losses / rest**2,
            errors=self.errors / rest**2,
            loss_slopes=slopes,
        )


class RidgeProblem:
    """Ridge solutions of the same moments under different weights.

    Parameters
    ----------
    moments : GroupMoments
    group : sequence of int
        Group of each cell, from 0 to G − 1. The sums of a group's cells are added.
    label : ndarray of int64, shape (G,)
        Class of each group, as a column of the head from 0 to C − 1.
    ridge : float
        λ relative to the mean of the diagonal of ``A`` for equal weights.
    """

    unsaved = ("summed",)

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
        self.probes = _signs(moments.width, PROBES, generator).to(device=device, dtype=dtype)
        self.whole = len(label) * moments.width * (self.classes + PROBES) <= AT_ONCE
        columns = torch.eye(self.classes)
        if not self.whole and self.classes > COLUMNS:
            columns = _signs(self.classes, COLUMNS, generator) / COLUMNS**0.5
        self.columns = columns.to(device=device, dtype=dtype)
        self.parts = self._parts()
        self.restored()

    def restored(self) -> None:
        """Clear the cached sum over groups, on construction and after loading."""
        self.summed: dict[bytes, Tensor] = {}  # the last sum, keyed by its weights

    def __len__(self) -> int:
        return len(self.size)

    def with_ridge(self, ridge: float) -> RidgeProblem:
        """Return the same problem with another penalty, reusing all sums."""
        other = copy(self)
        other.penalty = ridge * self.scale
        return other

    def _by_group(self, cells: Tensor) -> Tensor:
        """Sum values of the cells, (cells, ...), by group."""
        groups = int(self.group.max()) + 1
        return cells.new_zeros(groups, *cells.shape[1:]).index_add_(0, self.group, cells)

    def _diagonals(self) -> Tensor:
        """Return the mean diagonal entry of each S_g, (G,)."""
        eye = torch.eye(self.moments.width, dtype=self.moments.dtype, device=self.moments.device)
        return self._by_group(self.moments.traces(eye)) / self.moments.width

    def _parts(self) -> list[Tensor]:
        """Return the indices of groups that are processed together, always whole classes."""
        if self.whole:
            return [torch.arange(len(self), device=self.size.device)]
        order = torch.argsort(self.label, stable=True)
        sizes = torch.bincount(self.label).tolist()
        most = max(1, AT_ONCE // (self.moments.width * (len(self.columns.T) + PROBES)))
        parts = [0]
        for size in sizes:
            if parts[-1] and parts[-1] + size > most:
                parts.append(0)
            parts[-1] += size
        return list(torch.split(order, parts))

    def _products(self, x: Tensor, part: Tensor) -> Tensor:
        """Return ``S_g x`` for x, (d, k), and the groups of a part, (groups, d, k)."""
        place = part.new_full((len(self),), -1)
        place[part] = torch.arange(len(part), device=part.device)
        cells = (place[self.group] >= 0).nonzero().flatten()
        summed = x.new_zeros(len(part), *x.shape)
        return summed.index_add_(
            0, place[self.group[cells]], self.moments.products(x, cells.tolist())
        )

    def solve(self, weights: Floats, *, slopes: bool = True) -> RidgeSolution:
        """Return the solution for weights, (G,), with losses and, if requested, their slopes."""
        many = self.moments.width >= WIDE or not self.whole
        with several_threads() if many else one_thread():
            return self._solve(weights, slopes)

    def _solve(self, weights: Floats, with_slopes: bool) -> RidgeSolution:
        size = self.size
        w = torch.tensor(weights, dtype=size.dtype, device=size.device)
        per_row = w / size
        factor = cholesky(self._matrix(weights, per_row))
        head = torch.cholesky_solve(self.target(per_row).T, factor)
        inverse = inverse_of(factor, threads=self.moments.threaded)
        leverage = per_row * self._by_group(self.moments.traces(inverse)) / size
        del inverse
        squares, variance, slopes, pairs = self._looked_at(w, head, factor, with_slopes)
        each = torch.arange(len(size), device=size.device)
        losses = squares - 2 * (self.first @ head)[each, self.label] / size + 1
        spread = pairs
        if with_slopes:
            spread = torch.diag(leverage / w.clamp(min=1e-30)) - per_row[:, None] * pairs
        # A single row has no variance of its own: small groups borrow that of all groups.
        shared = (size * variance + BORROWED * variance.mean()) / (size + BORROWED)
        return RidgeSolution(
            weights=weights,
            head=head,
            losses=_floats(losses).clip(min=0),
            leverage=_floats(leverage).clip(0, LARGEST),
            errors=_floats((shared / size).sqrt()),
            loss_slopes=_floats(slopes),
            leverage_slopes=_floats(spread),
        )

    def target(self, per_row: Tensor) -> Tensor:
        """Return ``Bᵀ``, (C, d), given the weight per row of each group, (G,)."""
        target = self.first.new_zeros(self.classes, self.moments.width)
        return target.index_add_(0, self.label, per_row[:, None] * self.first)

    def _matrix(self, weights: Floats, per_row: Tensor) -> Tensor:
        """Return A; its sum over groups is cached for the next solution with another penalty."""
        key = weights.tobytes()
        summed = self.summed.get(key)
        if summed is None:
            summed = self.moments.combined(per_row[self.group])
            self.summed.clear()
            self.summed[key] = summed
        matrix = summed.clone()
        matrix.diagonal().add_(self.penalty)
        return matrix

    def _looked_at(
        self, w: Tensor, head: Tensor, factor: Tensor, with_slopes: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the quantities that need products with each S_g.

        Returns
        -------
        squares : Tensor, shape (G,)
            ``tr(Wᵀ S_g W)/n_g``.
        variance : Tensor, shape (G,)
            Variance of a row's loss in each group.
        slopes : Tensor, shape (G, G)
            ``∂ℓ_g/∂w_h``; (0, 0) if slopes are not requested.
        pairs : Tensor, shape (G, G)
            Estimates of ``tr(A⁻¹ S_g A⁻¹ S_h)/(n_g n_h)``; (0, 0) if slopes are not requested.
        """
        size, k = self.size, self.columns.shape[1]
        groups = len(self) if with_slopes else 0
        squares, variance = torch.zeros_like(size), torch.zeros_like(size)
        if not self.whole:  # products may be with combinations of columns
            squares = self._by_group(self.moments.squares(head)) / size
        slopes, pairs = (torch.full((groups, groups), torch.nan).to(size) for _ in range(2))
        known = seen = head @ self.columns
        if with_slopes:
            probes = torch.linalg.solve_triangular(factor.T, self.probes, upper=True)
            known = torch.cat([seen, probes], dim=1)
        totals, pair_totals = torch.zeros_like(size), torch.zeros_like(size)
        # Known totals over all groups, used by `_between`.
        solved = None if self.whole or not with_slopes else torch.cholesky_solve(known, factor)
        for part in self.parts:
            products = self._products(known, part).div_(size[part, None, None])
            on_head, on_probes = products[:, :, :k], products[:, :, k:]
            if self.whole:
                squares[part] = (on_head * head).sum(dim=(1, 2))
            variance[part] = self._variance(head, on_head, part)
            if not with_slopes:
                continue
            mean = (self.first[part] / size[part, None])[:, :, None]
            rest = torch.baddbmm(on_head, mean, self.columns[self.label[part], None], beta=-1)
            here = part[:, None], part[None, :]
            slopes[here] = -2 * self._inner(factor, rest)
            pairs[here] = self._inner(factor, on_probes) / PROBES
            if solved is not None:
                totals[part] = -2 * self.penalty * (rest * solved[:, :k]).sum(dim=(1, 2))
                pair_totals[part] = (on_probes * (probes - self.penalty * solved[:, k:])).sum(
                    dim=(1, 2)
                ) / PROBES
        if solved is not None:
            slopes = self._between(slopes, w, totals)
            pairs = self._between(pairs, w, pair_totals)
        return squares, variance, slopes, pairs

    def _between(self, within: Tensor, weights: Tensor, totals: Tensor) -> Tensor:
        """Replace the entries between classes so that ``weightsᵀ · result = totals``, (G, G).

        In each column, all entries of other classes get the same value.
        """
        same = self.label[:, None] == self.label[None, :]
        own = torch.where(same, within, within.new_zeros(()))
        others = weights @ (~same).to(weights.dtype)
        mean = (totals - weights @ own) / others.clamp(min=torch.finfo(weights.dtype).tiny)
        return torch.where(same, own, mean.expand_as(own))

    def _inner(self, factor: Tensor, x: Tensor) -> Tensor:
        """Return ``⟨x_g, A⁻¹ x_h⟩`` of x, (G, d, k), for all pairs, (G, G)."""
        groups, width, k = x.shape
        columns = x.permute(1, 0, 2).reshape(width, groups * k)
        half = torch.linalg.solve_triangular(factor, columns, upper=False)
        rows = half.reshape(width, groups, k).permute(1, 0, 2).reshape(groups, -1)
        inner: Tensor = rows @ rows.T
        return inner

    def some_groups(self) -> Tensor:
        """Return the indices of groups whose scores fit in memory: all, or evenly spread ones."""
        groups, classes = len(self), self.classes
        most = max(1, AT_ONCE // (2 * classes * (classes + DRAWS)))
        return torch.linspace(0, groups - 1, min(groups, most), dtype=torch.float64).round().long()

    def scores(self, head: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean, (P, C), and covariance, (P, C, C), of the scores of P groups."""
        on_head = self._products(head, part).div_(self.size[part, None, None])
        mean = self._mean(head, part)
        return mean, head.T @ on_head - mean[:, :, None] * mean[:, None, :]

    def _mean(self, head: Tensor, part: Tensor) -> Tensor:
        """Return the mean scores of the groups of a part, (groups, C)."""
        mean: Tensor = self.first[part] @ head / self.size[part, None]
        return mean

    def _variance(self, head: Tensor, on_head: Tensor, part: Tensor) -> Tensor:
        """Return the variance of a row's loss in each group of a part, (groups,).

        With Z, the columns of ``on_head``, ``‖ΣZ‖²`` estimates ``tr Σ²``, and ``rᵀΣZ Zᵀr`` the
        variance along r. ΣZ is (groups, C, k): more than the products, (groups, d, k), if there are
        more classes than features. So it is computed for a few groups at a time.
        """
        most = max(1, AT_ONCE // (self.classes * on_head.shape[2]))
        pieces = chunks_of(len(part), most)
        if len(pieces) > 1:
            return torch.cat([self._variance(head, on_head[at], part[at]) for at in pieces])
        mean = self._mean(head, part)
        spread = head.T @ on_head - mean[:, :, None] * (mean @ self.columns)[:, None, :]
        away = mean.clone()
        away[torch.arange(len(part), device=part.device), self.label[part]] -= 1
        along = ((away[:, None, :] @ spread).squeeze(1) * (away @ self.columns)).sum(dim=1)
        variance: Tensor = 2 * spread.square().sum(dim=(1, 2)) + 4 * along
        return variance.clamp(min=0)


def _signs(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    return (torch.randint(0, 2, (rows, columns), generator=generator) * 2 - 1).float()


def _floats(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array
