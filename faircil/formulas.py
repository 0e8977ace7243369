"""Accuracy and fairness as formulas: on counts (``eo_of``) and on arrays (``eo``).

Functions on arrays compute a single metric; they count, and call those on counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.counts import ENOUGH, Counts, Floats, count, deviations
from faircil.errors import DataError
from faircil.labels import Column


def accuracy(y_true: Column, y_pred: Column, task: Column) -> float:
    """Return the mean over tasks of the task's mean class accuracy, A_l.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    task : array of int, shape (n,)
        The task to which the sample's true class belongs.
    """
    return accuracy_of(count(y_true, y_pred, task=task))


def eer(y_true: Column, y_pred: Column) -> float | None:
    """Return the mean over the classes of ``y_true`` of ``|err_y − err|``.

    err_y is the error of class y, and err the error over all samples. None with a single class.
    """
    return eer_of(count(y_true, y_pred))


def eer_task(y_true: Column, y_pred: Column, task: Column) -> float:
    """Return the mean over tasks of ``|a_t − A_l|``, a_t the task's mean class accuracy.

    Differences between classes of a task have no effect. A single task gives 0, which published
    averages over tasks include as such.
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


def worst_group_of(counts: Counts) -> float | None:
    """Return the lowest accuracy of a group with at least :data:`ENOUGH` samples, or None.

    Without an attribute, all samples share one value, and a group is a class.
    """
    known = counts.known
    enough = known.samples >= ENOUGH
    return float(known.group_accuracies[enough].min()) if enough.any() else None


def forgetting_of(counts: Counts) -> float | None:
    """See :func:`forgetting`; None if the counts after earlier tasks are unknown."""
    history = counts.history
    if len(history) == 1:
        return None
    matrix = np.full((len(history), len(history)), np.nan)
    for row, after in enumerate(history):
        matrix[row, : row + 1] = task_accuracies(after)
    return forgetting(matrix)


def balanced_accuracy_of(counts: Counts) -> float | None:
    """Return the mean over groups (y, z) of their accuracies a_{y,z}; None without groups."""
    rates = counts.known.group_accuracies
    return float(np.nanmean(rates)) if rates.size else None


def eer_of(counts: Counts) -> float | None:
    """See :func:`eer`."""
    if counts.seen.sum() < 2:
        return None
    overall = counts.hits.sum() / counts.samples.sum()
    return float(mean_distance(counts.class_accuracies[counts.seen][None], overall))


def eer_task_of(counts: Counts) -> float:
    """See :func:`eer_task`."""
    return float(deviations(task_accuracies(counts)).mean())


def eo(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return equalized odds: the mean over groups (y, z) of ``|a_{y,z} − a_y|``.

    a_y is the mean of a_{y,z} over the values z that occur with class y. Classes with a single
    value are ignored; the result is None if there are no others, or no attribute.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    sensitive : column of any labels, shape (n,), or None
        Attribute value of each sample; if negative or missing, the sample is in no group.
    """
    return eo_of(count(y_true, y_pred, sensitive=sensitive))


def eo_gap(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return the mean over classes of max_z a_{y,z} − min_z a_{y,z}.

    Exactly 2 · :func:`eo` for two attribute values. For the classes 0 and 1, with every group
    present, it is fairlearn's ``equalized_odds_difference(..., agg="mean")`` for any number of
    values: a_{1,z} is the true positive rate and a_{0,z} is 1 − the false positive rate.
    None as for :func:`eo`.
    """
    return eo_gap_of(count(y_true, y_pred, sensitive=sensitive))


def dp(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return demographic parity: the mean over y and z of ``|P(ŷ=y | z) − P(ŷ=y)|``.

    The classes y are those of ``y_true``; predictions of other classes count only in the number of
    samples. None with fewer than two attribute values.

    Notes
    -----
    With two values, p = (n_0 p_0 + n_1 p_1)/n lies between p_0 and p_1: ``|p_0 − p| + |p_1 − p|``
    is ``|p_0 − p_1|`` for any sizes n_z. If all predictions are one of two seen classes, both
    classes give the same difference: fairlearn's ``demographic_parity_difference`` is 2 · ``dp``.
    """
    return dp_of(count(y_true, y_pred, sensitive=sensitive))


def dp_predicted(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return :func:`dp` with the mean over the classes predicted at least once, seen or not."""
    return dp_predicted_of(count(y_true, y_pred, sensitive=sensitive))


def eo_of(counts: Counts) -> float | None:
    """See :func:`eo`."""
    return _unless_empty(mean_deviation, comparable(counts).group_accuracies)


def eo_gap_of(counts: Counts) -> float | None:
    """See :func:`eo_gap`."""
    return _unless_empty(mean_gap, comparable(counts).group_accuracies)


def eopp_of(counts: Counts) -> float | None:
    """Return :func:`eo` of the favoured classes only; None if none are given."""
    if counts.favoured is None:
        return None
    return _unless_empty(mean_deviation, comparable(counts, counts.favoured).group_accuracies)


def eopp_gap_of(counts: Counts) -> float | None:
    """Return :func:`eo_gap` of the favoured classes only; None if none are given."""
    if counts.favoured is None:
        return None
    return _unless_empty(mean_gap, comparable(counts, counts.favoured).group_accuracies)


def dp_of(counts: Counts) -> float | None:
    """See :func:`dp`."""
    known = counts.known
    return None if len(known.attributes) < 2 else _parity(known, known.seen)


def dp_predicted_of(counts: Counts) -> float | None:
    """See :func:`dp_predicted`."""
    known = counts.known
    chosen = known.predicted.sum(axis=1) > 0
    return None if len(known.attributes) < 2 else _parity(known, chosen)


def comparable(counts: Counts, classes: NDArray[np.bool_] | bool = True) -> Counts:
    """Return the counts of ``classes`` with at least two known values, which EO compares."""
    known = counts.known
    compared = ((known.samples > 0).sum(axis=1) > 1) & classes
    tables = {name: getattr(known, name)[compared] for name in ("samples", "hits", "predicted")}
    return replace(
        known,
        classes=known.classes[compared],
        members=known.members[:, compared],
        favoured=None if known.favoured is None else known.favoured[compared],
        **tables,
    )


def _unless_empty(summary: Callable[[Floats], Floats], rates: Floats) -> float | None:
    return float(summary(rates)) if len(rates) else None


def mean_deviation(rates: Floats) -> Floats:
    """Return the mean over groups of the distance from the mean of their class: see :func:`eo`.

    Parameters
    ----------
    rates : array, shape (..., C, Z)
        NaN for absent groups.

    Returns
    -------
    array, shape (...)
    """
    # Summed by class first: the two deviations of a class with two values add up to its gap
    # without rounding, so eo_gap = 2 eo holds exactly.
    per_class = np.nansum(deviations(rates), axis=-1)
    mean: Floats = per_class.sum(axis=-1) / np.isfinite(rates).sum(axis=(-2, -1))
    return mean


def gaps(rates: Floats) -> Floats:
    """Return the best minus the worst rate of each class, (..., C) from (..., C, Z)."""
    # fmax and fmin ignore NaN.
    found: Floats = np.fmax.reduce(rates, axis=-1) - np.fmin.reduce(rates, axis=-1)
    return found


def mean_gap(rates: Floats) -> Floats:
    """Return the mean over classes of their gaps: see :func:`eo_gap`; (...) from (..., C, Z)."""
    mean: Floats = gaps(rates).mean(axis=-1)
    return mean


def mean_distance(rates: Floats, overall: Floats | float) -> Floats:
    """Return the mean of ``|rates − overall|``: see :func:`dp` and :func:`eer`.

    Parameters
    ----------
    rates : array, shape (..., C, Z)
    overall : float, or array that fits it, such as (..., C, 1)

    Returns
    -------
    array, shape (...)
    """
    mean: Floats = np.abs(rates - overall).mean(axis=(-2, -1))
    return mean


def _parity(counts: Counts, classes: NDArray[np.bool_]) -> float:
    per_value = counts.samples.sum(axis=0)
    given_value = counts.predicted / per_value
    overall = counts.predicted.sum(axis=1, keepdims=True) / per_value.sum()
    return float(mean_distance(given_value[classes], overall[classes]))
