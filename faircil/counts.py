"""Counts of predictions by class, attribute value and task, from which all metrics are computed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.errors import DataError, UsageError, raise_all
from faircil.labels import (
    Column,
    Labels,
    checked_columns,
    distinct_labels,
    favoured_labels,
    known_values,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
ENOUGH = 10  # test samples; the accuracy of a smaller group is mostly noise


@dataclass(frozen=True, slots=True)  # a run keeps one per class and task
class ClassAccuracy:
    """Accuracy on the ``n`` samples of a class."""

    label: Any
    n: int
    accuracy: float


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """Accuracy on the ``n`` samples of a class with one attribute value."""

    label: Any
    attribute: Any
    n: int
    accuracy: float


@dataclass(frozen=True)
class Answers:
    """Answers for some samples if the least certain predictions are withheld.

    Parameters
    ----------
    label, attribute : as in the data, or None
        The group; None: all classes, or all attribute values.
    n : int
        Number of samples.
    accuracy : float
        Accuracy on all of them.
    answered : int
        Number of samples whose prediction is certain enough.
    answered_accuracy : float or None
        Accuracy on these; None if there are none.
    """

    label: Any
    attribute: Any
    n: int
    accuracy: float
    answered: int
    answered_accuracy: float | None


@dataclass(frozen=True)
class Counts:
    """Sample counts for C classes (true or predicted), Z attribute values and T tasks.

    Parameters
    ----------
    classes : ndarray of int64 or object, shape (C,)
        The classes, ascending.
    attributes : ndarray of int64 or object, shape (Z,)
        The attribute values, ascending; a single value if there is no attribute. Negative numbers
        and None are unknown.
    samples, hits, predicted : ndarray of int64, shape (C, Z)
        For each class and attribute value: its samples; its correctly predicted samples; samples
        of any class with this value that are predicted as the class.
    members : ndarray of bool, shape (T, C)
        Which classes belong to each task, tasks ascending.
    before : Counts or None
        The counts after the previous task; None after the first task, or if unknown.
    favoured : ndarray of bool, shape (C,), or None
        Which classes are favoured; None if unknown.
    """

    classes: Labels
    attributes: Labels
    samples: Integers
    hits: Integers
    predicted: Integers
    members: NDArray[np.bool_]
    before: Counts | None = None
    favoured: NDArray[np.bool_] | None = None

    @property
    def history(self) -> tuple[Counts, ...]:
        """The counts after each task so far, ending with these."""
        return (self,) if self.before is None else (*self.before.history, self)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which classes occur as true classes, shape (C,)."""
        seen: NDArray[np.bool_] = self.samples.sum(axis=1) > 0
        return seen

    @property
    def known(self) -> Counts:
        """The counts without samples with an unknown attribute value, which are not compared."""
        kept = known_values(self.attributes)
        tables = {name: getattr(self, name)[:, kept] for name in ("samples", "hits", "predicted")}
        return self if kept.all() else replace(self, attributes=self.attributes[kept], **tables)

    @property
    def class_accuracies(self) -> Floats:
        """Accuracy of each class, (C,); NaN for classes without samples."""
        return share(self.hits.sum(axis=1), self.samples.sum(axis=1))

    @property
    def group_accuracies(self) -> Floats:
        """Accuracy of each group, (C, Z); NaN for groups without samples."""
        return share(self.hits, self.samples)

    def by_class(self) -> tuple[ClassAccuracy, ...]:
        """Return the accuracy of each class that occurs as a true class, ascending."""
        columns = (self.classes, self.samples.sum(axis=1), self.class_accuracies)
        return tuple(map(ClassAccuracy, *(column[self.seen].tolist() for column in columns)))

    def by_group(self) -> tuple[GroupAccuracy, ...]:
        """Return the accuracy of each group that has samples, by class and value, ascending."""
        known = self.known
        label, value = np.nonzero(known.samples)
        return tuple(
            map(
                GroupAccuracy,
                known.classes[label].tolist(),
                known.attributes[value].tolist(),
                known.samples[label, value].tolist(),
                known.group_accuracies[label, value].tolist(),
            )
        )


def count(
    y_true: Column,
    y_pred: Column,
    *,
    task: Column | None = None,
    sensitive: Column | None = None,
    before: Counts | None = None,
    favoured: Collection[Any] | None = None,
    times: ArrayLike | None = None,
) -> Counts:
    """Count predictions by class, attribute value and task.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    task : column of int, shape (n,), optional
        Task of the true class.
    sensitive : column of any labels, shape (n,), optional
        Attribute value; negative or missing values are unknown: the sample then counts for its
        class and task, but for no group.
    before : Counts, optional
        The counts after the previous task, with one task less.
    favoured : collection of labels, optional
        The favoured classes.
    times : array of int, shape (n,), optional
        Number of samples that each row stands for, at least 1; by default 1.

    Raises
    ------
    DataError
        If lengths differ, there are no samples, labels are invalid, a class is in two tasks, or
        ``before`` has a wrong number of tasks.
    """
    arrays = checked_columns(
        {"y_true": y_true, "y_pred": y_pred, "task": task, "sensitive": sensitive}
    )
    no_value = np.zeros(len(arrays["y_true"]), dtype=np.int64)
    classes, codes = distinct_labels(np.concatenate([arrays["y_true"], arrays["y_pred"]]))
    true, predicted = np.split(codes, 2)
    attributes, value = distinct_labels(arrays.get("sensitive", no_value))
    tasks, task_code = distinct_labels(arrays.get("task", no_value))
    rows = None if times is None else np.asarray(times, dtype=np.float64)
    members = _table(true, task_code, (len(classes), len(tasks))) > 0
    raise_all(
        [
            f"class {label} is in tasks {', '.join(map(str, tasks[row]))}; put it in one"
            for label, row in zip(classes, members, strict=True)
            if row.sum() > 1
        ],
        DataError,
    )
    if before is not None and len(before.members) != len(tasks) - 1:
        raise DataError(
            f"the predictions are of {len(tasks)} tasks and those of the task before are of "
            f"{len(before.members)}, expected {len(tasks) - 1}; evaluate after every task, each "
            "time on the test samples of all tasks so far"
        )
    shape = (len(classes), len(attributes))
    right = true == predicted
    return Counts(
        classes,
        attributes,
        samples=_table(true, value, shape, rows),
        hits=_table(true[right], value[right], shape, None if rows is None else rows[right]),
        predicted=_table(predicted, value, shape, rows),
        members=members.T,
        before=before,
        favoured=_among(classes, favoured_labels(favoured)),
    )


def certain_enough(probability: ArrayLike, abstain: float) -> NDArray[np.bool_]:
    """Return which predictions are answered if the least certain are withheld, (n,).

    Parameters
    ----------
    probability : array of float, shape (n,)
        Probability of the predicted class.
    abstain : float
        Fraction of predictions to withhold, from 0 to below 1. Fewer are withheld if several are
        exactly as certain as the last answered one, so that the order of samples has no effect.
    """
    values = np.asarray(probability, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise DataError(
            f"probability has shape {values.shape}, expected a number from 0 to 1 for each sample"
        )
    if not 0 <= abstain < 1:
        raise UsageError(f"`abstain` is {abstain:g}, expected a share from 0 to below 1")
    answered = len(values) - int(abstain * len(values))
    least: float = np.sort(values)[-answered]
    return values >= least


def answers_by_group(
    y_true: Column,
    y_pred: Column,
    probability: ArrayLike,
    abstain: float,
    sensitive: Column | None = None,
) -> tuple[Answers, ...]:
    """Return the number and accuracy of answered predictions, over all samples and per group.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    probability, abstain
        See :func:`certain_enough`.
    sensitive : column of any labels, shape (n,), optional
        Attribute values; without them, groups are classes.

    Returns
    -------
    tuple of Answers
        First for all samples, then for each group, by class and value.

    Examples
    --------
    >>> whole, *groups = answers_by_group([0, 0, 1, 1], [0, 1, 1, 1], [0.9, 0.4, 0.8, 0.7], 0.25)
    >>> whole.answered, whole.answered_accuracy, [group.answered for group in groups]
    (3, 1.0, [1, 2])
    """
    arrays = checked_columns({"y_true": y_true, "y_pred": y_pred, "sensitive": sensitive})
    kept = certain_enough(probability, abstain)
    true, value = arrays["y_true"], arrays.get("sensitive")
    if kept.shape != true.shape:
        raise DataError(
            f"probability has shape {kept.shape} and y_true {true.shape}, expected the same"
        )
    right = true == arrays["y_pred"]

    def answers(label: Any, attribute: Any, part: NDArray[np.bool_]) -> Answers:
        there = part & kept
        accuracy = float(right[there].mean()) if there.any() else None
        n, answered = int(part.sum()), int(there.sum())
        return Answers(label, attribute, n, float(right[part].mean()), answered, accuracy)

    found = [answers(None, None, np.ones(len(true), dtype=bool))]
    classes, code = distinct_labels(true)
    values, value_code = distinct_labels(value) if value is not None else (None, code)
    for number, label in enumerate(classes.tolist()):
        own = code == number
        if values is None:
            found.append(answers(label, None, own))
            continue
        for one in np.unique(value_code[own & known_values(values)[value_code]]).tolist():
            found.append(answers(label, values.tolist()[one], own & (value_code == one)))
    return tuple(found)


def share(part: Integers, whole: Integers) -> Floats:
    """Divide elementwise; NaN where ``whole`` is 0."""
    result = np.full(part.shape, np.nan)
    np.divide(part, whole, where=whole > 0, out=result)
    return result


def deviations(values: Floats) -> Floats:
    """Return the distance of each value from the mean of its row; NaN entries are ignored.

    The row's minimum is subtracted first, so that rounding cannot make equal values differ, and
    two values are exactly half their difference away from the mean.
    """
    shifted = values - np.nanmin(values, axis=-1, keepdims=True)
    distances: Floats = np.abs(shifted - np.nanmean(shifted, axis=-1, keepdims=True))
    return distances


def _table(
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    shape: tuple[int, int],
    times: Floats | None = None,
) -> Integers:
    # Sums of integers are exact in float64 up to 2⁵³.
    flat = np.bincount(rows * shape[1] + columns, times, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def _among(classes: Labels, favoured: Collection[Any] | None) -> NDArray[np.bool_] | None:
    if favoured is None:
        return None
    wanted = set(favoured)
    return np.array([label in wanted for label in classes.tolist()], dtype=bool)
