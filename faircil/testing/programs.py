"""The contracts of the pieces of the FSW program: measures, losses and solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from faircil.errors import SolverError
from faircil.metrics import METRICS
from faircil.nets import build_mlp
from faircil.samples import Samples
from faircil.testing.pieces import check_each, demand, known, title
from faircil.weighting.groups import Groups
from faircil.weighting.losses import LOSSES, Loss, LossFunction
from faircil.weighting.measures import MEASURES, Measure, MeasureFunction
from faircil.weighting.program import PROOF, Solution, WeightProgram
from faircil.weighting.solver import SOLVERS, Solver, SolverFunction, solve
from faircil.weighting.weights import FairSampleWeights

# Measures.


def example_groups(*, by_attribute: bool, seen: bool) -> Iterator[Groups]:
    """Yield groups as in runs: one, several classes, missing values, many."""
    for keys in (
        [(0, 0)],
        [(0, 0), (1, 0)],
        [(0, 0), (0, 1), (1, 0)],
        [(y, z) for y in range(4) for z in range(3) if (y, z) != (2, 1)],
    ):
        chosen = keys if by_attribute else sorted({(y, 0) for y, _ in keys})
        label, attribute = np.array(chosen, dtype=np.int64).T
        samples = 10 + 7 * label + 3 * attribute
        totals = {value: samples[attribute == value].sum() for value in attribute}
        yield Groups(
            label=label,
            attribute=attribute,
            current=label == label.max(),
            size=np.minimum(samples, 12),
            seen=samples if seen else None,
            seen_with_attribute=np.array([totals[v] for v in attribute]) if seen else None,
        )


def gives_a_matrix(row: Measure) -> None:
    """It gives finite numbers of shape (rows, groups) for any groups, the same each time."""
    row = _favouring(row)
    for groups in example_groups(by_attribute=row.by_attribute, seen=row.needs_seen):
        before = deepcopy(groups)
        first, again = (np.asarray(row(groups), dtype=np.float64) for _ in range(2))
        there = f"with {len(groups)} group(s)"
        shape = f"got shape {first.shape} {there}"
        demand(first.ndim == 2 and first.shape[1] == len(groups), shape)
        demand(np.isfinite(first).all(), f"it has NaN or infinite entries {there}")
        demand(np.array_equal(first, again), f"two calls differ {there}")
        same = all(
            np.array_equal(getattr(groups, n), v) for n, v in vars(before).items() if v is not None
        )
        demand(same, f"it changes the groups {there}")


def weighs_with_a_measure(row: Measure) -> None:
    """It gives weights in [0, 1] whose objective is at least the proven bound, if a sum counts."""
    if row.combine == "sum":
        _weighs(FairSampleWeights(measure=_favouring(row), alpha=0.1))


def _favouring(row: Measure) -> Measure:
    """Return the measure with favoured classes, if it needs any."""
    return row.favouring((0, 2)) if row.needs_favoured else row


def names_a_metric(row: Measure) -> None:
    """It has a summary, and its metrics exist."""
    demand(row.summary, "it has no summary: give the function a docstring")
    for name in (row.disparity, row.shown):
        demand(name in METRICS, f"'{name}' is no metric; see `faircil list metrics`")


def check_measure(measure: str | Measure | MeasureFunction) -> None:
    """Check that a measure fulfils its contract."""
    with known(MEASURES, measure) as name:
        check_each(f"measure {title(measure)}", MEASURE_CHECKS, MEASURES[name])


MEASURE_CHECKS: tuple[Callable[[Measure], None], ...] = (
    gives_a_matrix,
    weighs_with_a_measure,
    names_a_metric,
)


# Losses.


def _logits(n: int, classes: int, size: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + classes)
    logits = size * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(classes, (n,), generator=generator)


def returns_losses_and_gradients(row: Loss) -> None:
    """It returns losses, (n,), and gradients, (n, classes), finite and of the logits' type."""
    for n, classes in ((0, 3), (1, 1), (7, 4)):
        for dtype in (torch.float32, torch.float64):
            logits, y = _logits(n, classes, 3.0, dtype)
            kept = logits.clone()
            losses, gradients = row.function(logits, y)
            there = f"with logits of shape {(n, classes)}"
            demand(losses.shape == (n,), f"losses have shape {tuple(losses.shape)} {there}")
            demand(gradients.shape == (n, classes), f"gradients: {tuple(gradients.shape)} {there}")
            demand(losses.dtype == gradients.dtype == dtype, f"the type is not {dtype} {there}")
            finite = torch.isfinite(losses).all() and torch.isfinite(gradients).all()
            demand(finite, f"it has NaN or infinite values {there}")
            demand(torch.equal(logits, kept), f"it changes the logits {there}")


def gradient_is_that_of_the_loss(row: Loss) -> None:
    """The gradient is that of the loss, by central differences, and of one sample only."""
    for classes in (2, 5):
        logits, y = _logits(6, classes, 1.0, torch.float64)
        gradients, step = row.function(logits.clone(), y)[1], 1e-5
        for output in range(classes):
            change = torch.zeros(classes, dtype=torch.float64)
            change[output] = step
            up, down = (row.function(logits + sign * change, y)[0] for sign in (1, -1))
            slow = (up - down) / (2 * step)
            error = float((gradients[:, output] - slow).abs().max())
            demand(error < 1e-6 * (1 + float(slow.abs().max())), f"it is off by {error:.2g}")
        alone = row.function(logits[:1].clone(), y[:1])[0]
        whole = row.function(logits.clone(), y)[0][:1]
        demand(torch.allclose(alone, whole, rtol=1e-12), "a loss depends on other samples")


def weighs_with_a_loss(row: Loss) -> None:
    """It gives weights in [0, 1] whose objective is at least the proven bound."""
    for gradient in ("last", "all"):
        _weighs(FairSampleWeights("eer", alpha=0.1, loss=row, gradient=gradient))


LOSS_CHECKS: tuple[Callable[[Loss], None], ...] = (
    returns_losses_and_gradients,
    gradient_is_that_of_the_loss,
    weighs_with_a_loss,
)


def check_loss(loss: str | Loss | LossFunction) -> None:
    """Check that a loss of the program fulfils its contract."""
    with known(LOSSES, loss) as name:
        check_each(f"loss {title(loss)}", LOSS_CHECKS, LOSSES[name])


def _weighs(weigh: FairSampleWeights) -> None:
    generator = torch.Generator().manual_seed(0)
    net = build_mlp(6, 4, (8,), seed=0).double()

    def samples(classes: tuple[int, ...]) -> Samples:
        y = torch.tensor(classes).repeat(12)
        x = torch.randn(len(y), 6, generator=generator, dtype=torch.float64)
        return Samples(x, y, torch.arange(len(y)) // len(classes) % 2)

    seen = {(y, z): 6 for y in range(4) for z in range(2)}
    result = weigh(net, samples((2, 3)), samples((0, 1)), seen=seen)
    weights = result.weights
    demand(((weights >= 0) & (weights <= 1)).all(), "weights are outside [0, 1]")
    demand(result.objective >= result.bound - 1e-9, "the objective is below its proven bound")


# Solvers.


def example_programs() -> Iterator[WeightProgram]:
    """Yield small programs: few and many rows, rows without a difference, active floors."""
    rng = np.random.default_rng(0)
    for k, m, n, scale in [
        (0, 0, 1, 1.0), (1, 0, 3, 1.0), (0, 2, 9, 1e-2), (3, 1, 12, 1.0), (4, 2, 40, 1e-3),
        (6, 3, 30, 10.0), (2, 1, 300, 1e-2), (5, 3, 400, 0.1), (8, 2, 5000, 1e-2),
    ]:  # fmt: skip
        for _ in range(3):
            program = WeightProgram(
                rng.uniform(-1, 1, (k, n)) * scale,
                rng.uniform(-1, 1, k) * rng.choice([0, scale, 1]),
                rng.uniform(-1, 1, n) * rng.choice([0, 0.1 * scale, scale]),
                rng.uniform(-0.5, 1, (m, n)) * scale,
                rng.uniform(0, 1, m) * rng.choice([0, scale, 1]),
            )
            yield program
            yield program.columns(np.arange(n) // 3)


def check_solution(program: WeightProgram, solution: Solution, *, exact: bool = True) -> None:
    """Check all promises of a solution.

    Weights are in [0, 1] and satisfy the floors, the objective is exact, and the dual proves the
    bound. An exact solution is proven optimal, and a vertex.
    """
    weights, objective, bound = solution.weights, solution.objective, solution.bound
    digits = 1 + abs(objective)
    demand(weights.shape == (len(program),), f"weights have shape {weights.shape}")
    demand(np.isfinite(weights).all(), "weights are not finite")
    demand(weights.min() >= 0 and weights.max() <= 1, "weights are outside [0, 1]")
    broken = program.violation(weights)
    demand(broken <= 1e-9, f"a floor is broken by {broken:.2g}")
    value = program.objective(weights)
    demand(abs(objective - value) <= 1e-12 * (1 + abs(value)), f"{objective} is not the objective")
    proven = program.bound(solution.dual)
    demand(
        abs(bound - proven) <= 1e-9 * (1 + abs(proven)), f"the dual proves {proven}, not {bound}"
    )
    gap = solution.gap
    demand(gap >= -PROOF * digits, f"the bound is {-gap:.2g} above the objective")
    rng = np.random.default_rng(0)
    for other in (np.zeros_like(weights), np.ones_like(weights), np.full_like(weights, 0.5)):
        for candidate in (other, other * rng.random(len(weights))):
            if program.violation(candidate) == 0:
                least = program.objective(candidate)
                demand(bound <= least + 1e-12 * digits, "a feasible point is below the bound")
                better = objective <= least + 1e-9 * digits
                demand(better or not exact, "a simple feasible point is better")
    if exact:
        demand(gap <= PROOF * digits, f"optimality is not proven: the gap is {gap:.2g}")
        fractional = int(((weights > 1e-9) & (weights < 1 - 1e-9)).sum())
        rows = len(program.gap_rows) + len(program.floor_rows)
        demand(fractional <= rows, f"{fractional} weights are fractional with {rows} rows")


def solves_small_programs(row: Solver) -> None:
    """Its solutions keep their promises, and an exact solver finds the optimum."""
    for program in example_programs():
        before = deepcopy(program)
        solution = row.solve(program)
        rows = f"{len(program.gap_rows)} gaps, {len(program.floor_rows)} floors"
        size = f"{len(program)} weights, {rows}"
        try:
            check_solution(program, solution, exact=row.exact)
        except AssertionError as error:
            raise AssertionError(f"{error} ({size})") from None
        optimum = solve(program, "exact").objective
        digits = 1 + abs(optimum)
        demand(solution.bound <= optimum + 1e-9 * digits, f"the bound is not valid ({size})")
        off = solution.objective - optimum
        demand(off >= -1e-8 * digits, f"its objective is below the optimum ({size})")
        demand(not row.exact or off <= 1e-8 * digits, f"it is {off:.2g} above the optimum ({size})")
        same = all(
            np.array_equal(getattr(program, name), array) for name, array in vars(before).items()
        )
        demand(same, f"it changes the program ({size})")


def refuses_impossible_floors(row: Solver) -> None:
    """An exact solver raises SolverError where no weights keep the floors."""
    floor = np.full((1, 3), -1 / 3)
    program = WeightProgram(np.ones((1, 3)), np.ones(1), np.zeros(3), floor, np.array([-2.0]))
    if row.exact:
        try:
            row.solve(program)
        except SolverError:
            return
        raise AssertionError("it returns weights")


SOLVER_CHECKS: tuple[Callable[[Solver], None], ...] = (
    solves_small_programs,
    refuses_impossible_floors,
)


def check_solver(solver: str | Solver | SolverFunction) -> None:
    """Check that a solver fulfils its contract; bare functions are treated as exact."""
    with known(SOLVERS, solver) as name:
        check_each(f"solver {title(solver)}", SOLVER_CHECKS, SOLVERS[name])
