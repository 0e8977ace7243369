"""Accuracy and fairness of predictions: pure functions of arrays, no net and no stream needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.counts import Counts, Floats, count, deviations
from faircil.errors import DataError


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


def eo(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return equalized odds: the mean over groups (y, z) of ``|a_{y,z} − a_y|``.

    a_y is the mean of a_{y,z} over the values z present with class y. A class with only one value
    present takes no part; if every class is such, or there is no attribute, the result is None.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (n,)
        True and predicted classes.
    sensitive : array of int, shape (n,), or None
        Attribute value of each sample.
    """
    return eo_of(count(y_true, y_pred, sensitive=sensitive))


def eo_gap(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return the mean over classes of max_z a_{y,z} − min_z a_{y,z}.

    Exactly 2 · :func:`eo` for two attribute values. For the classes 0 and 1, with every group
    present, it is fairlearn's ``equalized_odds_difference(..., agg="mean")`` for any number of
    values: a_{1,z} is the true positive rate and a_{0,z} is 1 − the false positive rate.
    None as for :func:`eo`.
    """
    return eo_gap_of(count(y_true, y_pred, sensitive=sensitive))


def dp(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return demographic parity: the mean over y and z of ``|P(ŷ=y | z) − P(ŷ=y)|``.

    The classes y are those of ``y_true``; a prediction of another class counts in the number of
    samples only. None with fewer than two attribute values.

    Notes
    -----
    With two values p = (n_0 p_0 + n_1 p_1)/n lies between p_0 and p_1: ``|p_0 − p| + |p_1 − p|`` is
    ``|p_0 − p_1|`` whatever the sizes n_z. If all predictions are one of two seen classes, both
    classes give the same difference: fairlearn's ``demographic_parity_difference`` is 2 · ``dp``.
    """
    return dp_of(count(y_true, y_pred, sensitive=sensitive))


def dp_predicted(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return :func:`dp` with the mean over the classes predicted at least once, seen or not."""
    return dp_predicted_of(count(y_true, y_pred, sensitive=sensitive))


def eo_of(counts: Counts) -> float | None:
    """See :func:`eo`."""
    rates = _comparable(counts)
    if not len(rates):
        return None
    # Summed by class first: the two deviations of a class with two values add up to its gap
    # without rounding, which keeps eo_gap = 2 eo exact.
    per_class = np.nansum(deviations(rates), axis=1)
    return float(per_class.sum() / np.isfinite(rates).sum())


def eo_gap_of(counts: Counts) -> float | None:
    """See :func:`eo_gap`."""
    rates = _comparable(counts)
    if not len(rates):
        return None
    return float((np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)).mean())


def dp_of(counts: Counts) -> float | None:
    """See :func:`dp`."""
    return None if len(counts.attributes) < 2 else _parity(counts, counts.seen)


def dp_predicted_of(counts: Counts) -> float | None:
    """See :func:`dp_predicted`."""
    chosen = counts.predicted.sum(axis=1) > 0
    return None if len(counts.attributes) < 2 else _parity(counts, chosen)


def _comparable(counts: Counts) -> Floats:
    """Group accuracies of the classes with two or more values present, NaN for absent groups."""
    compared: NDArray[np.bool_] = (counts.samples > 0).sum(axis=1) > 1
    return counts.group_accuracies[compared]


def _parity(counts: Counts, classes: NDArray[np.bool_]) -> float:
    per_value = counts.samples.sum(axis=0)
    given_value = counts.predicted / per_value
    overall = counts.predicted.sum(axis=1, keepdims=True) / per_value.sum()
    return float(np.abs(given_value - overall)[classes].mean())


METRICS: dict[str, str] = {
    "accuracy": "Share of right predictions, averaged within each task over its classes and then "
    "over tasks; 1 = best.",
    "eer": "Equal error rate in the sense of fairness (not the biometric threshold of that name): "
    "how far the error of a class is from the overall error, on average; 0 = fair.",
    "eer_task": "How far the accuracy of a task is from the mean over tasks, on average; "
    "differences between classes of one task do not show; 0 = fair.",
    "eo": "Equalized odds: within a class, how far the accuracy for an attribute value is from "
    "the mean over values, on average; 0 = fair.",
    "eo_gap": "Equalized odds as a gap: within a class, the best minus the worst accuracy over "
    "attribute values, on average (twice eo for two values); 0 = fair.",
    "dp": "Demographic parity: how far the share of predictions that go to a class, for one "
    "attribute value, is from that share over all samples, averaged over seen classes; 0 = fair.",
    "dp_predicted": "Demographic parity averaged over the classes that were predicted at least "
    "once instead of the seen ones; 0 = fair.",
    "forgetting": "How much accuracy the old tasks have lost since their best moment, on average; "
    "0 = nothing forgotten, below 0 = old tasks have improved.",
}


@dataclass(frozen=True)
class ClassAccuracy:
    """Accuracy on the ``n`` samples of a class."""

    label: int
    n: int
    accuracy: float


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy on the ``n`` samples of a class with one attribute value."""

    label: int
    attribute: int
    n: int
    accuracy: float


@dataclass(frozen=True)
class TaskMetrics:
    """The metrics after a task; None where a value does not apply or cannot be told.

    ``per_test_task`` holds the mean class accuracy of each task, tasks ascending; ``classes`` and
    ``groups`` those present in the data, ascending (no groups without an attribute).
    """

    accuracy: float
    eer: float | None
    eer_task: float
    eo: float | None
    eo_gap: float | None
    dp: float | None
    dp_predicted: float | None
    per_test_task: tuple[float, ...]
    classes: tuple[ClassAccuracy, ...]
    groups: tuple[GroupAccuracy, ...]


def evaluate(
    y_true: ArrayLike, y_pred: ArrayLike, *, task: ArrayLike, sensitive: ArrayLike | None = None
) -> TaskMetrics:
    """Return every metric of these predictions; :data:`METRICS` says what each means.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (n,)
        True and predicted classes of the test samples of all tasks so far.
    task : array of int, shape (n,)
        The task to which the sample's true class belongs.
    sensitive : array of int, shape (n,), optional
        Attribute value of each sample.

    Examples
    --------
    >>> after = evaluate([0, 0, 1, 1], [0, 1, 1, 1], task=[0, 0, 1, 1], sensitive=[0, 1, 0, 1])
    >>> after.accuracy, after.per_test_task, after.eer, after.eo_gap
    (0.75, (0.5, 1.0), 0.25, 0.5)
    """
    counts = count(y_true, y_pred, task=task, sensitive=sensitive)
    return TaskMetrics(
        accuracy=accuracy_of(counts),
        eer=eer_of(counts),
        eer_task=eer_task_of(counts),
        eo=eo_of(counts),
        eo_gap=eo_gap_of(counts),
        dp=dp_of(counts),
        dp_predicted=dp_predicted_of(counts),
        per_test_task=tuple(task_accuracies(counts).tolist()),
        classes=_by_class(counts),
        groups=() if sensitive is None else _by_group(counts),
    )


def _by_class(counts: Counts) -> tuple[ClassAccuracy, ...]:
    seen = counts.seen
    columns = (counts.classes, counts.samples.sum(axis=1), counts.class_accuracies)
    return tuple(map(ClassAccuracy, *(column[seen].tolist() for column in columns)))


def _by_group(counts: Counts) -> tuple[GroupAccuracy, ...]:
    label, value = np.nonzero(counts.samples)
    return tuple(
        map(
            GroupAccuracy,
            counts.classes[label].tolist(),
            counts.attributes[value].tolist(),
            counts.samples[label, value].tolist(),
            counts.group_accuracies[label, value].tolist(),
        )
    )
