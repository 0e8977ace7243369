"""Weights of groups that make the losses of a ridge solution small and even.

The objective Φ is a :class:`~faircil.moments.criterion.Criterion`. It is minimised by sequential
linear programming: with the derivatives of ℓ, each step solves a linear program for log w within a
radius for each block. The radius grows if the prediction was accurate and shrinks otherwise. At the
end, no step within the radius promises a gain above ``tolerance · Φ``; this promise is part of the
result. It is a first-order estimate; :func:`proven_bound` is a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import linprog

from faircil.compute import map_tasks
from faircil.errors import SolverError
from faircil.moments.criterion import Blocks, Criterion
from faircil.moments.ridge import RidgeProblem, RidgeSolution
from faircil.weighting.groups import Floats
from faircil.weighting.measures import Combine

TOLERANCE = 5e-3
MOST = 25  # evaluations; usually about six are needed
RADIUS, LARGEST_RADIUS = 0.5, 3.0  # of a step of log w
ASCENT = 200  # steps for the multipliers of the proof; their cost is negligible
CLOSE = 1.02  # relative objective up to which weights are also chosen for another penalty
METHODS = ("highs", "highs-ipm")  # of linprog, tried in this order, reversed for many sides
MANY_SIDES = 1000  # from which on the simplex method is slower, and may take hours
FURTHER, FEW_SOLVED = 0.25, 4  # factor of lam to compute the price, and solutions for it


@dataclass(frozen=True)
class Evening:
    """Chosen weights, with the problem and the solution.

    Parameters
    ----------
    problem : RidgeProblem
        The problem that was solved.
    criterion : Criterion
        The objective that was minimised.
    before, after : RidgeSolution
        Solutions with the weights ``share`` and with the chosen weights.
    value : float
        Φ of the chosen weights.
    promise : float
        Gain of the best step within the last radii, to first order.
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

    @property
    def chosen(self) -> Chosen:
        """The result without its solution."""
        return Chosen(self.after.weights, self.value, self.promise, self.solved)


@dataclass(frozen=True)
class Chosen:
    """Chosen weights, without their solution.

    The slopes of a solution between all pairs of groups, (G, G), are larger than the sums of many
    groups, and the weights suffice to recompute the solution.

    Parameters
    ----------
    weights : ndarray, shape (G,)
    value, promise, solved
        As in :class:`Evening`.
    """

    weights: Floats
    value: float
    promise: float
    solved: int

    def again(self, problem: RidgeProblem, criterion: Criterion) -> Evening:
        """Solve the same problem again, with bit-identical results."""
        before = problem.solve(criterion.share, slopes=False)
        after = problem.solve(self.weights, slopes=len(criterion.matrix) > 0)
        return Evening(problem, criterion, before, after, self.value, self.promise, self.solved)


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
        Positive initial weights, such as those of an earlier task; by default the shares.
    tolerance : float
        The search ends when no step promises more than this fraction of Φ.
    most : int
        Maximum number of ridge solutions.
    known : Evening, optional
        Result for the same problem with another criterion; its weights are used instead of
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
        # Losses that rounding makes negative are 0. If all are, a block without gain is 0/0.
        least = max(1e-12 * parts.sum(), np.finfo(np.float64).tiny)
        right = (parts - reached) / np.maximum(gain, least)
        if reached.sum() < parts.sum():
            now, parts, log_w = new, reached, log_w + step
            radius = np.where(right > 0.75, np.minimum(2 * radius, LARGEST_RADIUS), radius)
        radius = np.where(right < 0.25, radius / 3, radius)
    return Evening(problem, criterion, before, now, float(parts.sum()), promise, solved)


def best_penalty(
    problem: RidgeProblem, criterion: Criterion, weights: Floats, ridges: Sequence[float]
) -> tuple[float, float]:
    """Return the smallest Φ over relative penalties for given weights, (G,), and its penalty."""

    def value(ridge: float) -> float:
        return criterion.value(problem.with_ridge(ridge).solve(weights, slopes=False))

    found = map_tasks(value, ridges, threads=problem.moments.device.type == "cpu")
    place = int(np.argmin(found))
    return found[place], ridges[place]


def better_penalty(
    evening: Evening, ridge: float, ridges: Sequence[float]
) -> tuple[float, Evening]:
    """Try other penalties as long as Φ decreases; return the last one and its weights.

    The neighbours of a penalty are tried with the weights chosen for it. If one comes close,
    weights are chosen for it as well, and it is accepted if Φ is then smaller.

    Parameters
    ----------
    evening : Evening
        Weights chosen for ``ridge``.
    ridge : float
        The current relative penalty, one of ``ridges``.
    ridges : sequence of float
        In ascending order.
    """
    problem, criterion = evening.problem, evening.criterion
    while True:
        place, weights = ridges.index(ridge), evening.after.weights
        near = [*ridges[max(place - 1, 0) : place], *ridges[place + 1 : place + 2]]
        value, other = best_penalty(problem, criterion, weights, near)
        if value >= CLOSE * evening.value:
            return ridge, evening
        found = even_out(problem.with_ridge(other), criterion, weights)
        if found.value >= (1 - TOLERANCE) * evening.value:
            return ridge, evening
        ridge, evening = other, found


def evened_further(evening: Evening) -> Evening:
    """Choose weights with a smaller lam, to compute the price of a smaller disparity."""
    criterion = replace(evening.criterion, lam=FURTHER * evening.criterion.lam)
    return even_out(evening.problem, criterion, known=evening, most=FEW_SOLVED)


def proven_bound(evening: Evening) -> float:
    """Return the maximum decrease of Φ by any head of no larger norm than the chosen one.

    Standard errors, and for left-out losses the factors ``c_g = 1/(1 − h_g)²``, are those of the
    chosen solution. Computing the bound takes one more ridge solution.

    Notes
    -----
    The sides of all terms are ``E ℓ − e``. For multipliers y ≥ 0 with a sum of at most 1 over the
    sides of each term, every head W has ``Φ(W) ≥ v·ℓ(W) − y·e`` with ``v = c ∘ (lam p + Eᵀy)``,
    where ℓ are training losses. If v ≥ 0, then for any μ

    ``Φ(W) + μ‖W‖² ≥ G(y) = min over all heads of (v·ℓ + μ‖·‖²) − y·e``

    and the minimum is a ridge solution. For heads of no larger norm than the chosen W₀, therefore,
    ``Φ(W₀) − Φ(W) ≤ Φ(W₀) + μ‖W₀‖² − G(y)``, the bound. With ``μ = λ Σ v`` the ridge solution is
    that of the weights ``w = v/Σ v``.

    Any y is a proof; a good one makes the bound small. G is concave. At the chosen weights,
    ``v·ℓ + μ‖·‖²`` has the known gradient ℓ and second derivatives ``∂ℓ/∂w``, so y is chosen to
    maximise this quadratic model.

    If v ≥ 0 for all y, then Φ is a maximum of convex functions of W, and the best y leaves no gap.
    For ``‖D ℓ‖₁`` this requires a large enough lam: 1 for equalized odds with two attribute values,
    ``2 − 2/n`` with n values and for equal error rates of n classes. For the worst group it always
    holds. With a smaller lam the bound is valid, but a gap remains even at the optimum.
    """
    criterion, found = evening.criterion, evening.after
    if evening.value <= 0:  # losses are nonnegative
        return 0.0
    factor = 1 / (1 - found.leverage) ** 2 if criterion.left_out else np.ones(len(found.losses))
    sides, base = criterion.sides * factor, criterion.lam * criterion.share * factor
    band = criterion.band(criterion.losses_of(found))
    y = _multipliers(evening, sides, base, band)
    weights = base + y @ sides
    total = float(weights.sum())
    if total <= 0:  # with lam = 0, the only known bound is that Φ is nonnegative
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
    # Σ v is not known yet. At an optimum v = w Σ v, and v·ℓ is Φ up to the bands.
    total = evening.value / float(found.weights @ found.losses)
    rise = sides @ (found.losses + found.loss_slopes @ (base / total - found.weights)) - band
    bend = -sides @ found.loss_slopes @ sides.T / total
    steepest = max(float(np.linalg.eigvalsh(bend)[-1]), 1e-12)
    # Accelerated projected gradient ascent, restarted when it overshoots.
    y = ahead = np.zeros(len(sides))
    pace = 1.0
    for _ in range(ASCENT):
        new = _allowed(ahead + (rise - bend @ ahead) / steepest, criterion.combine)
        pace = 1.0 if (ahead - new) @ (new - y) > 0 else pace
        next_pace = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + (pace - 1) / next_pace * (new - y)
        y, pace = new, next_pace
    if criterion.combine == "sum":  # the smaller of two opposite sides would only subtract y·e
        opposite = y.reshape(2, -1)
        y = (opposite - opposite.min(axis=0)).ravel()
    # The weights of a block depend on its own terms: if one is negative, these are scaled down.
    blocks, weights = Blocks.of(criterion), base + y @ sides
    scale, short = np.ones(blocks.number), weights < 0
    with np.errstate(divide="ignore"):  # with lam = 0, they are scaled to zero
        np.maximum.at(scale, blocks.block[short], (base - weights)[short] / base[short])
    scaled: Floats = y / scale[blocks.of_term[criterion.term]]
    return scaled


def _allowed(y: Floats, combine: Combine) -> Floats:
    """Return the nearest feasible multipliers, (k,).

    They lie between 0 and 1. For the largest row, their sum is at most 1. For a sum, the two sides
    of a term need no such limit, since the smaller one is subtracted from both in the end.
    """
    inside: Floats = y.clip(0, 1)
    if combine == "sum" or inside.sum() <= 1:
        return inside
    # Projection onto the simplex: all are lowered equally, and negative ones are set to 0.
    descending = np.sort(inside)[::-1]
    lowered = (np.cumsum(descending) - 1) / np.arange(1, len(y) + 1)
    by = lowered[np.flatnonzero(descending > lowered)[-1]]
    nearest: Floats = (inside - by).clip(min=0)
    return nearest


def _best_step(
    criterion: Criterion, blocks: Blocks, solution: RidgeSolution, radius: Floats
) -> tuple[Floats, Floats]:
    """Solve the linear program; return the step of log_w, (G,), and the predicted Φ by block.

    Variables are the step and the terms: ``t ≥ E(ℓ + J step) − e`` for the sides of each term, and
    ``t ≥ 0``.
    """
    seen = criterion.losses_of(solution)
    slopes = blocks.slopes(seen.weights, seen.loss_slopes)
    band, sides, n_terms = criterion.band(seen), criterion.sides, criterion.n_terms
    own = (criterion.term[:, None] == np.arange(n_terms)).astype(np.float64)
    solve = partial(
        linprog,
        np.concatenate([criterion.lam * criterion.share @ slopes, np.ones(n_terms)]),
        A_ub=np.hstack([sides @ slopes, -own]),
        b_ub=band - sides @ seen.losses,
        bounds=[*((-r, r) for r in radius), *((0, None) for _ in range(n_terms))],
    )
    # The zero step is feasible and the objective is bounded below, so there is an optimum. With
    # very many groups of one or two rows, the simplex method may lose it to rounding.
    for method in METHODS if len(sides) < MANY_SIDES else METHODS[::-1]:
        answer = solve(method=method)
        if answer.x is not None:
            break
    else:
        raise SolverError(
            f"weights of {len(radius):,} groups could not be chosen: {answer.message}; name "
            "attributes with fewer values, or fix the weights with `group_weights='class'`"
        )
    step: Floats = answer.x[: len(radius)]
    return step, blocks.parts_of(criterion, seen.losses + slopes @ step, band)
