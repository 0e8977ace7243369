"""Weights of groups that make the losses of a ridge solution small and even.

The objective is that of FSW, over all groups ever seen: ``Φ(w) = lam · Σ_g p_g ℓ_g(w) + ‖D
ℓ(w)‖₁``, with the matrix D of a fairness measure and p equal over classes, and over the groups of a
class. ℓ are left-out losses, or plain ones.

Weight moves only between groups that the measure compares: groups that share a row of D, directly
or through others, form a *block*, and the weights of a block keep their sum. For equalized odds
that is a class, for equal error rates all of them.

``lam`` is the trade-off. With equalized odds and two attribute values, ``lam=1`` minimises the
larger of the two losses in each class, ``½(a + b) + ½|a − b| = max(a, b)``: nobody is made worse
off for the sake of evenness. A larger lam puts more on the mean; a smaller one pays for evenness
with the losses of the better group.

Differences within their own uncertainty are not evened: a row of D counts beyond ``certainty`` of
its standard errors.

Φ is minimised by sequential linear programming: with the derivatives of ℓ, each step solves a
linear program for log w within a radius for each block, which grows where the prediction was right
and shrinks where it was not. At the end no step within the radius promises more than ``tolerance ·
Φ``; this promise is part of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from faircil.moments.ridge import RidgeProblem, RidgeSolution
from faircil.weighting.groups import Floats, Integers

TOLERANCE = 5e-3
MOST = 25  # evaluations; about six are usual
RADIUS, LARGEST_RADIUS = 0.5, 3.0  # of a step of log w


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
    """

    matrix: Floats
    share: Floats
    lam: float
    certainty: float = 1.0
    left_out: bool = True

    def losses_of(self, solution: RidgeSolution) -> RidgeSolution:
        """Return the solution with the losses that are evened."""
        return solution.left_out if self.left_out else solution

    def band(self, solution: RidgeSolution) -> Floats:
        """Return the difference within each row that does not count, (rows,)."""
        band: Floats = self.certainty * np.sqrt(self.matrix**2 @ solution.errors**2)
        return band

    def beyond(self, losses: Floats, band: Floats) -> Floats:
        """Return the difference within each row that counts, (rows,)."""
        counted: Floats = (np.abs(self.matrix @ losses) - band).clip(min=0)
        return counted

    def disparity(self, losses: Floats) -> float:
        """Return ``‖D ℓ‖₁``."""
        return float(np.abs(self.matrix @ losses).sum())

    def mean(self, losses: Floats) -> float:
        """Return ``Σ p_g ℓ_g``."""
        return float(self.share @ losses)

    def value(self, solution: RidgeSolution) -> float:
        """Return Φ."""
        seen = self.losses_of(solution)
        beyond = self.beyond(seen.losses, self.band(seen))
        return self.lam * self.mean(seen.losses) + float(beyond.sum())


@dataclass(frozen=True)
class Evening:
    """Chosen weights.

    Parameters
    ----------
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
    """
    blocks = Blocks.of(criterion)
    fixed = not len(criterion.matrix)
    before = problem.solve(criterion.share, slopes=start is None and not fixed)
    if fixed:
        return Evening(criterion, before, before, criterion.value(before), 0.0, 1)
    log_w = np.zeros(len(problem)) if start is None else np.log(start / criterion.share)
    now, solved = (before, 1) if start is None else (problem.solve(blocks.weights(log_w)), 2)
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
        found = blocks.parts(criterion, new)
        right = (parts - found) / np.maximum(gain, 1e-12 * parts.sum())
        if found.sum() < parts.sum():
            now, parts, log_w = new, found, log_w + step
            radius = np.where(right > 0.75, np.minimum(2 * radius, LARGEST_RADIUS), radius)
        radius = np.where(right < 0.25, radius / 3, radius)
    return Evening(criterion, before, now, float(parts.sum()), promise, solved)


@dataclass(frozen=True)
class Blocks:
    """Groups that exchange weight.

    Parameters
    ----------
    number : int
    block : ndarray of int, shape (G,)
        Block of each group.
    of_row : ndarray of int, shape (rows,)
        Block of each row of D.
    share : ndarray, shape (G,)
        Weights before any is moved; each block keeps its sum.
    """

    number: int
    block: Integers
    of_row: Integers
    share: Floats

    @classmethod
    def of(cls, criterion: Criterion) -> Blocks:
        """Find the blocks of a measure."""
        size = np.abs(criterion.matrix)
        number, found = connected_components(size.T @ size > 0)
        block = found.astype(np.int64)
        of_row = block[size.argmax(axis=1)] if len(size) else block[:0]
        return cls(int(number), block, of_row, criterion.share)

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
        beyond = criterion.beyond(losses, band)
        mean = self.summed(criterion.share * losses)
        parts: Floats = criterion.lam * mean + np.bincount(self.of_row, beyond, self.number)
        return parts


def _best_step(
    criterion: Criterion, blocks: Blocks, solution: RidgeSolution, radius: Floats
) -> tuple[Floats, Floats]:
    """Solve the linear program; return the step of log_w, (G,), and Φ by block as it predicts it.

    Variables are the step and, for each row, what it counts:
    ``t_r ≥ ±(D(ℓ + J step))_r − band_r``, ``t_r ≥ 0``.
    """
    seen = criterion.losses_of(solution)
    slopes = blocks.slopes(seen.weights, seen.loss_slopes)
    band, matrix = criterion.band(seen), criterion.matrix
    rows, groups = matrix.shape
    turned, level, eye = matrix @ slopes, matrix @ seen.losses, np.eye(rows)
    answer = linprog(
        np.concatenate([criterion.lam * criterion.share @ slopes, np.ones(rows)]),
        A_ub=np.block([[turned, -eye], [-turned, -eye]]),
        b_ub=np.concatenate([band - level, band + level]),
        bounds=[*((-r, r) for r in radius), *((0, None) for _ in range(rows))],
        method="highs",
    )
    assert answer.x is not None  # no step is feasible, and the objective is bounded below
    step: Floats = answer.x[:groups]
    return step, blocks.parts_of(criterion, seen.losses + slopes @ step, band)
