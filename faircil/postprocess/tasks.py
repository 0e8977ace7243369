"""Post-processing after a task: one fit over all seen classes, on the learner's stored samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faircil.postprocess.epsilon_fair import EpsilonFair
from faircil.postprocess.pool import Floats, Integers, group_rates, largest_gap, normalised


@dataclass(frozen=True)
class TaskProbabilities:
    """Probabilities after a task: K seen classes, n test samples, N samples of the pool.

    Parameters
    ----------
    classes : ndarray of int64, shape (K,)
        The seen classes, ascending.
    test : ndarray of float32, shape (n, K)
    pool : ndarray of float32, shape (N, K)
    pool_sensitive : ndarray of int64, shape (N,)
    pool_weight : ndarray, shape (N,)
        Number of training samples of its group (y, z) that each pool sample represents; the only
        use of labels.
    values, counts : ndarray of int64, shape (Z,)
        Attribute values of the pool, and their numbers of samples in the tasks so far, used for
        training or held out.
    """

    classes: Integers
    test: NDArray[np.float32]
    pool: NDArray[np.float32]
    pool_sensitive: Integers
    pool_weight: Floats
    values: Integers
    counts: Integers


@dataclass(frozen=True)
class FairPredictions:
    """Predicted classes (n,) after post-processing, with notes for the user."""

    y_pred: Integers
    notes: tuple[str, ...]


def fair_predictions(
    task: TaskProbabilities, sensitive: Integers, epsilon: float | None, seed: int
) -> FairPredictions:
    """Fit on the pool, and predict the test samples.

    A test sample whose attribute value is not in the pool gets its most probable class, as do all
    samples if there are fewer than two values or classes: a task must not stop a run.

    Parameters
    ----------
    task : TaskProbabilities
    sensitive : ndarray of int64, shape (n,)
        Attribute values of the test samples.
    epsilon : float or None
        None: the most probable class, without post-processing.
    seed : int
        Seed of the draws at ties.
    """
    chosen = task.test.argmax(axis=1)
    notes: tuple[str, ...] = ()
    if epsilon is None or len(task.classes) < 2:
        pass
    elif len(task.values) < 2:
        notes = ("the pool has one attribute value only: nothing to compare, nothing changed",)
    else:
        population = dict(zip(task.values.tolist(), task.counts.tolist(), strict=True))
        rule = EpsilonFair(epsilon).fit(
            task.pool,
            task.pool_sensitive,
            sample_weight=task.pool_weight,
            population=population,
            seed=seed,
        )
        known = np.isin(sensitive, task.values)
        if known.any():
            chosen[known] = rule.predict(task.test[known], sensitive[known], seed)
        notes = rule.notes
        if not known.all():
            absent = ", ".join(map(str, np.unique(sensitive[~known])))
            notes += (
                f"the pool has no sample of group {absent}: its test samples keep their most "
                "probable class",
            )
    return FairPredictions(task.classes[chosen], notes)


def measured_gap(y_pred: Integers, sensitive: Integers) -> float:
    """Return the largest ``|P(ŷ=k | z) − P(ŷ=k)|`` of predictions (n,), which ε limits."""
    values, group = np.unique(sensitive, return_inverse=True)
    classes, label = np.unique(y_pred, return_inverse=True)
    one_hot = np.eye(len(classes))[label]
    rates = group_rates(one_hot, group, normalised(np.ones(len(group)), group), len(values))
    return largest_gap(rates, np.bincount(group) / len(group))
