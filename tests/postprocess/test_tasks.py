from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from faircil.postprocess import EpsilonFair
from faircil.postprocess.tasks import TaskProbabilities, fair_predictions, measured_gap

Integers = NDArray[np.int64]


def made_task(n: int = 400, seed: int = 0) -> tuple[TaskProbabilities, Integers]:
    """Classes 1, 4 and 6 were seen; the pool is like the test. Returns the test's groups too."""
    generator = np.random.default_rng(seed)
    z = generator.integers(0, 2, 2 * n)
    p = generator.dirichlet([2, 1, 1], 2 * n)
    p[z == 1] = p[z == 1][:, [1, 0, 2]]
    p = p.astype(np.float32)
    weight = np.where(z[n:] == 0, 3.0, 1.0)
    counts = np.array([3, 1]) * np.bincount(z[n:])
    classes = np.array([1, 4, 6])
    values = np.array([0, 1])
    return TaskProbabilities(classes, p[:n], p[n:], z[n:], weight, values, counts), z[:n]


def test_without_epsilon_the_most_probable_seen_class() -> None:
    task, z = made_task()
    plain = fair_predictions(task, z, None, 0)
    assert plain.y_pred.tolist() == task.classes[task.test.argmax(axis=1)].tolist()
    assert plain.notes == ()


def test_predictions_are_those_of_the_rule_of_the_weighted_pool() -> None:
    task, z = made_task()
    rule = EpsilonFair(0.05).fit(task.pool, task.pool_sensitive, sample_weight=task.pool_weight)
    fair = fair_predictions(task, z, 0.05, 0)
    assert fair.y_pred.tolist() == task.classes[rule.predict(task.test, z)].tolist()
    unweighted = fair_predictions(replace(task, pool_weight=np.ones(400)), z, 0.05, 0)
    assert (unweighted.y_pred == fair.y_pred).mean() > 0.9
    plain = fair_predictions(task, z, None, 0)
    assert measured_gap(fair.y_pred, z) < 0.12 < measured_gap(plain.y_pred, z)


def test_shares_of_groups_come_from_what_was_seen() -> None:
    task, z = made_task()
    # A group (y, z) that the buffer lost takes its weight with it, but not its samples' share.
    other = fair_predictions(replace(task, counts=np.array([1, 30])), z, 0.05, 0)
    assert (other.y_pred != fair_predictions(task, z, 0.05, 0).y_pred).any()


def test_groups_without_a_pool_keep_their_most_probable_class() -> None:
    task, z = made_task()
    z[:50] = 7
    fair, plain = (fair_predictions(task, z, epsilon, 0) for epsilon in (0.01, None))
    assert (fair.y_pred[:50] == plain.y_pred[:50]).all()
    assert (fair.y_pred[50:] != plain.y_pred[50:]).any()
    assert "no sample of group 7" in fair.notes[-1]


def test_a_pool_of_one_group_changes_nothing() -> None:
    task, z = made_task()
    keep = task.pool_sensitive == 0
    lone = replace(
        task,
        pool=task.pool[keep],
        pool_sensitive=task.pool_sensitive[keep],
        pool_weight=task.pool_weight[keep],
        values=np.array([0]),
        counts=task.counts[:1],
    )
    fair = fair_predictions(lone, z, 0.0, 0)
    assert fair.y_pred.tolist() == fair_predictions(task, z, None, 0).y_pred.tolist()
    assert "nothing to compare" in fair.notes[0]


def test_a_single_class_is_predicted_for_all() -> None:
    task, z = made_task()
    ones = np.ones((400, 1), dtype=np.float32)
    lone = replace(task, classes=np.array([4]), test=ones, pool=ones)
    fair = fair_predictions(lone, z, 0.0, 0)
    assert set(fair.y_pred.tolist()) == {4}
    assert fair.notes == ()


def test_measured_gap_by_hand() -> None:
    # Class 3: 2/2 of group 0, 1/4 of group 1, 3/6 of all.
    gap = measured_gap(np.array([3, 3, 3, 5, 5, 5]), np.array([0, 0, 1, 1, 1, 1]))
    assert gap == pytest.approx(0.5)


def test_a_fit_per_task_leaks_which_task_a_sample_is_of() -> None:
    generator = np.random.default_rng(0)
    n = 8000
    z, task, twin = generator.integers(0, 2, (3, n))
    y = 2 * task + twin
    # Group 0 is mistaken for the other class of its task, group 1 for one of the other task.
    rival = np.where(z == 0, 2 * task + 1 - twin, 2 * (1 - task) + twin)
    sure = generator.uniform(0.5, 1, n)
    right = generator.uniform(size=n) < sure
    p = np.zeros((n, 4))
    p[np.arange(n), np.where(right, y, rival)] = sure
    p[np.arange(n), np.where(right, rival, y)] = 1 - sure
    pool, test = np.arange(n) < n // 2, np.arange(n) >= n // 2

    def accuracy(fits: list[NDArray[np.bool_]]) -> float:
        hits = 0
        for part in fits:
            rule = EpsilonFair(0.0).fit(p[pool & part], z[pool & part])
            hits += (rule.predict(p[test & part], z[test & part]) == y[test & part]).sum()
        return hits / test.sum()

    assert (p.argmax(axis=1) == y)[test].mean() == pytest.approx(0.75, abs=0.02)
    assert accuracy([np.ones(n, dtype=bool)]) == pytest.approx(0.75, abs=0.02)
    assert accuracy([task == 0, task == 1]) > 0.82
