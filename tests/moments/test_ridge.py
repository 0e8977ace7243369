from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.utils._python_dispatch import TorchDispatchMode

from faircil.errors import DataError
from faircil.moments import factors, group_moments, ridge
from faircil.moments.classifiers import best_temperature, fit_temperature, left_out_draws
from faircil.moments.factors import inverse_by_products, inverse_of
from faircil.moments.ridge import RidgeProblem
from moment_data import (
    SIZES,
    WIDTH,
    equal_shares,
    features,
    grouped_samples,
    labels_of,
    moments_of,
    plain_losses,
    plain_ridge,
    problem_of,
    rows_by_group,
)

LARGE = {(0, 0): 900, (0, 1): 300, (1, 0): 600, (1, 1): 600, (2, 0): 900, (2, 1): 200}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
WEIGHTS = np.array([0.1, 0.25, 0.2, 0.05, 0.3, 0.1])


def exact_probes(problem: RidgeProblem) -> RidgeProblem:
    """Let the probes give the traces exactly: ``Z Zᵀ/PROBES = I``."""
    problem.probes = ridge.PROBES**0.5 * torch.eye(WIDTH, dtype=torch.float64)
    return problem


@pytest.mark.parametrize("penalty", [1e-4, 0.01, 1.0])
def test_the_solution_and_its_losses_are_those_of_the_rows(penalty: float) -> None:
    samples = grouped_samples()
    problem = problem_of(moments_of(samples), penalty)
    found = problem.solve(WEIGHTS)
    head = plain_ridge(samples, WEIGHTS, problem.penalty)
    torch.testing.assert_close(found.head, head, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.losses, plain_losses(samples, head), rtol=1e-8)


def test_any_order_of_tasks_gives_joint_training() -> None:
    samples = grouped_samples()
    tasks = [samples.take(samples.y == label) for label in range(3)]
    heads = [
        problem_of(moments_of(*(tasks[i] for i in order))).solve(WEIGHTS).head
        for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0))
    ]
    joint = problem_of(moments_of(samples))
    expected = plain_ridge(samples, WEIGHTS, joint.penalty)
    for head in heads:
        torch.testing.assert_close(head, expected, rtol=1e-8, atol=1e-8)


def test_removing_rows_gives_the_solution_without_them() -> None:
    samples, gone = grouped_samples(), grouped_samples(seed=7)
    moments = moments_of(samples, gone)
    moments.remove(gone, features)
    found, expected = (problem_of(m).solve(WEIGHTS).head for m in (moments, moments_of(samples)))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_cells_of_a_group_count_by_their_rows() -> None:
    samples = grouped_samples()
    moments = moments_of(samples)
    classes = RidgeProblem(moments, [key[0] for key in moments.keys], np.arange(3), 0.01)
    weights = np.array([0.5, 0.2, 0.3])
    found = classes.solve(weights)
    split = [w * n / m for (y, _), n in sorted(SIZES.items())
             for w, m in [(weights[y], SIZES[y, 0] + SIZES[y, 1])]]  # fmt: skip
    expected = plain_ridge(samples, split, classes.penalty)
    torch.testing.assert_close(found.head, expected, rtol=1e-8, atol=1e-8)
    rows = plain_losses(samples, expected).reshape(3, 2)
    sizes = np.array([n for _, n in sorted(SIZES.items())]).reshape(3, 2)
    np.testing.assert_allclose(found.losses, (rows * sizes).sum(1) / sizes.sum(1), rtol=1e-8)


@pytest.mark.parametrize("left_out", [False, True])
def test_slopes_are_those_of_finite_differences(left_out: bool) -> None:
    problem = exact_probes(problem_of(moments_of(grouped_samples())))
    step = 1e-5
    found = problem.solve(WEIGHTS)
    slopes = (found.left_out if left_out else found).loss_slopes
    for group in range(len(WEIGHTS)):
        sides = []
        for sign in (1, -1):
            moved = WEIGHTS.copy()
            moved[group] += sign * step
            solution = problem.solve(moved)
            sides.append((solution.left_out if left_out else solution).losses)
        # Central differences: an error of step² by the third derivative, 1e-16/step by rounding.
        np.testing.assert_allclose(slopes[:, group], (sides[0] - sides[1]) / (2 * step), atol=1e-6)


def test_slopes_of_losses_are_symmetric_and_negative() -> None:
    slopes = problem_of(moments_of(grouped_samples())).solve(WEIGHTS).loss_slopes
    np.testing.assert_allclose(slopes, slopes.T, atol=1e-12)
    assert np.linalg.eigvalsh(slopes).max() < 1e-12


def test_probes_estimate_the_slopes_of_the_leverage() -> None:
    problem = problem_of(moments_of(grouped_samples()))
    estimate = problem.solve(WEIGHTS).leverage_slopes
    exact = exact_probes(problem).solve(WEIGHTS).leverage_slopes
    error = np.abs(estimate - exact).max()
    # A mean of 16 estimates with a deviation of at most √2 of a trace; its own slope is on top.
    assert error < np.abs(exact).max()
    assert np.corrcoef(estimate.ravel(), exact.ravel())[0, 1] > 0.95


def left_out_losses(penalty_weights: np.ndarray, penalty: float) -> tuple[list, list]:  # type: ignore[type-arg]
    """Return each row's loss by the solution without it, and its leverage, by group."""
    samples = grouped_samples()
    phi, target = features(samples.x), one_hot(samples.y, 3).double()
    per_row = torch.zeros(len(samples), dtype=torch.float64)
    rows_of = rows_by_group(samples)
    for rows, weight in zip(rows_of, penalty_weights, strict=True):
        per_row[rows] = float(weight) / len(rows)
    eye = penalty * torch.eye(WIDTH, dtype=torch.float64)
    matrix = phi.T @ (per_row[:, None] * phi) + eye
    losses, leverage = torch.zeros(len(samples)).double(), torch.zeros(len(samples)).double()
    for row in range(len(samples)):
        kept = per_row.clone()
        kept[row] = 0
        weighted = phi.T * kept
        head = torch.linalg.solve(weighted @ phi + eye, weighted @ target)
        losses[row] = (phi[row] @ head - target[row]).square().sum()
        leverage[row] = per_row[row] * phi[row] @ torch.linalg.solve(matrix, phi[row])
    return [losses[rows].numpy() for rows in rows_of], [leverage[rows].numpy() for rows in rows_of]


def test_the_left_out_loss_is_that_of_leaving_rows_out_within_its_bound() -> None:
    problem = problem_of(moments_of(grouped_samples()))
    found = problem.solve(WEIGHTS)
    losses, leverage = left_out_losses(WEIGHTS, problem.penalty)
    for group, (exact, h) in enumerate(zip(losses, leverage, strict=True)):
        assert found.leverage[group] == pytest.approx(h.mean(), rel=1e-9)
        # Row by row the factor is 1/(1 − h_i)²; the mean leverage gives one for all of them.
        factors = np.abs(1 / (1 - h) ** 2 - 1 / (1 - h.mean()) ** 2)
        estimate = found.left_out.losses[group]
        assert abs(estimate - exact.mean()) <= factors.max() * found.losses[group] + 1e-12
        assert abs(estimate - exact.mean()) < 0.25 * abs(found.losses[group] - exact.mean())


def test_standard_errors_are_those_of_gaussian_scores() -> None:
    large = grouped_samples({(0, 0): 4000, (1, 0): 4000, (2, 0): 4000}, seed=5)
    problem = problem_of(moments_of(large))
    found = problem.solve(np.full(3, 1 / 3))
    away = features(large.x) @ found.head - one_hot(large.y, 3)
    losses = away.square().sum(dim=1)
    for rows, error in zip(rows_by_group(large), found.errors, strict=True):
        # Features are Gaussian here; the deviation of 4000 losses is known within a few percent.
        assert error == pytest.approx(float(losses[rows].std()) / 4000**0.5, rel=0.1)


def test_a_group_of_one_row_and_constant_features_have_a_solution() -> None:
    samples = grouped_samples({(0, 0): 1, (0, 1): 30, (1, 0): 1})
    samples.x[:, 2] = 3.0
    found = problem_of(moments_of(samples)).solve(np.array([0.3, 0.2, 0.5]))
    assert np.isfinite(found.left_out.losses).all()
    assert (found.leverage < 1).all()


def test_singular_moments_are_an_error_that_says_what_to_do() -> None:
    moments = moments_of(grouped_samples({(0, 0): 2, (1, 0): 2}))
    with pytest.raises(DataError, match=r"singular.*larger `ridge`"):
        problem_of(moments, ridge=0.0).solve(np.array([0.5, 0.5]))


def likelihood(scores: Tensor, y: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(scores, y))


def test_the_temperature_is_nearly_the_best_for_rows_that_were_not_seen() -> None:
    problem = problem_of(moments_of(grouped_samples(LARGE)))
    share = equal_shares(labels_of(problem))
    solution = problem.solve(share)
    found = fit_temperature(problem, solution, share)
    even = dict.fromkeys(LARGE, 400)
    unseen = grouped_samples(even, seed=9)
    scores = features(unseen.x) @ solution.head
    best = min(likelihood(scores / t, unseen.y) for t in np.geomspace(0.01, 10, 200))
    assert likelihood(scores / found, unseen.y) < best + 0.005
    assert likelihood(scores, unseen.y) > best + 0.05


def test_draws_have_the_moments_of_rows_that_were_left_out() -> None:
    problem = problem_of(moments_of(grouped_samples(LARGE)))
    solution = problem.solve(equal_shares(labels_of(problem)))
    scores, label = left_out_draws(problem, solution, torch.arange(len(problem)))
    away = scores - torch.nn.functional.one_hot(label)[:, None, :]
    drawn = away.square().sum(dim=2).mean(dim=1).numpy()
    # The mean of 200 draws; their deviation is that of a single loss.
    errors = solution.left_out.errors * np.sqrt(problem.size.numpy() / scores.shape[1])
    assert (np.abs(drawn - solution.left_out.losses) < 4 * errors).all()


def test_one_class_needs_no_temperature() -> None:
    problem = problem_of(moments_of(grouped_samples({(0, 0): 20, (0, 1): 10})))
    assert fit_temperature(problem, problem.solve(np.full(2, 0.5)), np.full(2, 0.5)) == 1.0


def by_class(problem: RidgeProblem, monkeypatch: pytest.MonkeyPatch) -> RidgeProblem:
    """Return the problem as if there were too many groups to look at together."""
    monkeypatch.setattr(ridge, "AT_ONCE", 1)
    many = exact_probes(problem_of(problem.moments))
    assert not many.whole
    assert len(many.parts) == 3
    return many


def test_many_groups_are_looked_at_class_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    few = exact_probes(problem_of(moments_of(grouped_samples())))
    many = by_class(few, monkeypatch)
    # All combinations of signs: Z Zᵀ = I, as random ones have on average.
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3).T
    many.columns = signs / signs.shape[1] ** 0.5
    exact, found = few.solve(WEIGHTS), many.solve(WEIGHTS)
    for name in ("losses", "leverage", "errors"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=1e-9)
    label = labels_of(few)
    same = label[:, None] == label
    np.testing.assert_allclose(found.loss_slopes[same], exact.loss_slopes[same], atol=1e-10)
    np.testing.assert_allclose(found.leverage_slopes[same], exact.leverage_slopes[same], atol=1e-10)


def test_slopes_between_many_classes_have_the_right_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    few = exact_probes(problem_of(moments_of(grouped_samples())))
    exact, found = few.solve(WEIGHTS), by_class(few, monkeypatch).solve(WEIGHTS)
    sums = [WEIGHTS @ solution.loss_slopes for solution in (exact, found)]
    np.testing.assert_allclose(*sums, atol=1e-10)
    rows = np.array([n for _, n in sorted(SIZES.items())])
    sums = [rows @ solution.leverage_slopes for solution in (exact, found)]
    np.testing.assert_allclose(*sums, atol=1e-10)
    other = labels_of(few) != 0
    assert np.ptp(found.loss_slopes[other, 0]) < 1e-12
    assert np.ptp(exact.loss_slopes[other, 0]) > 1e-3


def test_many_classes_are_seen_through_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    few = problem_of(moments_of(grouped_samples()))
    exact = few.solve(WEIGHTS)
    monkeypatch.setattr(ridge, "AT_ONCE", 1)
    monkeypatch.setattr(ridge, "COLUMNS", 2)
    many = problem_of(few.moments)
    assert many.columns.shape == (3, 2)
    found = many.solve(WEIGHTS)
    np.testing.assert_allclose(found.losses, exact.losses)
    np.testing.assert_allclose(found.leverage, exact.leverage)
    assert not np.allclose(found.errors, exact.errors)
    assert (np.diag(found.loss_slopes) < 0).all()


class Largest(TorchDispatchMode):
    """Note the largest tensor that an operation returns."""

    numbers = 0

    def __torch_dispatch__(
        self, call: Callable[..., Any], _: object, words: Any = (), named: Any = None
    ) -> Any:
        found = call(*words, **(named or {}))
        if isinstance(found, Tensor):
            self.numbers = max(self.numbers, found.numel())
        return found


@pytest.mark.parametrize("classes", [60, 90])
def test_working_memory_is_bounded_with_more_classes_than_features(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = grouped_samples({(y, z): 2 for y in range(classes) for z in (0, 1)})
    weights = np.full(2 * classes, 0.5 / classes)
    exact = problem_of(moments_of(samples)).solve(weights, slopes=False)
    # Of all groups together, products are 2 · 90 · 7 · (90 + 16), and what the variance takes
    # 2 · 90 · 90 · 90: more than there may be.
    monkeypatch.setattr(ridge, "AT_ONCE", limit := 150_000)
    problem = problem_of(moments_of(samples))
    with Largest() as largest:
        found = problem.solve(weights, slopes=False)
    assert problem.whole
    assert largest.numbers <= limit
    np.testing.assert_allclose(found.errors, exact.errors, rtol=1e-12)


def test_some_of_many_groups_give_the_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(moments_of(grouped_samples(LARGE)))
    share = equal_shares(labels_of(problem))
    solution = problem.solve(share)
    assert problem.some_groups().tolist() == [0, 1, 2, 3, 4, 5]
    monkeypatch.setattr(ridge, "AT_ONCE", 2 * 3 * (3 + ridge.DRAWS) * 4)
    some = problem.some_groups()
    assert some.tolist() == [0, 2, 3, 5]
    scores, label = left_out_draws(problem, solution, some)
    expected = best_temperature(scores, label, share[some])
    assert fit_temperature(problem, solution, share) == expected


@pytest.mark.parametrize("width", [1, 4, 9, 12])
def test_the_inverse_by_blocks_is_the_inverse(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "BLOCK", 4)
    rows = torch.randn(30, width, generator=torch.Generator().manual_seed(0)).double()
    matrix = rows.T @ rows
    found = inverse_of(torch.linalg.cholesky(matrix), threads=True)
    # An error of ε in the factor is one of ε times the condition number in the inverse.
    torch.testing.assert_close(found, torch.linalg.inv(matrix), rtol=1e-12, atol=1e-13)
    assert torch.equal(found, found.T)


@pytest.mark.parametrize("width", [1, 3, 4, 9, 23])
def test_the_inverse_by_products_is_the_inverse(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "BLOCK", 2)
    monkeypatch.setattr(factors, "LEFT", 3)
    rows = torch.randn(60, width, generator=torch.Generator().manual_seed(0)).double()
    matrix = rows.T @ rows
    found = inverse_by_products(torch.linalg.cholesky(matrix))
    torch.testing.assert_close(found, torch.linalg.inv(matrix), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found, found.T, rtol=1e-12, atol=1e-14)


def test_an_inverse_by_products_holds_on_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices are large: they must not wait for the garbage collector."""
    monkeypatch.setattr(factors, "LEFT", 3)
    factor = torch.eye(9)
    known = ref(factor)
    gc.disable()
    try:
        inverse_by_products(factor)
        del factor
        assert known() is None
    finally:
        gc.enable()


@needs_gpu
def test_a_gpu_inverts_many_rows_by_products() -> None:
    rows = torch.randn(9000, 4100, generator=torch.Generator().manual_seed(0)).cuda()
    factor = torch.linalg.cholesky(rows.T @ rows / 9000)
    found = inverse_of(factor, threads=False)
    exact = torch.cholesky_inverse(factor.double())
    known = torch.cholesky_inverse(factor)

    def off(one: Tensor) -> float:
        return float((one - exact).norm() / exact.norm())

    assert off(found) < 2 * off(known)


def test_a_solution_does_not_depend_on_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_moments, "THREADED", 1)
    monkeypatch.setattr(factors, "BLOCK", 2)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(problem_of(moments_of(grouped_samples())).solve(WEIGHTS))
    torch.set_num_threads(before)
    for name in ("losses", "leverage", "errors", "loss_slopes", "leverage_slopes"):
        np.testing.assert_array_equal(*(getattr(solution, name) for solution in found))


def test_penalties_share_the_sum_over_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(moments_of(grouped_samples()), ridge=0.1)
    problem.solve(WEIGHTS)
    alone = problem_of(problem.moments, ridge=1.0).solve(WEIGHTS)
    monkeypatch.setattr(problem.moments, "combined", None)
    torch.testing.assert_close(problem.with_ridge(1.0).solve(WEIGHTS).head, alone.head)
    with pytest.raises(TypeError):
        problem.solve(WEIGHTS[::-1].copy())
