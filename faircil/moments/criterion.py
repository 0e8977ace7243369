"""What the group weights minimise, and which groups exchange weight.

The objective is that of FSW, over all groups ever seen: ``Φ(w) = lam · Σ_g p_g ℓ_g(w) + ‖D
ℓ(w)‖₁``, with the matrix D of a fairness measure and p equal over classes, and over the groups of a
class. For the worst group, it is ``lam · Σ_g p_g ℓ_g(w) + max_g ℓ_g(w)``. ℓ are left-out losses, or
training losses.

Both are ``lam · Σ_g p_g ℓ_g + Σ_t max(0, largest side of term t)``. A row of D is a term with the
two sides ``±D_r ℓ``; the worst group is one term, with a side for each group.

Weight moves only between groups that the measure compares: groups that share a term, directly or
through others, form a *block*, and the weights of a block keep their sum. A block is a class for
equalized odds, and all groups for equal error rates and for the worst group.

``lam`` is the trade-off. With equalized odds and two attribute values, ``lam=1`` minimises the
larger of the two losses in each class, ``½(a + b) + ½|a − b| = max(a, b)``: no group is made worse
off just for equality. A larger lam emphasises the mean; a smaller one pays for equality with the
losses of the better group.

Differences within their own uncertainty are not evened out: a row of D counts only beyond
``certainty`` of its standard errors. The same holds for the loss of a group if the worst one
counts, with the mean loss as a further side: if no group is significantly worse than the mean, only
the mean counts. Without it, the largest groups would appear to be the worst, since their losses are
the most certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc

from faircil.moments.group_moments import GroupMoments, Key
from faircil.moments.ridge import RidgeSolution
from faircil.weighting.groups import Floats, Groups, Integers
from faircil.weighting.measures import Combine


@dataclass(frozen=True)
class Criterion:
    """What is minimised over the weights of G groups.

    Parameters
    ----------
    matrix : ndarray, shape (rows, G)
        D of the measure.
    share : ndarray, shape (G,)
        p: weight of each group in the mean loss; sums to 1.
    lam : float
        Weight of the mean loss.
    certainty : float
        Number of standard errors of a row that are ignored.
    left_out : bool
        Whether left-out losses are evened out; otherwise training losses.
    combine : {"sum", "largest"}
        How rows are combined, as in :class:`~faircil.weighting.measures.Measure`.
    """

    matrix: Floats
    share: Floats
    lam: float
    certainty: float = 1.0
    left_out: bool = True
    combine: Combine = "sum"

    @cached_property
    def sides(self) -> Floats:
        """Coefficients of the losses in each side of each term, (k, G)."""
        other = -self.matrix if self.combine == "sum" else self.share[None, :]
        return np.concatenate([self.matrix, other]) if len(self.matrix) else self.matrix

    @cached_property
    def term(self) -> Integers:
        """Term of each side, (k,)."""
        rows = np.arange(len(self.matrix), dtype=np.int64)
        if self.combine == "sum":
            return np.concatenate([rows, rows])
        return np.zeros(len(self.sides), dtype=np.int64)

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return int(self.term.max(initial=-1)) + 1

    def losses_of(self, solution: RidgeSolution) -> RidgeSolution:
        """Return the solution with the losses to even out."""
        return solution.left_out if self.left_out else solution

    def band(self, solution: RidgeSolution) -> Floats:
        """Return the part of each side that is within its uncertainty, (k,)."""
        rows = self.certainty * np.sqrt(self.matrix**2 @ solution.errors**2)
        other = rows if self.combine == "sum" else np.zeros(min(len(rows), 1))
        band: Floats = np.concatenate([rows, other])
        return band

    def terms(self, losses: Floats, band: Floats | float = 0.0) -> Floats:
        """Return the terms, each the largest of its sides less their band, (terms,)."""
        terms = np.zeros(self.n_terms)
        np.maximum.at(terms, self.term, self.sides @ losses - band)
        return terms

    def disparity(self, losses: Floats) -> float:
        """Return ``‖D ℓ‖₁``, or the largest loss of a group."""
        return float(self.terms(losses).sum())

    def mean(self, losses: Floats) -> float:
        """Return ``Σ p_g ℓ_g``."""
        return float(self.share @ losses)

    def value(self, solution: RidgeSolution) -> float:
        """Return Φ."""
        seen = self.losses_of(solution)
        terms = self.terms(seen.losses, self.band(seen))
        return self.lam * self.mean(seen.losses) + float(terms.sum())

    def chance(self, solution: RidgeSolution) -> float | None:
        """Return the probability of differences as large if the true losses were equal.

        With independent errors e of the groups, ``D ℓ`` then has the covariance
        ``V = D diag(e²) Dᵀ``, and ``(Dℓ)ᵀ V⁺ Dℓ`` is χ² with as many degrees of freedom as the rank
        of D. None if nothing is compared.
        """
        if not len(self.matrix) or self.combine == "largest":
            return None
        seen = self.losses_of(solution)
        scaled = self.matrix * seen.errors
        # V⁺ = U S⁻² Uᵀ with D diag(e) = U S Rᵀ.
        vectors, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
        kept = sizes > 1e-9 * sizes.max()
        along = (vectors.T @ (self.matrix @ seen.losses))[kept] / sizes[kept]
        return float(chdtrc(kept.sum(), along @ along))


@dataclass(frozen=True)
class Blocks:
    """Groups that exchange weight.

    Parameters
    ----------
    number : int
    block : ndarray of int, shape (G,)
        Block of each group.
    of_term : ndarray of int, shape (terms,)
        Block of each term.
    share : ndarray, shape (G,)
        Initial weights; each block keeps its sum.
    """

    number: int
    block: Integers
    of_term: Integers
    share: Floats

    @classmethod
    def of(cls, criterion: Criterion) -> Blocks:
        """Find the blocks of a measure."""
        size = np.zeros((criterion.n_terms, len(criterion.share)))
        np.add.at(size, criterion.term, np.abs(criterion.sides))
        number, found = connected_components(size.T @ size > 0)
        block = found.astype(np.int64)
        of_term = block[size.argmax(axis=1)] if len(size) else block[:0]
        return cls(int(number), block, of_term, criterion.share)

    def are_within(self, label: Integers) -> bool:
        """Return whether every block is within one class, given the class of each group, (G,)."""
        return len(np.unique(np.stack([self.block, label]), axis=1).T) == self.number

    def summed(self, values: Floats) -> Floats:
        """Add up values of groups, (G,), by block."""
        summed: Floats = np.bincount(self.block, values, minlength=self.number).astype(np.float64)
        return summed

    def weights(self, log_w: Floats) -> Floats:
        """Return weights proportional to ``share · exp(log_w)`` within each block, (G,)."""
        highest = np.full(self.number, -np.inf)
        np.maximum.at(highest, self.block, log_w)
        raw = self.share * np.exp(log_w - highest[self.block])
        scale = self.summed(self.share) / self.summed(raw)
        weights: Floats = raw * scale[self.block]
        return weights

    def slopes(self, weights: Floats, slopes: Floats) -> Floats:
        """Convert derivatives by the weights to derivatives by log_w, (G, G)."""
        # dw_g = w_g (dlog_g − Σ_h w_h dlog_h / Σ_h w_h), h over the block of g.
        scaled = slopes * weights
        same = self.block[:, None] == np.arange(self.number)
        per_block = scaled @ same / self.summed(weights)
        turned: Floats = scaled - per_block[:, self.block] * weights
        return turned

    def parts(self, criterion: Criterion, solution: RidgeSolution) -> Floats:
        """Return Φ by block, (number,)."""
        seen = criterion.losses_of(solution)
        return self.parts_of(criterion, seen.losses, criterion.band(seen))

    def parts_of(self, criterion: Criterion, losses: Floats, band: Floats) -> Floats:
        """Return Φ of given losses by block, (number,)."""
        terms = criterion.terms(losses, band)
        mean = self.summed(criterion.share * losses)
        parts: Floats = criterion.lam * mean + np.bincount(self.of_term, terms, self.number)
        return parts


def shares_of(groups: Groups, label: Integers, known: Integers) -> Floats:
    """Return p, (G,): equal over classes, and over the groups of a class with a known attribute.

    Groups with an unknown attribute count by their fraction of the class's rows.
    """
    share: Floats = groups.size / np.bincount(label, groups.size)[label]
    rest = np.ones(label.max() + 1)
    unknown = np.setdiff1d(np.arange(len(label)), known)
    np.subtract.at(rest, label[unknown], share[unknown])
    share /= len(rest)
    _, index, number = np.unique(label[known], return_inverse=True, return_counts=True)
    share[known] = rest[label[known]] / (len(rest) * number[index])
    return share


def grouped(moments: GroupMoments, *, by_attribute: bool) -> tuple[list[Key], list[int]]:
    """Return the groups in order, and the group of each nonempty cell."""
    cells = [key if by_attribute else key[:1] for key in moments.keys]
    keys = sorted(set(cells))
    return keys, [keys.index(key) for key in cells]


def groups_of(moments: GroupMoments, keys: list[Key], group: list[int]) -> Groups:
    """Describe the groups of cells, as a measure needs them."""
    # With decay, rows are counted by their weights; the newest rows make it at least 1.
    size: Integers = np.bincount(group, moments.count).round().astype(np.int64)
    attribute = np.array([key[1:] or (0,) for key in keys], dtype=np.int64)
    same = (attribute[:, None, :] == attribute[None, :, :]).all(axis=2)
    return Groups(
        label=np.array([key[0] for key in keys], dtype=np.int64),
        attribute=attribute[:, 0] if attribute.shape[1] == 1 else attribute,
        current=np.ones(len(keys), dtype=bool),
        size=size,
        seen=size,
        seen_with_attribute=same @ size,
    )
