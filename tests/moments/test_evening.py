from __future__ import annotations

import numpy as np
import pytest

from faircil.moments.evening import Blocks, Criterion, equal_shares, even_out
from faircil.moments.ridge import RidgeProblem
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.measures import disparity_matrix, find_measure
from moment_data import SIZES, grouped_samples, labels_of, moments_of, problem_of

TIGHT = 1e-5


def criterion_of(problem: RidgeProblem, measure: str = "eo", **settings: object) -> Criterion:
    keys = sorted(problem.moments.keys)
    label, attribute = (np.array(column) for column in zip(*keys, strict=True))
    groups = Groups(label, attribute, np.ones(len(keys), dtype=bool), np.array([*SIZES.values()]))
    matrix = disparity_matrix(find_measure(measure), groups)
    values = {"lam": 1.0, "certainty": 0.0, **settings}
    return Criterion(matrix, equal_shares(labels_of(problem)), **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def problem() -> RidgeProblem:
    return problem_of(moments_of(grouped_samples()))


def shares(problem: RidgeProblem, first: tuple[float, ...]) -> Floats:
    """Return weights of three classes with two values each; ``first`` are those of value 0."""
    return np.array([w for part in first for w in (part, 1 - part)]) / 3


@pytest.mark.parametrize("left_out", [True, False])
@pytest.mark.parametrize("lam", [0.3, 1.0, 3.0])
def test_no_weights_of_a_fine_grid_are_better(
    problem: RidgeProblem, lam: float, left_out: bool
) -> None:
    criterion = criterion_of(problem, lam=lam, left_out=left_out)
    found = even_out(problem, criterion, tolerance=TIGHT, most=200)
    assert found.value == pytest.approx(criterion.value(found.after))
    grid = np.linspace(0.03, 0.97, 14)
    best = min(
        criterion.value(problem.solve(shares(problem, (a, b, c)), slopes=False))
        for a in grid for b in grid for c in grid
    )  # fmt: skip
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
