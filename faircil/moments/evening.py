"""Weights of groups that make the losses of a ridge solution small and even.

The objective is that of FSW, over all groups ever seen: ``Φ(w) = lam · Σ_g p_g ℓ_g(w) + ‖D
ℓ(w)‖₁``, with the matrix D of a fairness measure and p equal over classes, and over the groups of a
class. For the worst group it is ``lam · Σ_g p_g ℓ_g(w) + max_g ℓ_g(w)``. ℓ are left-out losses, or
plain ones.

Both are ``lam · Σ_g p_g ℓ_g + Σ_t max(0, largest side of term t)``. A row of D is a term with the
two sides ``±D_r ℓ``; the worst group is one term, with a side for each group.

Weight moves only between groups that the measure compares: groups that share a term, directly or
through others, form a *block*, and the weights of a block keep their sum. For equalized odds that
is a class, for equal error rates and for the worst group all of them.

``lam`` is the trade-off. With equalized odds and two attribute values, ``lam=1`` minimises the
larger of the two losses in each class, ``½(a + b) + ½|a − b| = max(a, b)``: nobody is made worse
off for the sake of evenness. A larger lam puts more on the mean; a smaller one pays for evenness
with the losses of the better group.

Differences within their own uncertainty are not evened: a row of D counts beyond ``certainty`` of
its standard errors. So does the loss of a group where the worst one counts, with the mean loss as
a further side: if no group is surely worse than the mean, the mean alone counts. Without it, the
largest groups would look like the worst, since their losses are the most certain.

Φ is minimised by sequential linear programming: with the derivatives of ℓ, each step solves a
linear program for log w within a radius for each block, which grows where the prediction was right
and shrinks where it was not. At the end no step within the radius promises more than ``tolerance ·
Φ``; this promise is part of the result. It is of first order; :func:`proven_bound` is a proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc

from faircil.compute import map_tasks
from faircil.moments.ridge import RidgeProblem, RidgeSolution
from faircil.weighting.groups import Floats, Integers
from faircil.weighting.measures import Combine

TOLERANCE = 5e-3
MOST = 25  # evaluations; about six are usual
RADIUS, LARGEST_RADIUS = 0.5, 3.0  # of a step of log w
ASCENT = 200  # steps for the multipliers of the proof; they cost next to nothing
FURTHER, FEW_SOLVED = 0.25, 4  # lam by which the price is told, and solutions for it


@dataclass(frozen=True)
class Criterion:
    """What is minimised over the weights of G groups.

    Parameters
    ----------
    matrix : ndarray, shape (rows, G)
        D of the measure.
    share : ndarray, shape (G,)
        p: how much each group counts in the mean loss; sums to 1.
    lam : float
        Weight of the mean loss.
    certainty : float
        Number of standard errors of a row that do not count.
    left_out : bool
        Whether left-out losses are evened; else plain ones.
    combine : {"sum", "largest"}
        How the rows make one number, as of a :class:`~faircil.weighting.measures.Measure`.
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
        """Return the solution with the losses that are evened."""
        return solution.left_out if self.left_out else solution

    def band(self, solution: RidgeSolution) -> Floats:
        """Return what does not count of each side, (k,)."""
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
        """Return the probability of differences as large if the groups' true losses were even.

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
class Evening:
    """Chosen weights.

    Parameters
    ----------
    problem : RidgeProblem
        What was solved.
    criterion : Criterion
        What was minimised.
    before, after : RidgeSolution
        With the weights ``share``, and with the chosen ones.
    value : float
        Φ of the chosen ones.
    promise : float
        What the best step within the last radii would gain, to first order.
    solved : int
        Number of ridge solutions computed.
    """

    problem: RidgeProblem
    criterion: Criterion
    before: RidgeSolution
    after: RidgeSolution
    value: float
    promise: float
    solved: int


def equal_shares(label: Integers) -> Floats:
    """Return p: equal over classes, and over the groups of a class, (G,)."""
    classes, index, groups = np.unique(label, return_inverse=True, return_counts=True)
    share: Floats = 1 / (len(classes) * groups[index])
    return share


def even_out(
    problem: RidgeProblem,
    criterion: Criterion,
    start: Floats | None = None,
    *,
    tolerance: float = TOLERANCE,
    most: int = MOST,
    known: Evening | None = None,
) -> Evening:
    """Choose the weights of all groups.

    Parameters
    ----------
    problem : RidgeProblem
    criterion : Criterion
    start : ndarray, shape (G,), optional
        Positive weights to begin with, such as those of an earlier task; by default the shares.
    tolerance : float
        It ends when no step promises more than this part of Φ.
    most : int
        Number of ridge solutions to compute at most.
    known : Evening, optional
        Of the same problem with another criterion: it begins with its weights, in place of
        ``start``.
    """
    blocks = Blocks.of(criterion)
    if not len(criterion.matrix):
        before = problem.solve(criterion.share, slopes=False)
        return Evening(problem, criterion, before, before, criterion.value(before), 0.0, 1)
    if known is not None:
        before, now, solved = known.before, known.after, 0
    else:
        starts = [criterion.share] if start is None else [criterion.share, start]
        found = map_tasks(
            lambda number: problem.solve(starts[number], slopes=number == len(starts) - 1),
            range(len(starts)),
            threads=problem.moments.device.type == "cpu",
        )
        before, now, solved = found[0], found[-1], len(found)
    log_w = np.log(now.weights / criterion.share)
    radius = np.full(blocks.number, RADIUS)
    parts, promise = blocks.parts(criterion, now), np.inf
    while solved < most:
        step, expected = _best_step(criterion, blocks, now, radius[blocks.block])
        gain = parts - expected
        promise = float(gain.sum())
        if promise <= tolerance * parts.sum():
            break
        new = problem.solve(blocks.weights(log_w + step))
        solved += 1
        reached = blocks.parts(criterion, new)
        right = (parts - reached) / np.maximum(gain, 1e-12 * parts.sum())
        if reached.sum() < parts.sum():
            now, parts, log_w = new, reached, log_w + step
            radius = np.where(right > 0.75, np.minimum(2 * radius, LARGEST_RADIUS), radius)
        radius = np.where(right < 0.25, radius / 3, radius)
    return Evening(problem, criterion, before, now, float(parts.sum()), promise, solved)


def evened_further(evening: Evening) -> Evening:
    """Choose weights with a smaller lam, to see what more evenness costs."""
    criterion = replace(evening.criterion, lam=FURTHER * evening.criterion.lam)
    return even_out(evening.problem, criterion, known=evening, most=FEW_SOLVED)


def proven_bound(evening: Evening) -> float:
    """Return by how much Φ can be smaller for a head of no larger norm than the chosen one.

    Standard errors, and for left-out losses the factors ``c_g = 1/(1 − h_g)²``, are those of the
    chosen solution. This takes one more ridge solution.

    Notes
    -----
    The sides of all terms are ``E ℓ − e``. For multipliers y ≥ 0 with a sum of at most 1 over the
    sides of each term, every head W has ``Φ(W) ≥ v·ℓ(W) − y·e`` with ``v = c ∘ (lam p + Eᵀy)``,
    where ℓ are plain losses. If v ≥ 0, then for any μ

    ``Φ(W) + μ‖W‖² ≥ G(y) = min over all heads of (v·ℓ + μ‖·‖²) − y·e``

    and the minimum is a ridge solution. For heads of no larger norm than the chosen W₀, therefore,
    ``Φ(W₀) − Φ(W) ≤ Φ(W₀) + μ‖W₀‖² − G(y)``, the bound. With ``μ = λ Σ v`` the ridge solution is
    that of the weights ``w = v/Σ v``.

    Any y is a proof; a good one makes the bound small. G is concave, and ``v·ℓ + μ‖·‖²`` has at the
    chosen weights the gradient ℓ and the second derivatives ``∂ℓ/∂w``, which are known: y maximises
    this quadratic model.

    If v ≥ 0 for all y, then Φ is a maximum of convex functions of W, and the best y has no gap. For
    ``‖D ℓ‖₁`` this needs a large enough lam: 1 for equalized odds with two attribute values,
    ``2 − 2/n`` with n values and for equal error rates of n classes. For the worst group it always
    holds. With a smaller lam the bound holds, but a gap remains even at the optimum.
    """
    criterion, found = evening.criterion, evening.after
    if evening.value <= 0:  # losses are not negative
        return 0.0
    factor = 1 / (1 - found.leverage) ** 2 if criterion.left_out else np.ones(len(found.losses))
    sides, base = criterion.sides * factor, criterion.lam * criterion.share * factor
    band = criterion.band(criterion.losses_of(found))
    y = _multipliers(evening, sides, base, band)
    weights = base + y @ sides
    total = float(weights.sum())
    if total <= 0:  # with lam = 0: nothing is known but that Φ is not negative
        return evening.value
    penalty = total * evening.problem.penalty
    best = evening.problem.solve(weights / total, slopes=False)
    least = float(weights @ best.losses - y @ band) + penalty * best.squared_norm
    return max(evening.value + penalty * found.squared_norm - least, 0.0)


def _multipliers(evening: Evening, sides: Floats, base: Floats, band: Floats) -> Floats:
    """Return y of :func:`proven_bound` by its quadratic model, (k,).

    Parameters
    ----------
    evening : Evening
    sides, base : ndarray, shapes (k, G) and (G,)
        E and lam p, times the factors of left-out losses.
    band : ndarray, shape (k,)
        e.
    """
    criterion, found = evening.criterion, evening.after
    if not len(sides):
        return np.zeros(0)
    # Σ v is not known yet. At an optimum v = w Σ v, and v·ℓ is Φ, up to the bands.
    total = evening.value / float(found.weights @ found.losses)
    rise = sides @ (found.losses + found.loss_slopes @ (base / total - found.weights)) - band
    bend = -sides @ found.loss_slopes @ sides.T / total
    steepest = max(float(np.linalg.eigvalsh(bend)[-1]), 1e-12)
    # Accelerated projected gradient ascent, which starts again where it overshoots.
    y = ahead = np.zeros(len(sides))
    pace = 1.0
    for _ in range(ASCENT):
        new = _allowed(ahead + (rise - bend @ ahead) / steepest, criterion.combine)
        pace = 1.0 if (ahead - new) @ (new - y) > 0 else pace
        next_pace = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + (pace - 1) / next_pace * (new - y)
        y, pace = new, next_pace
    if criterion.combine == "sum":  # of two opposite sides, the smaller only takes y·e off
        opposite = y.reshape(2, -1)
        y = (opposite - opposite.min(axis=0)).ravel()
    # The weights of a block depend on its own terms: where one is negative, these are scaled down.
    blocks, weights = Blocks.of(criterion), base + y @ sides
    scale, short = np.ones(blocks.number), weights < 0
    with np.errstate(divide="ignore"):  # with lam = 0, to nothing
        np.maximum.at(scale, blocks.block[short], (base - weights)[short] / base[short])
    scaled: Floats = y / scale[blocks.of_term[criterion.term]]
    return scaled


def _allowed(y: Floats, combine: Combine) -> Floats:
    """Return the nearest multipliers that are allowed, (k,).

    They lie between 0 and 1. For the largest row, their sum is at most 1. Of a sum, the two sides
    of a term need no such limit, since the smaller of them is taken off both in the end.
    """
    inside: Floats = y.clip(0, 1)
    if combine == "sum" or inside.sum() <= 1:
        return inside
    # Onto the simplex: all are lowered by the same, those that would be negative are 0.
    descending = np.sort(inside)[::-1]
    lowered = (np.cumsum(descending) - 1) / np.arange(1, len(y) + 1)
    by = lowered[np.flatnonzero(descending > lowered)[-1]]
    nearest: Floats = (inside - by).clip(min=0)
    return nearest


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
        Weights before any is moved; each block keeps its sum.
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
        """Tell whether no block has groups of two classes, with the class of each group, (G,)."""
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
        """Turn derivatives by the weights into those by log_w, (G, G)."""
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


def _best_step(
    criterion: Criterion, blocks: Blocks, solution: RidgeSolution, radius: Floats
) -> tuple[Floats, Floats]:
    """Solve the linear program; return the step of log_w, (G,), and Φ by block as it predicts it.

    Variables are the step and the terms: ``t ≥ E(ℓ + J step) − e`` for the sides of each term, and
    ``t ≥ 0``.
    """
    seen = criterion.losses_of(solution)
    slopes = blocks.slopes(seen.weights, seen.loss_slopes)
    band, sides, n_terms = criterion.band(seen), criterion.sides, criterion.n_terms
    own = (criterion.term[:, None] == np.arange(n_terms)).astype(np.float64)
    answer = linprog(
        np.concatenate([criterion.lam * criterion.share @ slopes, np.ones(n_terms)]),
        A_ub=np.hstack([sides @ slopes, -own]),
        b_ub=band - sides @ seen.losses,
        bounds=[*((-r, r) for r in radius), *((0, None) for _ in range(n_terms))],
        method="highs",
    )
    assert answer.x is not None  # no step is feasible, and the objective is bounded below
    step: Floats = answer.x[: len(radius)]
    return step, blocks.parts_of(criterion, seen.losses + slopes @ step, band)
