"""Accuracy and how evenly it is spread over classes and tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from faircil.errors import DataError
from faircil.metrics.counts import Counts, Floats, count, deviations


def accuracy(y_true: ArrayLike, y_pred: ArrayLike, task: ArrayLike) -> float:
    """Return the mean over tasks of the task's mean class accuracy, A_l.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (n,)
        True and predicted classes.
    task : array of int, shape (n,)
        The task to which the sample's true class belongs.
    """
    return accuracy_of(count(y_true, y_pred, task=task))


def eer(y_true: ArrayLike, y_pred: ArrayLike) -> float | None:
    """Return the mean over the classes of ``y_true`` of ``|err_y − err|``.

    err_y is the error of class y, err the error over all samples. None with a single class.
    """
    return eer_of(count(y_true, y_pred))


def eer_task(y_true: ArrayLike, y_pred: ArrayLike, task: ArrayLike) -> float:
    """Return the mean over tasks of ``|a_t − A_l|``, a_t the task's mean class accuracy.

    Differences between the classes of a task do not show. A single task gives 0, which the
    published averages over tasks count as such.
    """
    return eer_task_of(count(y_true, y_pred, task=task))


def forgetting(matrix: ArrayLike) -> float | None:
    """Return the mean over tasks t < L of the best accuracy before the end minus the last one.

    Parameters
    ----------
    matrix : array of float, shape (L, L)
        a_{l,t}, the accuracy on task t after learning task l. Only l ≥ t is read.

    Returns
    -------
    float or None
        mean over t < L of (max over t ≤ l < L of a_{l,t}) − a_{L,t}; below 0 if old tasks improve.
        None with a single task.
    """
    table = np.asarray(matrix, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.size == 0:
        raise DataError(f"the accuracy matrix has shape {table.shape}, expected (tasks, tasks)")
    measured = np.tri(len(table), dtype=bool)
    if np.isnan(table[measured]).any():
        raise DataError(
            "the accuracy matrix has NaN on or below its diagonal; row l needs the accuracy on "
            "every task up to l"
        )
    if len(table) == 1:
        return None
    best = np.where(measured, table, -np.inf)[:-1, :-1].max(axis=0)
    return float((best - table[-1, :-1]).mean())


def task_accuracies(counts: Counts) -> Floats:
    """Return the mean class accuracy of each task, shape (T,)."""
    members = counts.members[:, counts.seen]
    means: Floats = members @ counts.class_accuracies[counts.seen] / members.sum(axis=1)
    return means


def accuracy_of(counts: Counts) -> float:
    """See :func:`accuracy`."""
    return float(task_accuracies(counts).mean())


def eer_of(counts: Counts) -> float | None:
    """See :func:`eer`."""
    if counts.seen.sum() < 2:
        return None
    overall = counts.hits.sum() / counts.samples.sum()
    return float(np.abs(counts.class_accuracies[counts.seen] - overall).mean())


def eer_task_of(counts: Counts) -> float:
    """See :func:`eer_task`."""
    return float(deviations(task_accuracies(counts)).mean())
