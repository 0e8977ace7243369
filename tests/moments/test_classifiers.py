from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from faircil.moments.classifiers import (
    LEAST_SPREAD,
    best_temperature,
    discriminants,
    fit_temperature,
    gaussian_draws,
    lda,
    nearest_mean,
    oracle_shrinkage,
)
from faircil.moments.group_moments import GroupMoments
from faircil.moments.ridge import RidgeProblem
from faircil.samples import Samples
from moment_data import (
    SIZES,
    WIDTH,
    features,
    grouped_samples,
    moments_of,
    problem_of,
    rows_by_group,
)

EQUAL = {(y, z): 40 for y in range(3) for z in range(2)}


def unseen() -> Tensor:
    return grouped_samples(seed=5).x


def differences(scores: Tensor) -> Tensor:
    """Take away what all classes share."""
    return scores - scores.mean(dim=1, keepdim=True)


def class_means(samples: Samples) -> Tensor:
    return torch.stack([samples.x[samples.y == label].mean(dim=0) for label in range(3)])


def test_the_nearest_mean_is_that_of_the_rows() -> None:
    samples = grouped_samples()
    found = nearest_mean(moments_of(samples))
    means, x = class_means(samples), unseen()
    scores = features(x) @ found.head
    expected = x @ means.T - means.square().sum(dim=1) / 2
    torch.testing.assert_close(differences(scores), differences(expected), rtol=1e-9, atol=1e-9)
    assert torch.equal(scores.argmax(dim=1), torch.cdist(x, means).argmin(dim=1))
    assert found.classes.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shrinkage", [0.001, 0.1, 0.7])
def test_lda_is_that_of_scikit_learn_with_equal_priors(shrinkage: float) -> None:
    samples = grouped_samples()
    found = lda(moments_of(samples), ridge=shrinkage / (1 - shrinkage))
    other = LinearDiscriminantAnalysis("lsqr", shrinkage=shrinkage, priors=np.full(3, 1 / 3))
    other.fit(samples.x.numpy(), samples.y.numpy())
    x = unseen()
    # Our matrix is V + λ mean(diag V) I, theirs (1 − a) times that.
    expected = (1 - shrinkage) * torch.tensor(other.decision_function(x.numpy()))
    scores = differences(features(x) @ found.head)
    torch.testing.assert_close(scores, differences(expected), rtol=1e-8, atol=1e-8)


def test_lda_of_rows_one_at_a_time() -> None:
    samples, ridge = grouped_samples(), 0.05
    means = class_means(samples)
    pooled = torch.zeros(WIDTH - 1, WIDTH - 1, dtype=torch.float64)
    for x, y in zip(samples.x, samples.y, strict=True):
        away = x - means[y]
        pooled += torch.outer(away, away) / (3 * (samples.y == y).sum())
    pooled += ridge * pooled.diagonal().mean() * torch.eye(WIDTH - 1)
    slopes = torch.linalg.solve(pooled, means.T)
    x = unseen()
    expected = x @ slopes - (means.T * slopes).sum(dim=0) / 2
    scores = features(x) @ lda(moments_of(samples), ridge).head
    torch.testing.assert_close(differences(scores), differences(expected), rtol=1e-8, atol=1e-8)


def test_the_shrinkage_is_that_of_scikit_learn() -> None:
    samples = grouped_samples(EQUAL)
    away = samples.x - class_means(samples)[samples.y]
    expected = oas(away.numpy(), assume_centered=True)[1]
    assert oracle_shrinkage(away.T @ away / len(away), len(away)) == pytest.approx(expected)
    # With equally many rows in each class, their mean covariance is as certain as one of all rows.
    assert lda(moments_of(samples)).ridge == pytest.approx(expected / (1 - expected))


def test_fewer_rows_are_shrunk_more() -> None:
    few = dict.fromkeys(SIZES, 4)
    assert lda(moments_of(grouped_samples(few))).ridge > lda(moments_of(grouped_samples())).ridge


def test_the_order_of_tasks_does_not_matter_and_rows_can_be_removed() -> None:
    samples, gone = grouped_samples(), grouped_samples(seed=7)
    parts = [samples.take(samples.y == label) for label in (2, 0, 1)]
    moments = moments_of(gone, *parts)
    moments.remove(gone, features)
    for make in (nearest_mean, lda):
        found, expected = make(moments), make(moments_of(samples))
        torch.testing.assert_close(found.head, expected.head, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("make", [nearest_mean, lda])
def test_probabilities_are_nearly_the_best_of_any_temperature(make) -> None:
    sizes = {key: 20 * n for key, n in SIZES.items()}
    found = make(moments_of(grouped_samples(sizes)))
    rows = grouped_samples(EQUAL, seed=9)
    scores = features(rows.x) @ found.head

    def loss(temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(scores / temperature, rows.y))

    best = min(loss(t) for t in np.geomspace(0.01, 100, 200))
    assert loss(found.temperature) < best + 0.02
    # 240 rows: the mean loss has a standard error of about .05.
    assert abs(found.loss - loss(found.temperature)) < 0.2


def test_one_class_needs_no_temperature() -> None:
    only = grouped_samples({(0, 0): 20, (0, 1): 10})
    assert (lda(moments_of(only)).temperature, nearest_mean(moments_of(only)).loss) == (1.0, 0.0)


def test_discriminants_of_scores_are_those_of_the_rows() -> None:
    samples = grouped_samples()
    problem = problem_of(moments_of(samples), ridge=0.02)
    weights = np.array([0.25, 0.1, 0.05, 0.2, 0.3, 0.1])  # of groups, any that sum to 1
    solution = problem.solve(weights)
    found = discriminants(problem, solution)
    scores = features(samples.x) @ solution.head
    each = torch.zeros(len(samples), dtype=torch.float64)  # weight of each row
    for weight, rows in zip(weights, rows_by_group(samples), strict=True):
        each[rows] = weight / len(rows)
    means = torch.stack(
        [
            (each[own, None] * scores[own]).sum(dim=0) / each[own].sum()
            for own in (samples.y == label for label in range(3))
        ]
    )
    away = scores - means[samples.y]
    spread = (each[:, None] * away).T @ away
    spread += LEAST_SPREAD * spread.diagonal().mean() * torch.eye(3)
    slopes = torch.linalg.solve(spread, means.T)
    expected = differences(scores @ slopes - (means.T * slopes).sum(dim=0) / 2)
    torch.testing.assert_close(found(scores), expected, rtol=1e-6, atol=1e-6)
    by_head = features(samples.x) @ found.head(solution.head)
    torch.testing.assert_close(by_head, expected, rtol=1e-6, atol=1e-6)


def test_a_class_between_others_is_not_masked() -> None:
    # Three classes in a row: least squares never gives the middle one the largest score.
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(3).repeat(200)
    x = 4.0 * y[:, None] + torch.randn(600, 1, generator=generator, dtype=torch.float64)
    moments = GroupMoments(2, torch.float64)
    moments.add(Samples(x, y, torch.zeros_like(y)), features)
    problem = RidgeProblem(moments, [0, 1, 2], np.arange(3), 1e-6)
    solution = problem.solve(np.full(3, 1 / 3))
    middle = y == 1
    plain = (features(x) @ solution.head).argmax(dim=1)
    mended = (features(x) @ discriminants(problem, solution).head(solution.head)).argmax(dim=1)
    assert (plain[middle] == 1).double().mean() < 0.5
    assert (mended == y).double().mean() > 0.95


def test_draws_follow_the_covariance_whatever_its_eigenvectors() -> None:
    """Rounding turns eigenvectors of equal eigenvalues any way, and the sign of each."""
    rounding = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).double() * 1e-14
    mean, spread = torch.zeros(1, 3).double(), torch.eye(3).double()[None]
    found = gaussian_draws(mean, spread + rounding + rounding.T)
    torch.testing.assert_close(found, gaussian_draws(mean, spread))
    assert found[0].T.cov().allclose(spread[0], atol=0.3)


@pytest.mark.parametrize("groups", [2, 20])
def test_few_draws_that_are_wrong_suffice_for_a_temperature(groups: int) -> None:
    """A group of one draw in twenty in the other class; T of as many draws as one likes."""
    label = torch.arange(groups) % 2
    mean = 2 * torch.nn.functional.one_hot(label, 2).double()
    spread = 1.4 * torch.eye(2).double().expand(groups, 2, 2)
    share = np.full(groups, 1 / groups)
    found = best_temperature(gaussian_draws(mean, spread), label, share)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(100_000, 2, dtype=torch.float64, generator=generator) * 1.4**0.5
    wanted = best_temperature(mean[:2, None] + noise, label[:2], np.full(2, 1 / 2))
    assert found == pytest.approx(wanted, rel=0.04)


def test_draws_that_are_all_right_leave_no_temperature_to_rounding() -> None:
    """The loss of ties is flat for small T: probabilities would depend on the last bits."""
    scores = torch.tensor([[[1.0, 0.0, 0.0]] * 500, [[0.0, 1.0, 1.0]] * 500], dtype=torch.float64)
    label, share = torch.tensor([0, 1]), np.full(2, 1 / 2)
    found = best_temperature(scores, label, share)
    rounded = best_temperature(scores * (1 + 1e-15), label, share)
    assert rounded == pytest.approx(found, rel=1e-4)
    probabilities = torch.softmax(scores[:, 0] / found, dim=1)
    assert 1e-5 < float(probabilities[0, 1]) < 1e-2  # a thousand draws tell no more


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_temperature_follows_scores_of_any_size(scale: float) -> None:
    label = torch.tensor([0, 1])
    mean = 2 * torch.nn.functional.one_hot(label, 2).double()
    drawn = gaussian_draws(mean, torch.eye(2).double().expand(2, 2, 2))
    share = np.full(2, 1 / 2)
    wanted = scale * best_temperature(drawn, label, share)
    assert best_temperature(scale * drawn, label, share) == pytest.approx(wanted, rel=1e-3)


def test_classes_without_spread_are_told_apart_by_distance_not_by_rounding() -> None:
    # A row for each class: what is left of the covariance within classes is rounding.
    x, y = torch.tensor([[0.0], [1.0], [3.0]]).double(), torch.arange(3)
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        moments = GroupMoments(2, torch.float64)
        moments.add(Samples(x[order], y[order], torch.zeros(3, dtype=torch.int64)), features)
        rows = moments.keys
        problem = RidgeProblem(moments, range(3), np.array([key[0] for key in rows]), 1e-6)
        solution = problem.solve(np.full(3, 1 / 3))
        scores = discriminants(problem, solution)
        temperature = fit_temperature(problem, solution, np.full(3, 1 / 3), scores)
        between = torch.tensor([[0.0], [1.0], [3.0], [0.5], [2.5]]).double()
        head = scores.head(solution.head)
        found.append(torch.softmax(features(between) @ head / temperature, dim=1))
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)
    assert found[0].argmax(dim=1)[[0, 1, 2, 4]].tolist() == [0, 1, 2, 2]
    assert float(found[0][3].max()) < 0.9  # in the middle between two
