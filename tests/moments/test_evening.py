from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import OptimizeResult, minimize
from torch.nn.functional import one_hot

from faircil.errors import SolverError
from faircil.moments import evening
from faircil.moments.criterion import Blocks, Criterion
from faircil.moments.evening import even_out, evened_further, proven_bound
from faircil.moments.ridge import RidgeProblem, RidgeSolution
from faircil.samples import Samples
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.measures import disparity_matrix, find_measure
from moment_data import (
    SIZES,
    WIDTH,
    equal_shares,
    features,
    grouped_samples,
    labels_of,
    moments_of,
    plain_losses,
    problem_of,
    rows_by_group,
)

TIGHT = 1e-5


def criterion_of(problem: RidgeProblem, measure: str = "eo", **settings: object) -> Criterion:
    keys = sorted(problem.moments.keys)
    label, attribute = (np.array(column) for column in zip(*keys, strict=True))
    size = problem.size.numpy().astype(np.int64)
    groups = Groups(label, attribute, np.ones(len(keys), dtype=bool), size)
    matrix = disparity_matrix(find_measure(measure), groups)
    values = {"lam": 1.0, "certainty": 0.0, **settings}
    return Criterion(matrix, equal_shares(labels_of(problem)), **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def problem() -> RidgeProblem:
    return problem_of(moments_of(grouped_samples()))


def shares(problem: RidgeProblem, first: tuple[float, ...]) -> Floats:
    """Return weights of three classes with two values each; ``first`` are those of value 0."""
    return np.array([w for part in first for w in (part, 1 - part)]) / 3


@pytest.fixture(scope="module")
def fine_grid(problem: RidgeProblem) -> list[RidgeSolution]:
    """Return the solutions of all weights on a grid: they do not depend on a criterion."""
    grid = np.linspace(0.03, 0.97, 14)
    weights = (shares(problem, first) for first in product(grid, repeat=3))
    return [problem.solve(one, slopes=False) for one in weights]


@pytest.mark.parametrize(("lam", "left_out"), [(0.3, True), (1.0, False), (1.0, True)])
def test_no_weights_of_a_fine_grid_are_better(
    problem: RidgeProblem, fine_grid: list[RidgeSolution], lam: float, left_out: bool
) -> None:
    criterion = criterion_of(problem, lam=lam, left_out=left_out)
    found = even_out(problem, criterion, tolerance=TIGHT, most=200)
    assert found.value == pytest.approx(criterion.value(found.after))
    best = min(map(criterion.value, fine_grid))
    assert found.value <= best * (1 + 10 * TIGHT)
    assert found.value < criterion.value(found.before)
    assert found.promise <= TIGHT * found.value


def test_with_lam_1_and_two_values_the_larger_loss_of_each_class_is_smallest(
    problem: RidgeProblem,
) -> None:
    criterion = criterion_of(problem)
    found = even_out(problem, criterion, tolerance=TIGHT, most=200)
    losses = found.after.left_out.losses.reshape(3, 2)
    assert found.value == pytest.approx(losses.max(axis=1).mean())
    before = found.before.left_out.losses.reshape(3, 2)
    assert losses.max(axis=1).mean() < before.max(axis=1).mean()


def test_a_smaller_lam_is_more_even_and_a_larger_one_loses_less(problem: RidgeProblem) -> None:
    found = {
        lam: even_out(problem, criterion_of(problem, lam=lam), tolerance=TIGHT, most=200).after
        for lam in (0.1, 1.0, 10.0)
    }
    criterion = criterion_of(problem)
    disparity = [criterion.disparity(solution.left_out.losses) for solution in found.values()]
    mean = [criterion.mean(solution.left_out.losses) for solution in found.values()]
    assert disparity == sorted(disparity)
    assert mean == sorted(mean, reverse=True)
    assert disparity[0] < 0.6 * disparity[-1]


@pytest.mark.parametrize(("measure", "blocks"), [("eo", 3), ("eer", 1)])
def test_blocks_of_groups_that_are_compared_keep_their_weight(
    problem: RidgeProblem, measure: str, blocks: int
) -> None:
    criterion = criterion_of(problem, measure)
    found = Blocks.of(criterion)
    assert found.number == blocks
    weights = even_out(problem, criterion).after.weights
    np.testing.assert_allclose(found.summed(weights), found.summed(criterion.share))
    assert not np.allclose(weights, criterion.share)


def test_slopes_by_the_logarithm_are_those_of_finite_differences(problem: RidgeProblem) -> None:
    blocks = Blocks.of(criterion_of(problem))
    log_w = np.array([0.2, -0.4, 0.0, 1.0, -0.3, 0.1])
    weights = blocks.weights(log_w)
    turned = blocks.slopes(weights, problem.solve(weights).loss_slopes)
    for group in range(len(log_w)):
        sides = [
            problem.solve(blocks.weights(log_w + sign * 1e-5 * np.eye(6)[group])).losses
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(turned[:, group], (sides[0] - sides[1]) / 2e-5, atol=1e-6)


def test_differences_within_their_uncertainty_are_left(problem: RidgeProblem) -> None:
    def ended(certainty: float, lam: float = 1.0) -> tuple[float, float]:
        criterion = criterion_of(problem, certainty=certainty, lam=lam)
        losses = even_out(problem, criterion, tolerance=TIGHT, most=200).after.left_out.losses
        return criterion.mean(losses), criterion.disparity(losses)

    sure, wide, mean_alone = ended(0.0), ended(100.0), ended(0.0, lam=1000.0)
    assert wide[0] == pytest.approx(mean_alone[0], rel=1e-3)
    assert sure[0] > wide[0]
    assert sure[1] < ended(1.0)[1] < wide[1]


def test_earlier_weights_are_a_start_that_leads_to_the_same_end(problem: RidgeProblem) -> None:
    criterion = criterion_of(problem)
    far = shares(problem, (0.1, 0.9, 0.2))
    ends = [even_out(problem, criterion, start, tolerance=TIGHT, most=200) for start in (None, far)]
    assert ends[0].value == pytest.approx(ends[1].value, rel=1e-3)


def test_without_anything_to_compare_the_shares_stay() -> None:
    problem = problem_of(moments_of(grouped_samples({(0, 0): 20, (1, 0): 20, (2, 0): 20})))
    criterion = Criterion(np.zeros((0, 3)), np.full(3, 1 / 3), 1.0)
    found = even_out(problem, criterion)
    assert found.solved == 1
    np.testing.assert_array_equal(found.after.weights, criterion.share)


def test_shares_are_equal_over_classes_and_within_them() -> None:
    assert equal_shares(np.array([0, 0, 1, 2, 2, 2])).tolist() == pytest.approx(
        [1 / 6, 1 / 6, 1 / 3, 1 / 9, 1 / 9, 1 / 9]
    )


def test_a_group_of_one_row_is_too_uncertain_to_take_weight_from_others() -> None:
    sizes = {**SIZES, (0, 1): 1}
    problem = problem_of(moments_of(grouped_samples(sizes)))
    found = even_out(problem, criterion_of(problem, certainty=1.0), tolerance=TIGHT)
    blind = even_out(problem, criterion_of(problem, certainty=0.0), tolerance=TIGHT)
    before, after = found.before.left_out.losses, found.after.left_out.losses
    assert after[0] < 1.2 * before[0]
    assert found.after.errors[1] > found.after.errors[0]
    assert blind.after.left_out.losses[0] >= after[0] - 1e-6


def test_losses_that_rounding_makes_0_end_the_search_without_a_division_by_0() -> None:
    # The inputs tell the class. With a penalty λ of 1e-5 losses are about λ², less than float32
    # resolves beside 1. Class 2 has one group: nothing moves within its block, which gains nothing.
    samples = grouped_samples({key: n for key, n in SIZES.items() if key != (2, 1)})
    known = replace(samples, x=one_hot(samples.y, WIDTH - 1).double())
    problem = problem_of(moments_of(known, dtype=torch.float32), ridge=1e-5)
    found = even_out(problem, criterion_of(problem))  # here a warning is an error
    assert found.value == 0
    assert np.isfinite(found.after.weights).all()
    assert found.after.weights[-1] == pytest.approx(1 / 3)


def worst_of(problem: RidgeProblem, **settings: object) -> Criterion:
    return criterion_of(problem, "worst", combine="largest", **settings)


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_no_weights_of_many_draws_have_a_better_worst_group(
    problem: RidgeProblem, lam: float
) -> None:
    criterion = worst_of(problem, lam=lam)
    found = even_out(problem, criterion, tolerance=TIGHT, most=200)
    losses = found.after.left_out.losses
    assert found.value == pytest.approx(lam * criterion.mean(losses) + losses.max())
    assert losses.max() < 0.9 * found.before.left_out.losses.max()
    generator = np.random.default_rng(0)
    near = found.after.weights * np.exp(generator.normal(scale=0.3, size=(100, 6)))
    anywhere = generator.dirichlet(np.ones(6), 200)
    best = min(
        criterion.value(problem.solve(w / w.sum(), slopes=False)) for w in [*near, *anywhere]
    )
    assert found.value <= best * (1 + 10 * TIGHT)


def test_all_groups_exchange_weight_where_the_worst_counts(problem: RidgeProblem) -> None:
    criterion = worst_of(problem)
    assert Blocks.of(criterion).number == 1
    weights = even_out(problem, criterion).after.weights
    assert weights.sum() == pytest.approx(1)
    assert not np.allclose(weights.reshape(3, 2).sum(axis=1), 1 / 3, atol=0.01)


def test_a_group_that_is_not_surely_the_worst_is_no_reason_to_move_weight(
    problem: RidgeProblem,
) -> None:
    unsure = worst_of(problem, certainty=1000.0)
    losses = problem.solve(unsure.share).left_out
    assert unsure.value(problem.solve(unsure.share)) == pytest.approx(
        2 * unsure.mean(losses.losses)
    )
    found = even_out(problem, unsure, tolerance=TIGHT, most=200)
    mean_alone = even_out(problem, worst_of(problem, lam=1e4), tolerance=1e-7, most=200)
    assert found.value / 2 == pytest.approx(unsure.mean(mean_alone.after.left_out.losses), rel=1e-3)


def objective_of_rows(criterion: Criterion, samples: Samples, head: Floats) -> float:
    """Return Φ of a head, (d, C), with training losses computed row by row."""
    losses = plain_losses(samples, torch.from_numpy(head))
    return criterion.lam * criterion.mean(losses) + criterion.disparity(losses)


def smallest_penalised(criterion: Criterion, problem: RidgeProblem, total: float) -> float:
    """Return the minimum over all heads of ``Φ + total · λ‖W‖²`` by a generic solver.

    The terms are variables t with ``t ≥`` each of their sides, so that everything is smooth.
    """
    samples = grouped_samples()
    n_terms, label = criterion.n_terms, labels_of(problem)
    phi = features(samples.x).numpy()
    means = [
        (phi[rows].T @ phi[rows] / len(rows), phi[rows].mean(axis=0))
        for rows in map(np.asarray, rows_by_group(samples))
    ]

    def losses(w: Floats) -> tuple[Floats, Floats]:
        head = w.reshape(WIDTH, 3)
        values, slopes = [], []
        for (second, first), y in zip(means, label, strict=True):
            on = second @ head
            values.append((head * on).sum() - 2 * first @ head[:, y] + 1)
            slope = 2 * on
            slope[:, y] -= 2 * first
            slopes.append(slope.ravel())
        return np.array(values), np.array(slopes)

    def objective(x: Floats) -> tuple[float, Floats]:
        w, t = x[:-n_terms], x[-n_terms:]
        values, slopes = losses(w)
        penalty = total * problem.penalty
        value = criterion.lam * criterion.mean(values) + t.sum() + penalty * w @ w
        gradient = criterion.lam * criterion.share @ slopes + 2 * penalty * w
        return value, np.concatenate([gradient, np.ones(n_terms)])

    own = criterion.term[:, None] == np.arange(n_terms)
    above = {
        "type": "ineq",
        "fun": lambda x: own @ x[-n_terms:] - criterion.sides @ losses(x[:-n_terms])[0],
        "jac": lambda x: np.hstack([-criterion.sides @ losses(x[:-n_terms])[1], own]),
    }
    start = np.concatenate([np.zeros(WIDTH * 3), criterion.terms(losses(np.zeros(WIDTH * 3))[0])])
    options = {"maxiter": 500, "ftol": 1e-12}
    answer = minimize(
        objective, start, jac=True, method="SLSQP", constraints=[above], options=options
    )
    assert answer.success
    return float(answer.fun)


@pytest.mark.parametrize(
    ("measure", "lam", "total"),
    [("eo", 1.0, 1.0), ("eo", 3.0, 3.0), ("eer", 2.0, 2.0), ("worst", 0.5, 1.5)],
)
def test_the_proven_bound_meets_the_optimum_of_a_convex_problem(
    problem: RidgeProblem, measure: str, lam: float, total: float
) -> None:
    combine = find_measure(measure).combine
    criterion = criterion_of(problem, measure, lam=lam, left_out=False, combine=combine)
    found = even_out(problem, criterion, tolerance=TIGHT, most=200)
    bound = proven_bound(found)
    penalised = found.value + total * problem.penalty * found.after.squared_norm
    optimum = smallest_penalised(criterion, problem, total)
    # From below, and as close as a quadratic model of so smooth a function is.
    assert -1e-8 <= optimum - (penalised - bound) < 1e-3 * optimum
    assert bound < 0.01 * found.value


@pytest.mark.parametrize("measure", ["eo", "worst"])
@pytest.mark.parametrize("lam", [0.0, 0.1, 1.0])
def test_no_head_of_the_same_norm_beats_the_proven_bound(
    problem: RidgeProblem, measure: str, lam: float
) -> None:
    combine = find_measure(measure).combine
    criterion = criterion_of(problem, measure, lam=lam, left_out=False, combine=combine)
    found = even_out(problem, criterion)
    bound, samples = proven_bound(found), grouped_samples()
    assert 0 < bound <= found.value
    head = found.after.head.numpy()
    generator = np.random.default_rng(0)
    for scale in (0.003, 0.03, 0.3):
        for _ in range(20):
            other = head + scale * generator.normal(size=head.shape)
            other *= min(1.0, np.linalg.norm(head) / np.linalg.norm(other))
            assert objective_of_rows(criterion, samples, other) >= found.value - bound


@pytest.mark.parametrize("certainty", [0.0, 1.0])
def test_left_out_losses_have_a_bound_with_their_factors_held(
    problem: RidgeProblem, certainty: float
) -> None:
    found = even_out(problem, criterion_of(problem, certainty=certainty))
    assert 0 < proven_bound(found) < 0.1 * found.value


def test_fixed_weights_are_optimal_for_what_they_minimise(problem: RidgeProblem) -> None:
    share = np.full(6, 1 / 6)
    found = even_out(problem, Criterion(np.zeros((0, 6)), share, 2.0, left_out=False))
    assert proven_bound(found) == pytest.approx(0, abs=1e-12)


def test_what_more_evenness_costs(problem: RidgeProblem) -> None:
    found = even_out(problem, criterion_of(problem))
    further = evened_further(found)
    assert further.criterion.lam == 0.25
    here, there = (criterion_of(problem).losses_of(end.after).losses for end in (found, further))
    assert found.criterion.disparity(there) < 0.9 * found.criterion.disparity(here)
    assert found.criterion.mean(there) > found.criterion.mean(here)


def test_chance_explains_differences_of_equal_groups_and_not_those_of_others() -> None:
    generator = torch.Generator().manual_seed(0)
    found = []
    for shift in (0.0, 1.5):
        # The attribute has nothing to do with the class, then it hides it in one group.
        for _ in range(8):
            y, z = torch.arange(4).repeat(60).div(2, rounding_mode="floor"), torch.arange(240) % 2
            x = torch.randn(240, WIDTH - 1, generator=generator, dtype=torch.float64)
            x[:, 0] += 2.0 * y - shift * y * z
            problem = problem_of(moments_of(Samples(x, y, z)))
            criterion = criterion_of(problem)
            found.append(criterion.chance(problem.solve(criterion.share)))
    even, uneven = found[:8], found[8:]
    assert sum(p > 0.05 for p in even) >= 6  # one of twenty is below by chance alone
    assert max(uneven) < 0.01
    largest = replace(criterion, combine="largest")
    assert largest.chance(problem.solve(criterion.share)) is None


@pytest.mark.parametrize("works", ["highs-ipm", "nothing"])
def test_a_program_that_a_method_loses_is_solved_by_another(
    problem: RidgeProblem, works: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    criterion, real = criterion_of(problem), evening.linprog
    expected = even_out(problem, criterion)

    def loses(*program: object, method: str, **others: object) -> OptimizeResult:
        if method != works:
            return OptimizeResult(x=None, message="model_status is Unknown")
        found: OptimizeResult = real(*program, method=method, **others)
        return found

    monkeypatch.setattr(evening, "linprog", loses)
    if works == "nothing":
        with pytest.raises(SolverError, match="weights of 6 groups could not be chosen: model_s"):
            even_out(problem, criterion)
    else:
        # Both end where no step promises more than the tolerance.
        assert even_out(problem, criterion).value == pytest.approx(expected.value, rel=1e-2)


def test_a_program_of_many_sides_is_solved_by_the_interior_point_method(
    problem: RidgeProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    criterion, real, used = criterion_of(problem), evening.linprog, []
    expected = even_out(problem, criterion)

    def noted(*program: object, method: str, **others: object) -> OptimizeResult:
        used.append(method)
        found: OptimizeResult = real(*program, method=method, **others)
        return found

    monkeypatch.setattr(evening, "linprog", noted)
    monkeypatch.setattr(evening, "MANY_SIDES", len(criterion.sides))
    assert even_out(problem, criterion).value == pytest.approx(expected.value, rel=1e-2)
    assert {*used} == {"highs-ipm"}
