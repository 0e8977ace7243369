"""How fairness changes over tasks: metrics of each task, forgetting by group, persistent bias.

All of it is computed from counts of the predictions after each task (:class:`Timeline`). The metric
of a task is that of :data:`faircil.metrics.METRICS`, on test samples of the task's classes only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.counts import Counts, Floats, Integers, share
from faircil.errors import DataError, raise_all
from faircil.files import check_file
from faircil.labels import Column, Labels, checked_columns, distinct_labels, known_values
from faircil.metrics import METRICS, read_predictions
from faircil.results.record import RunSummary

PREDICTIONS = "predictions.csv"


@dataclass(frozen=True)
class Timeline:
    """Counts of predictions after each of L evaluations: T tasks, C classes, Z attribute values.

    Parameters
    ----------
    classes : ndarray of int64 or object, shape (C,)
        True or predicted classes, in the order of their tasks; those that never occur as true
        classes are last.
    attributes : ndarray of int64 or object, shape (Z,)
        The attribute values; a single value if there is no attribute. Negative numbers and None are
        unknown.
    task_of : ndarray of int64, shape (C,)
        Index of the task of each class, from 0; −1 for a class that never occurs as a true class.
    samples, hits : ndarray of int64, shape (L, C, Z)
        Test samples of each class and value after each task, and those predicted correctly.
    predicted : ndarray of int64, shape (L, T, C, Z)
        Test samples of a task with this value that are predicted as the class.
    by_attribute : bool
        Whether there is an attribute.
    favoured : ndarray of bool, shape (C,), or None
        Which classes are favoured; None if unknown.
    """

    classes: Labels
    attributes: Labels
    task_of: Integers
    samples: Integers
    hits: Integers
    predicted: Integers
    by_attribute: bool
    favoured: NDArray[np.bool_] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which attribute values are known, shape (Z,)."""
        return known_values(self.attributes)

    def counts(self, evaluation: int, task: int) -> Counts | None:
        """Return the counts of the test samples of one task; None before it is learned."""
        own = self.task_of == task
        samples = self.samples[evaluation] * own[:, None]
        there = samples.sum(axis=0) > 0  # excludes division by 0
        if not there.any():
            return None
        return Counts(
            self.classes,
            self.attributes[there],
            samples=samples[:, there],
            hits=(self.hits[evaluation] * own[:, None])[:, there],
            predicted=self.predicted[evaluation, task][:, there],
            members=own[None],
            favoured=self.favoured,
        )


def timeline_of(
    after: Sequence[Mapping[str, Column]], favoured: Collection[Any] | None = None
) -> Timeline:
    """Count predictions after each task.

    Parameters
    ----------
    after : sequence of mapping
        For each evaluation, the columns ``y_true``, ``y_pred`` and optionally ``task`` and
        ``sensitive``, as returned by :func:`faircil.metrics.read_predictions`.
    favoured : collection of labels, optional
        Classes with a favourable outcome.

    Raises
    ------
    DataError
        If columns are invalid, or a class is in two tasks.

    Examples
    --------
    >>> first = {"y_true": ["a", "b"], "y_pred": ["a", "b"], "task": [1, 1]}
    >>> second = {"y_true": ["a", "b", "c"], "y_pred": ["c", "b", "c"], "task": [1, 1, 2]}
    >>> lost_since_best(metric_matrix(timeline_of([first, second]), "accuracy"))
    array([0.5, nan])
    """
    parts = [checked_columns(dict(part)) for part in after]
    lengths = [len(part["y_true"]) for part in parts]
    when = np.repeat(np.arange(len(parts)), lengths)

    def joined(name: str) -> Labels:
        absent = [np.zeros(length, dtype=np.int64) for length in lengths]
        return np.concatenate([p.get(name, none) for p, none in zip(parts, absent, strict=True)])

    classes, codes = distinct_labels(np.concatenate([joined("y_true"), joined("y_pred")]))
    tasks, task = distinct_labels(joined("task"))
    attributes, value = distinct_labels(joined("sensitive"))
    true, predicted = np.split(codes, 2)
    task_of = _task_of(classes, tasks, true, task)
    # Classes in the order of learning; one that is never a true class was never learned.
    order = np.argsort(np.where(task_of < 0, len(tasks), task_of), kind="stable")
    place = np.argsort(order)
    true, predicted = place[true], place[predicted]
    shape = (len(parts), len(classes), len(attributes))
    right = true == predicted
    wanted = set(favoured or ())
    return Timeline(
        classes[order],
        attributes,
        task_of[order],
        samples=_table((when, true, value), shape),
        hits=_table((when[right], true[right], value[right]), shape),
        predicted=_table((when, task, predicted, value), (shape[0], len(tasks), *shape[1:])),
        by_attribute="sensitive" in parts[0],
        favoured=None if favoured is None else np.array([c in wanted for c in classes[order]]),
    )


def _task_of(classes: Labels, tasks: Labels, true: ArrayLike, task: ArrayLike) -> Integers:
    """Return the index of each class's task, (C,); raise an error if a class has two."""
    members = _table((np.asarray(true), np.asarray(task)), (len(classes), len(tasks))) > 0
    raise_all(
        [
            f"class {label} is in tasks {', '.join(map(str, tasks[row]))}; put it in one"
            for label, row in zip(classes, members, strict=True)
            if row.sum() > 1
        ],
        DataError,
    )
    places: Integers = np.where(members.any(axis=1), members.argmax(axis=1), -1).astype(np.int64)
    return places


def _table(places: tuple[NDArray[np.intp], ...], shape: tuple[int, ...]) -> Integers:
    flat = np.bincount(np.ravel_multi_index(places, shape), minlength=int(np.prod(shape)))
    return flat.reshape(shape).astype(np.int64)


def read_timeline(run: RunSummary) -> Timeline:
    """Count the stored predictions of a finished run; changed files are an error.

    A run that was evaluated on validation data stores no predictions, which is an error too.
    """
    folder = Path(run.dir)
    if run.config.get("evaluate_on") == "validation":
        raise DataError(f"{folder} was evaluated on validation data and keeps no predictions")
    check_file(folder / PREDICTIONS)
    return timeline_of(read_predictions(folder), run.config.get("favoured") or None)


def metric_matrix(timeline: Timeline, metric: str) -> Floats:
    """Return a metric of each task after each evaluation, shape (L, T).

    Row l, column t is the metric on the test samples of task t after evaluation l. It is NaN before
    the task is learned, and where the metric is undefined, such as a comparison of classes in a
    task with a single class.
    """
    of = METRICS[metric].of
    matrix = np.full(timeline.predicted.shape[:2], np.nan)
    for evaluation, task in np.ndindex(*matrix.shape):
        counts = timeline.counts(evaluation, task)
        value = None if counts is None else of(counts)
        if value is not None:
            matrix[evaluation, task] = value
    return matrix


def lost_since_best(values: ArrayLike, higher_is_better: bool = True) -> Floats:
    """Return how much worse the last row is than the best earlier row, column by column.

    For accuracies of tasks, (L, T), the mean over old tasks is ``forgetting``. For a disparity of
    tasks and ``higher_is_better=False``, it is *fairness forgetting*: the disparity on the classes
    of a task after the last task, minus its smallest value since they were learned. For accuracies
    of groups, (L, C, Z), it is the forgetting of each group. Negative values mean improvement.

    Parameters
    ----------
    values : array of float, shape (L, …)
        Values after each evaluation; NaN where undefined.
    higher_is_better : bool

    Returns
    -------
    array of float, shape (…)
        NaN if the last row or all earlier rows are undefined, as for the last task.
    """
    signed = np.asarray(values, dtype=np.float64) * (1.0 if higher_is_better else -1.0)
    earlier = signed[:-1]
    there = np.isfinite(earlier)
    best = np.where(there, earlier, -np.inf).max(axis=0, initial=-np.inf)
    lost: Floats = np.where(there.any(axis=0), best - signed[-1], np.nan)
    return lost


def group_accuracies(timeline: Timeline) -> Floats:
    """Return the accuracy of each group after each evaluation, shape (L, C, K).

    K is the number of known attribute values; NaN where a group has no test samples yet.
    """
    known = timeline.known
    return share(timeline.hits[..., known], timeline.samples[..., known])


@dataclass(frozen=True)
class Transfer:
    """The change of an advantage when a task is learned.

    The *advantage* of an attribute value is the difference of its accuracy from the mean over
    values within a class, averaged over classes with several values.

    Parameters
    ----------
    task : int
        Index of the learned task, from 0.
    value : int
        Index of the attribute value with the largest advantage in the old classes before.
    before : float
        This advantage.
    old : float
        Its advantage in the old classes after the task; if it exceeds ``before``, the task has
        deepened the bias.
    new : float
        Its advantage in the classes of the task: if positive, the bias has carried over; if
        negative, it is reversed.
    """

    task: int
    value: int
    before: float
    old: float
    new: float


def bias_transfers(accuracies: Floats, task_of: Integers) -> list[Transfer]:
    """Follow the favoured attribute value from one task to the next.

    Parameters
    ----------
    accuracies : array of float, shape (L, C, Z)
        Accuracies of groups, see :func:`group_accuracies`, or their means over seeds.
    task_of : array of int, shape (C,)
        Index of the task of each class.

    Returns
    -------
    list of Transfer
        One for each task after the first, except where nothing can be compared.
    """
    found = []
    starts = [_first_seen(accuracies, task_of == task) for task in range(int(task_of.max()) + 1)]
    for task, start in enumerate(starts):
        if not start:  # the first task, or one whose classes have no known group
            continue
        old, new = (task_of >= 0) & (task_of < task), task_of == task
        before = advantages(accuracies[start - 1, old])
        after, mine = advantages(accuracies[start, old]), advantages(accuracies[start, new])
        if not np.isfinite(before).any():
            continue
        value = int(np.nanargmax(before))
        if np.isfinite([after[value], mine[value]]).all():
            numbers = (float(before[value]), float(after[value]), float(mine[value]))
            found.append(Transfer(task, value, *numbers))
    return found


def advantages(accuracies: Floats) -> Floats:
    """Return the mean difference of each attribute value from the mean of its class.

    Parameters
    ----------
    accuracies : array of float, shape (C, Z)
        NaN for missing groups; classes with a single value are ignored.

    Returns
    -------
    array of float, shape (Z,)
        NaN for values that are not compared in any class.

    Examples
    --------
    >>> advantages(np.array([[0.75, 0.25], [0.5, 0.5], [0.9, np.nan]]))
    array([ 0.125, -0.125])
    """
    compared = accuracies[np.isfinite(accuracies).sum(axis=1) > 1]
    above = compared - np.nanmean(compared, axis=1, keepdims=True)
    there = np.isfinite(above)
    sums, times = np.where(there, above, 0.0).sum(axis=0), there.sum(axis=0)
    means = np.full(accuracies.shape[1], np.nan)
    np.divide(sums, times, where=times > 0, out=means)
    return means


def _first_seen(accuracies: Floats, classes: NDArray[np.bool_]) -> int:
    """Return the first evaluation with samples of these classes; 0 if there is none."""
    there = np.isfinite(accuracies[:, classes]).any(axis=(1, 2))
    return int(there.argmax())
