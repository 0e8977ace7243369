"""A first-order method: approximate weights with a proven optimality gap.

With a price for each row, y in [−1, 1] for the gaps and μ ≥ 0 for the floors, the program is a
saddle point:

    minimise over 0 ≤ w ≤ 1, maximise over y, μ:   cost·w + y·(o − R w) − μ·(f − F w)

The primal-dual hybrid gradient method (Chambolle and Pock 2011) descends in w, ascends in the
prices, and clips both to their limits. It needs two products with the matrix, computed chunk by
chunk while the columns are in cache. It includes the techniques that make it fast on linear
programs (PDLP, Applegate et al. 2021): rows scaled to norm 1, reflected Halpern iterates anchored
at the last restart, a restart once the proven gap has decreased enough, and a ratio of the two
step sizes adapted to the distances moved between restarts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from faircil.weighting.groups import Floats
from faircil.weighting.program import Dual, Solution, WeightProgram, certify
from faircil.weighting.solver.columns import CHUNK
from faircil.weighting.solver.highs import keep_floors
from faircil.weighting.solver.standard_form import TINY, no_optimum

RELATIVE_GAP = 1e-4  # relative to the largest gain over zero weights
EXACT = 1e-9  # relative to offsets and costs: a smaller gap is optimal
LIMIT = 10_000  # iterations
CHECK = 40  # iterations between two evaluations of the gap
STEP = 0.999  # fraction of the largest safe step
MUCH, LITTLE = 0.2, 0.8  # gap ratios for a restart at once, or as soon as the gap rises again
LONG = 0.36  # fraction of all iterations after which a restart is forced
TURN = 10.0  # a restart changes the step ratio by at most this factor


@dataclass(frozen=True)
class Saddle:
    """The program with R = K + m rows scaled to norm 1.

    Parameters
    ----------
    table : ndarray, shape (R + 1, n)
        Gap rows, floor rows negated, and the cost, which is not scaled.
    offsets, lower, upper : ndarray, shape (R,)
        Offsets of the rows, and the limits of their prices.
    scale : ndarray, shape (R,)
        Scale factors of the rows.
    norm : float
        Largest singular value of the scaled rows.
    """

    table: Floats
    offsets: Floats
    lower: Floats
    upper: Floats
    scale: Floats
    norm: float

    @classmethod
    def of(cls, program: WeightProgram) -> Saddle:
        """Stack and scale the arrays."""
        table = program.stacked()
        length = np.sqrt(np.einsum("ij,ij->i", table[:-1], table[:-1]))
        scale = 1 / np.maximum(length, TINY)
        table[:-1] *= scale[:, None]
        gap, floor = np.split(1 / scale, [len(program.gap_offsets)])
        return cls(
            table,
            offsets=program.offsets * scale,
            lower=np.concatenate([-gap, 0 * floor]),
            upper=np.concatenate([gap, np.full_like(floor, np.inf)]),
            scale=scale,
            norm=np.linalg.eigvalsh(table[:-1] @ table[:-1].T).max(initial=0.0) ** 0.5,
        )


@dataclass
class Point:
    """Weights (n,), scaled prices (R,), and the scaled rows times the weights, (R,)."""

    weights: Floats
    prices: Floats
    products: Floats

    def copy(self) -> Point:
        """Return an independent copy."""
        return Point(self.weights.copy(), self.prices, self.products)


class Search:
    """The iteration: current point, moving point, anchor, and best solution so far."""

    def __init__(self, program: WeightProgram) -> None:
        self.program, self.saddle = program, Saddle.of(program)
        k = len(program.gap_offsets)
        # The prices of zero weights, and the weights that are optimal for them: already optimal if
        # no row couples the weights.
        prices = np.zeros_like(self.saddle.scale)
        prices[:k] = np.sign(program.gap_offsets) * self.saddle.upper[:k]
        weights = (program.reduced_cost(self._dual(prices)) < 0).astype(np.float64)
        self.found = Point(weights, prices, self.saddle.table[:-1] @ weights)
        self.moving, self.anchor = self.found.copy(), self.found.copy()
        # Ratio of the steps in prices and weights: the ratio of the distances they may have to go.
        reach = np.hypot(np.linalg.norm(self.saddle.upper[:k]), np.linalg.norm(program.cost))
        self.balance = float(reach) / max(len(program), 1) ** 0.5 or 1.0
        self.iterations = self.anchored_at = 0
        self.passes = 6  # for stacking, scaling and the norm of the rows, and the start
        self.now = self.best = self._certify()
        self.gap_at_anchor = self.now.gap

    def advance(self) -> None:
        """Iterate until the next evaluation of the gap; restart then if it helps."""
        for _ in range(CHECK):
            self._step()
        last, self.now = self.now, self._certify()
        primal = min(self.best, self.now, key=lambda solution: solution.objective)
        dual = max(self.best, self.now, key=lambda solution: solution.bound)
        self.best = replace(primal, bound=dual.bound, dual=dual.dual)
        if (
            self.now.gap < MUCH * self.gap_at_anchor
            or last.gap < self.now.gap < LITTLE * self.gap_at_anchor
            or self.iterations - self.anchored_at >= LONG * self.iterations
        ):
            self._restart()

    def _step(self) -> None:
        """Make one iteration of the method, then move towards the anchor."""
        saddle, found, moving, anchor = self.saddle, self.found, self.moving, self.anchor
        self.iterations += 1
        self.passes += 1
        share = 1 / (self.iterations - self.anchored_at + 1)
        step = STEP / (saddle.norm or 1.0)
        prices, products = np.append(-moving.prices, 1.0), np.zeros(len(saddle.table))
        for start in range(0, len(moving.weights), CHUNK):
            columns = slice(start, start + CHUNK)
            table, weights = saddle.table[:, columns], moving.weights[columns]
            new = np.clip(weights - step / self.balance * (prices @ table), 0.0, 1.0)
            products += table @ new
            found.weights[columns] = new
            weights[:] = _anchored(new, weights, anchor.weights[columns], share)
        found.products = products[:-1]
        rise = saddle.offsets - 2 * found.products + moving.products
        found.prices = np.clip(
            moving.prices + step * self.balance * rise, saddle.lower, saddle.upper
        )
        moving.prices = _anchored(found.prices, moving.prices, anchor.prices, share)
        moving.products = _anchored(found.products, moving.products, anchor.products, share)

    def _restart(self) -> None:
        """Set a new anchor, and adapt the step ratio to the distance from the last anchor."""
        weights = np.linalg.norm(self.found.weights - self.anchor.weights)
        prices = np.linalg.norm(self.found.prices - self.anchor.prices)
        if weights > 0 or prices > 0:
            # Geometric mean of old and measured ratio; either distance may be zero.
            ratio = float(prices) / (self.balance * max(float(weights), 1e-300))
            self.balance *= float(np.clip(np.sqrt(ratio), 1 / TURN, TURN))
        self.moving, self.anchor = self.found.copy(), self.found.copy()
        self.anchored_at, self.gap_at_anchor = self.iterations, self.now.gap

    def _dual(self, prices: Floats) -> Dual:
        gap, floor = np.split(prices * self.saddle.scale, [len(self.program.gap_offsets)])
        return Dual(gap, floor)

    def _certify(self) -> Solution:
        """Return the current point made feasible; its objective is infinite if that fails."""
        program = self.program
        self.passes += 2
        weights = keep_floors(program, self.found.weights)
        solution = certify(program, weights, self._dual(self.found.prices), "", 0.0)
        below = program.floor_rows @ weights - program.floor_offsets
        broken = below * self.saddle.scale[len(program.gap_offsets) :] > EXACT
        return replace(solution, objective=np.inf) if broken.any() else solution


def _anchored(new: Floats, old: Floats, anchor: Floats, share: float) -> Floats:
    """Reflect from old through new, then move by ``share`` towards the anchor."""
    return (1 - share) * (2 * new - old) + share * anchor


def solve_first_order(program: WeightProgram) -> Solution:
    """Solve to a proven relative gap of 1e-4; ``status`` reports the gap.

    The weights satisfy the floors. They are not a vertex: many may be fractional.
    """
    start = time.perf_counter()
    search = Search(program)
    nothing, costs = np.abs(program.gap_offsets).sum(), np.abs(program.cost).sum()
    highest = nothing + costs + np.abs(program.gap_rows).sum()  # bounds any objective
    while True:
        best = search.best
        gain = abs(nothing - best.bound)
        near = best.gap <= max(RELATIVE_GAP * gain, EXACT * (nothing + costs))
        if near or best.bound > highest or search.iterations >= LIMIT:
            break
        search.advance()
    if np.isinf(best.objective):
        ending = "Infeasible" if best.bound > highest else f"floors broken at iteration {LIMIT}"
        raise no_optimum("the first-order method", ending, program)
    relative = max(best.gap, 0.0) / (gain or 1.0)
    limit = "" if near else ", the limit"
    return replace(
        best,
        status=f"approximate (first order, gap {relative:.1e}, "
        f"{search.iterations} iterations{limit})",
        seconds=time.perf_counter() - start,
        passes=search.passes,
    )
