"""The default solver: exact, with a proof of optimality, and HiGHS as a fallback.

It prices all columns in passes, fixes those with a clear sign at 0 or 1, and solves the rest.

The program has few rows, so at an optimum almost every weight is 0 or 1 by the sign of its reduced
cost. A sample of the columns gives rough prices. Columns whose reduced costs are far from zero at
these prices are fixed by sign. The open ones, a band around zero, are solved in the same way, until
there are few enough for the ascent of the dual (:mod:`faircil.weighting.solver.ascent`). On the way
back, all columns are priced, and those fixed on the wrong side join the small program, until there
are none. The last pass over all columns gives the bound, which proves that the weights are optimal.

Fixed columns are correct only near the rough prices, so the band is solved within a box around
these prices, which moves with the solution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from faircil.weighting.groups import Floats, Integers
from faircil.weighting.program import PROOF, Dual, Solution, WeightProgram, certify
from faircil.weighting.solver.ascent import TINY, Limits, StuckError, Vertex, ascend, row_size
from faircil.weighting.solver.columns import OPEN, Check, Columns, HostColumns, Part
from faircil.weighting.solver.highs import solve_with_highs, solve_with_ipm

SMALL = 3000  # programs up to this many columns are solved directly
SAMPLE = 1000  # minimum number of columns in the sampled program
SHARE = 64  # otherwise one column in this many
REACH = 4  # trust region of the prices per round, in band widths of typical columns
ROUNDS = 100
NEGLIGIBLE = 0.1 * PROOF  # sum of violations that is ignored
TIED = 1e-14  # relative to the largest cost: a narrower band is rounding
HIGHEST = 100.0  # bound of a floor's price, as a multiple of what changes any column's sign
PERTURBATION = 0.1 * PROOF  # relative to the sum of the costs
MANY = 20_000  # columns from which HiGHS' interior point is faster than its simplex


@dataclass(frozen=True)
class Core:
    """A reduced program that represents N columns, with its solution.

    Parameters
    ----------
    index : ndarray of int64, shape (c,)
        Indices of the columns.
    part : Part
        The columns.
    offsets : ndarray, shape (R,)
        Offsets minus the columns fixed at 1.
    vertex : Vertex
    """

    index: Integers
    part: Part
    offsets: Floats
    vertex: Vertex


@dataclass(frozen=True)
class Solved:
    """A core whose prices agree with the states of all columns."""

    core: Core
    check: Check
    passes: int


def solve_columns(columns: Columns, offsets: Floats, gaps: int) -> Solution:
    """Solve a program whose columns are read in passes.

    Parameters
    ----------
    columns : Columns
        N open columns; their states are modified.
    offsets : ndarray, shape (R,)
        Offsets of the gaps, then of the floors negated.
    gaps : int
        Number of gap rows.
    """
    return proven(columns, offsets, gaps, find_core(columns, offsets, gaps))


def find_core(columns: Columns, offsets: Floats, gaps: int) -> Solved:
    """Find and solve the reduced program that represents all columns."""
    generator = np.random.default_rng(0)
    limits = _limits(columns.take(_spread(len(columns), SAMPLE, generator)), gaps)
    return _solve(columns, offsets, limits, np.zeros(len(offsets)), generator)


def proven(columns: Columns, offsets: Floats, gaps: int, solved: Solved) -> Solution:
    """Return a solution with its proof; raise a StuckError if it cannot be proven."""
    part, vertex, check = solved.core.part, solved.core.vertex, solved.check
    left = offsets - check.fixed - part.rows @ vertex.weights
    objective = np.abs(left[:gaps]).sum() + check.fixed_cost + part.cost @ vertex.weights
    bound = vertex.prices @ offsets + check.negative
    if objective - bound > PROOF * (1 + abs(objective)):
        raise StuckError(f"a gap of {objective - bound:.1e} is left")
    if (left[gaps:] > PROOF * (1 + np.abs(offsets[gaps:]))).any():
        raise StuckError(f"a floor is broken by {left[gaps:].max():.1e}")
    return Solution(
        weights=columns.weights(solved.core.index, vertex.weights),
        objective=float(objective),
        bound=float(bound),
        status="optimal (ascent of the dual)",
        seconds=0.0,
        dual=Dual(vertex.prices[:gaps], vertex.prices[gaps:]),
        passes=solved.passes,
    )


def _solve(
    columns: Columns,
    offsets: Floats,
    limits: Limits,
    prices: Floats,
    generator: np.random.Generator,
) -> Solved:
    """Find a reduced program that represents all columns, and solve it within the limits."""
    n = len(columns)
    if n <= SMALL:
        return _directly(columns, offsets, limits, prices)
    size = max(SAMPLE, n // SHARE)
    sample = columns.take(_spread(n, size, generator)).times(n / size)
    rough = _solve(HostColumns.of(sample), offsets, limits, prices, generator).core.vertex
    # The sample's prices have a rank error of about 1/√size, larger with more open weights.
    share = min((2 + len(rough.active)) / np.sqrt(size), 0.5)
    width = float(np.quantile(np.abs(sample.cost - rough.prices @ sample.rows), share))
    if width <= TIED * float(np.abs(sample.cost).max()):
        raise StuckError("most columns are priced at zero")
    band, fixed = columns.near(rough.prices, width * size / n)
    if len(band) > 0.75 * n:  # equal columns, which no band can separate
        columns.reopen()
        return _directly(columns, offsets, limits, rough.prices)
    usual = row_size(sample.rows)
    radius = np.divide(REACH * width, usual, out=np.full_like(usual, np.inf), where=usual > 0)
    box = _box(rough.prices, radius, limits)
    inner = _solve(band.columns, offsets - fixed, box, rough.prices, generator).core
    band.settle()
    return _correct(columns, replace(inner, index=band.origin(inner.index)), limits, box, radius)


def _directly(columns: Columns, offsets: Floats, limits: Limits, prices: Floats) -> Solved:
    """Solve with all columns."""
    index = np.arange(len(columns))
    part = columns.take(index)
    vertex = ascend(part.rows, part.cost, offsets, limits, prices)
    return Solved(Core(index, part, offsets, vertex), columns.check(vertex.prices), 1)


def _correct(columns: Columns, core: Core, limits: Limits, box: Limits, radius: Floats) -> Solved:
    """Add violated columns to the core, and move the trust region, until there are none."""
    for passes in range(2, ROUNDS):
        check = columns.check(core.vertex.prices)
        prices = core.vertex.prices
        held = ((prices <= box.lower) & (box.lower > limits.lower)) | (
            (prices >= box.upper) & (box.upper < limits.upper)
        )
        if check.loss <= NEGLIGIBLE and not held.any():
            return Solved(core, check, passes)
        core = _with(columns, core, check.wrong)
        radius = 2 * radius
        box = _box(prices, radius, limits)
        part, vertex = core.part, core.vertex
        vertex = ascend(part.rows, part.cost, core.offsets, box, prices, active=vertex.active)
        core = replace(core, vertex=vertex)
    raise StuckError(f"columns still change sides after {ROUNDS} passes")


def _with(columns: Columns, core: Core, wrong: Integers) -> Core:
    """Open columns and add them to the core; its solution is then outdated."""
    part = columns.take(wrong)
    offsets = core.offsets + part.rows @ (columns.states(wrong) == 1)
    columns.put(wrong, np.full(len(wrong), OPEN, dtype=np.int8))
    part = Part(
        np.concatenate([core.part.rows, part.rows], axis=1),
        np.concatenate([core.part.cost, part.cost]),
    )
    return Core(np.concatenate([core.index, wrong]), part, offsets, core.vertex)


def _limits(part: Part, gaps: int) -> Limits:
    """Return bounds: [−1, 1] for gaps; from 0 to more than any column needs for floors."""
    size = np.abs(part.rows)
    reach = float((np.abs(part.cost) + size[:gaps].sum(axis=0)).max(initial=0.0))
    floor = size[gaps:].max(axis=1, initial=0.0)
    highest = HIGHEST * np.divide(reach, floor, out=np.ones_like(floor), where=floor > TINY)
    ones = np.ones(gaps)
    return Limits(np.concatenate([-ones, 0 * highest]), np.concatenate([ones, highest]))


def _box(centre: Floats, radius: Floats, limits: Limits) -> Limits:
    """Return the limits narrowed to a box."""
    return Limits(
        np.maximum(limits.lower, centre - radius), np.minimum(limits.upper, centre + radius)
    )


def _spread(n: int, size: int, generator: np.random.Generator) -> Integers:
    """Draw one column from each of ``size`` equal intervals; all columns if there are fewer."""
    if n <= size:
        return np.arange(n)
    drawn = (np.arange(size) + generator.random(size)) * (n / size)
    return np.minimum(drawn.astype(np.int64), n - 1)  # rounding may give n


def solve_exactly(program: WeightProgram) -> Solution:
    """Solve to a proven optimal vertex; fall back to HiGHS and give the reason in ``status``."""
    start = time.perf_counter()
    try:
        solution = _attempt(program)
    except StuckError:
        try:
            solution = _perturbed(program)
        except StuckError as reason:
            general = solve_with_highs if len(program) <= MANY else solve_with_ipm
            solution = general(program)
            status = f"{solution.status}, since our solver failed: {reason}"
            solution = replace(solution, status=status)
    return replace(solution, seconds=time.perf_counter() - start)


def _attempt(program: WeightProgram) -> Solution:
    columns = HostColumns(program.gap_rows, program.floor_rows, program.cost)
    return solve_columns(columns, program.offsets, len(program.gap_offsets))


def _perturbed(program: WeightProgram) -> Solution:
    """Solve with costs perturbed by less than the proof tolerance, which breaks ties.

    If all reduced costs can be zero at once (the cost is a sum of floor rows, so gap prices 0 and a
    price λ on every floor achieve it), an ascent can cycle.
    """
    n = len(program)
    noise = np.random.default_rng(0).uniform(0.5, 1.0, n)
    noise *= PERTURBATION / n
    rough = _attempt(replace(program, cost=program.cost + noise))
    solution = certify(program, rough.weights, rough.dual, f"{rough.status}, ties broken", 0.0)
    if solution.gap > PROOF * (1 + abs(solution.objective)):
        raise StuckError(f"a gap of {solution.gap:.1e} is left")
    return replace(solution, passes=(rough.passes or 0) + 2)  # plus objective and bound
