"""A first-order method: weights that are nearly optimal, and the proof of how nearly.

With a price for each row, y in [−1, 1] for the gaps and μ ≥ 0 for the floors, the program is a
saddle point:

    minimise over 0 ≤ w ≤ 1, maximise over y, μ:   cost·w + y·(o − R w) − μ·(f − F w)

The primal-dual hybrid gradient method (Chambolle and Pock 2011) steps down in w and up in the
prices, and clips both into their limits: two products with the matrix, done here chunk by chunk
while the columns are in cache. Around it stands what makes it fast on linear programs (PDLP,
Applegate et al. 2021): rows scaled to length 1, iterates averaged with the point of the last
restart (Halpern's way, reflected), a restart once the proven gap has fallen enough, and a balance
of the two step sizes that follows how far weights and prices went between restarts.
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

RELATIVE_GAP = 1e-4  # of the most that weights can gain over weights of 0
EXACT = 1e-9  # of offsets and costs: what is closer is optimal
LIMIT = 10_000  # iterations
CHECK = 40  # iterations between two looks at the gap
STEP = 0.999  # of the largest step that is safe
MUCH, LITTLE = 0.2, 0.8  # the gap falls to this part: restart at once, or when it rises again
LONG = 0.36  # restart after this part of all iterations in any case
TURN = 10.0  # a restart changes the balance by at most this factor


@dataclass(frozen=True)
class Saddle:
    """The program with rows of length 1, R = K + m of them.

    Parameters
    ----------
    table : ndarray, shape (R + 1, n)
        Gap rows, floor rows negated, and the cost, which is not scaled.
    offsets, lower, upper : ndarray, shape (R,)
        Of the rows, and the limits of their prices.
    scale : ndarray, shape (R,)
        What the rows were multiplied with.
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
        """Return a point that moves by itself."""
        return Point(self.weights.copy(), self.prices, self.products)


class Search:
    """The iteration: the point it found, the one that moves, its anchor, and the best so far."""

    def __init__(self, program: WeightProgram) -> None:
        self.program, self.saddle = program, Saddle.of(program)
        k = len(program.gap_offsets)
        # The prices of weights 0, and the weights that they ask for: optimal already where no row
        # couples the weights.
        prices = np.zeros_like(self.saddle.scale)
        prices[:k] = np.sign(program.gap_offsets) * self.saddle.upper[:k]
        weights = (program.reduced_cost(self._dual(prices)) < 0).astype(np.float64)
        self.found = Point(weights, prices, self.saddle.table[:-1] @ weights)
        self.moving, self.anchor = self.found.copy(), self.found.copy()
        # Step in prices over step in weights: about as far as each may have to go.
        reach = np.hypot(np.linalg.norm(self.saddle.upper[:k]), np.linalg.norm(program.cost))
        self.balance = float(reach) / max(len(program), 1) ** 0.5 or 1.0
        self.iterations = self.anchored_at = 0
        self.passes = 6  # to stack, scale and measure the rows, and for the start
        self.now = self.best = self._certify()
        self.gap_at_anchor = self.now.gap

    def advance(self) -> None:
        """Iterate until the next look at the gap; restart from there if that pays."""
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
        """Move by one iteration of the method, then towards the anchor."""
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
        """Anchor at the point found, and set the balance by the way from the last anchor."""
        weights = np.linalg.norm(self.found.weights - self.anchor.weights)
        prices = np.linalg.norm(self.found.prices - self.anchor.prices)
        if weights > 0 or prices > 0:
            # Halfway, in logarithms, to what was travelled; one of them may not have moved at all.
            ratio = float(prices) / (self.balance * max(float(weights), 1e-300))
            self.balance *= float(np.clip(np.sqrt(ratio), 1 / TURN, TURN))
        self.moving, self.anchor = self.found.copy(), self.found.copy()
        self.anchored_at, self.gap_at_anchor = self.iterations, self.now.gap

    def _dual(self, prices: Floats) -> Dual:
        gap, floor = np.split(prices * self.saddle.scale, [len(self.program.gap_offsets)])
        return Dual(gap, floor)

    def _certify(self) -> Solution:
        """Return the point found, its floors kept; an infinite objective where they are not."""
        program = self.program
        self.passes += 2
        weights = keep_floors(program, self.found.weights)
        solution = certify(program, weights, self._dual(self.found.prices), "", 0.0)
        below = program.floor_rows @ weights - program.floor_offsets
        broken = below * self.saddle.scale[len(program.gap_offsets) :] > EXACT
        return replace(solution, objective=np.inf) if broken.any() else solution


def _anchored(new: Floats, old: Floats, anchor: Floats, share: float) -> Floats:
    """Go twice as far as from old to new, then ``share`` of the way to the anchor."""
    return (1 - share) * (2 * new - old) + share * anchor


def solve_first_order(program: WeightProgram) -> Solution:
    """Solve up to a proven gap of 1e-4 of what weights can gain; ``status`` says what was reached.

    The weights keep the floors. They are not a vertex: more than a few may be fractional.
    """
    start = time.perf_counter()
    search = Search(program)
    nothing, costs = np.abs(program.gap_offsets).sum(), np.abs(program.cost).sum()
    highest = nothing + costs + np.abs(program.gap_rows).sum()  # that any weights can cost
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
