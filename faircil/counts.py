"""Counts of predictions by class, attribute value and task, from which all metrics are computed.

Classes and attribute values are taken as people have them: numbers, words or any other hashable, in
a list, an array of numpy, a column of pandas or a tensor of torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.errors import DataError, UsageError, raise_all, shortened

Integers = NDArray[np.int64]
Labels = NDArray[Any]  # int64, or objects where they are no integers
Column = Any  # an ArrayLike, a column of pandas or a tensor of torch
Floats = NDArray[np.float64]
ENOUGH = 10  # test samples; the accuracy of a smaller group is mostly noise


@dataclass(frozen=True)
class ClassAccuracy:
    """Accuracy on the ``n`` samples of a class."""

    label: Any
    n: int
    accuracy: float


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy on the ``n`` samples of a class with one attribute value."""

    label: Any
    attribute: Any
    n: int
    accuracy: float


@dataclass(frozen=True)
class Answers:
    """What is answered of some samples if predictions that are not certain enough are withheld.

    Parameters
    ----------
    label, attribute : as in the data, or None
        The group; None: all classes, or all attribute values.
    n : int
        Samples.
    accuracy : float
        On all of them.
    answered : int
        Those whose prediction is certain enough.
    answered_accuracy : float or None
        On these; None without any.
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
        For each class and attribute value: its samples; those predicted correctly; samples of any
        class with this value that are predicted as the class.
    members : ndarray of bool, shape (T, C)
        Which classes belong to each task, tasks ascending.
    before : Counts or None
        The counts after the previous task; None after the first task, or if unknown.
    favoured : ndarray of bool, shape (C,), or None
        Which classes are favoured; None if that is not known.
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
        """Which classes occur as truth, shape (C,)."""
        seen: NDArray[np.bool_] = self.samples.sum(axis=1) > 0
        return seen

    @property
    def known(self) -> Counts:
        """Without the samples whose attribute value is unknown: only the others are compared."""
        kept = is_known(self.attributes)
        tables = {name: getattr(self, name)[:, kept] for name in ("samples", "hits", "predicted")}
        return self if kept.all() else replace(self, attributes=self.attributes[kept], **tables)

    @property
    def class_accuracies(self) -> Floats:
        """Accuracy of each class, NaN for a class without samples, (C,)."""
        return share(self.hits.sum(axis=1), self.samples.sum(axis=1))

    @property
    def group_accuracies(self) -> Floats:
        """Accuracy of each group, NaN for a group without samples, (C, Z)."""
        return share(self.hits, self.samples)

    def by_class(self) -> tuple[ClassAccuracy, ...]:
        """Return the accuracy of each class that occurs as truth, ascending."""
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
        Attribute value; a negative or missing one is unknown: the sample counts for its class and
        task, and for no group.
    before : Counts, optional
        The counts after the previous task, which have one task less.
    favoured : collection of labels, optional
        The favoured classes.
    times : array of int, shape (n,), optional
        How many samples each row stands for, 1 or more; by default 1.

    Raises
    ------
    DataError
        If the lengths differ, there is no sample, values are no labels, a class is in two tasks,
        or ``before`` has another number of tasks.
    """
    arrays = checked({"y_true": y_true, "y_pred": y_pred, "task": task, "sensitive": sensitive})
    no_value = np.zeros(len(arrays["y_true"]), dtype=np.int64)
    classes, codes = distinct(np.concatenate([arrays["y_true"], arrays["y_pred"]]))
    true, predicted = np.split(codes, 2)
    attributes, value = distinct(arrays.get("sensitive", no_value))
    tasks, task_code = distinct(arrays.get("task", no_value))
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
        favoured=None if favoured is None else _among(classes, favoured),
    )


def certain_enough(probability: ArrayLike, abstain: float) -> NDArray[np.bool_]:
    """Tell which predictions are answered if the least certain are withheld.

    Parameters
    ----------
    probability : array of float, shape (n,)
        Of the predicted class.
    abstain : float
        Share of the predictions to withhold, from 0 to below 1. Fewer are where several are as
        certain as the last that is answered: the order of samples does not decide.
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
    """Return how many predictions are answered, and how well, of all samples and of each group.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    probability, abstain
        See :func:`certain_enough`.
    sensitive : column of any labels, shape (n,), optional
        Attribute values; without them a group is a class.

    Returns
    -------
    tuple of Answers
        First those of all samples, then of each group, by class and value.

    Examples
    --------
    >>> whole, *groups = answers_by_group([0, 0, 1, 1], [0, 1, 1, 1], [0.9, 0.4, 0.8, 0.7], 0.25)
    >>> whole.answered, whole.answered_accuracy, [group.answered for group in groups]
    (3, 1.0, [1, 2])
    """
    arrays = checked({"y_true": y_true, "y_pred": y_pred, "sensitive": sensitive})
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
    classes, code = distinct(true)
    values, value_code = distinct(value) if value is not None else (None, code)
    for number, label in enumerate(classes.tolist()):
        own = code == number
        if values is None:
            found.append(answers(label, None, own))
            continue
        for one in np.unique(value_code[own & is_known(values)[value_code]]).tolist():
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


NEVER_MISSING = ("y_true", "y_pred", "task")  # all other columns are attributes


def checked(given: dict[str, Column | None]) -> dict[str, Labels]:
    """Return the columns as arrays of int64 or objects; raise a DataError if they cannot be used.

    A missing attribute value is −1 among numbers, else None.

    Parameters
    ----------
    given : dict
        ``y_true``, ``y_pred``, perhaps ``task``, and attributes by name.
    """
    arrays = {name: _array(column) for name, column in given.items() if column is not None}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or arrays["y_true"].ndim != 1 or arrays["y_true"].size == 0:
        came = ", ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise DataError(f"{came}; expected shape (n,) with the same n of at least 1 for each")
    mistakes: list[str] = []
    found = {name: as_labels(name, array, mistakes) for name, array in arrays.items()}
    if "task" in found and found["task"].dtype == object:
        mistakes.append(
            f"task has values such as {found['task'][0]!r}, expected integers: number the tasks in "
            "the order in which they are learned"
        )
    raise_all(mistakes, DataError)
    words = {name: found[name].dtype == object for name in ("y_true", "y_pred")}
    if words["y_true"] != words["y_pred"] and not set(found["y_true"]) & set(found["y_pred"]):
        shown = (
            shortened(list(map(repr, dict.fromkeys(found[name].tolist()))), 3) for name in words
        )
        raise DataError(
            "y_true is {} and y_pred {}, so that no prediction could be right; give both as names "
            "or both as numbers".format(*shown)
        )
    return found


def _array(column: Column) -> NDArray[Any]:
    """Return a column as an array of whatever it holds."""
    if hasattr(column, "detach"):  # a tensor of torch, on any device
        column = column.detach().cpu()
    if hasattr(column, "to_numpy"):  # a column of pandas
        column = column.to_numpy()
    if isinstance(column, list | tuple) and any(isinstance(one, str | tuple) for one in column):
        # numpy would write numbers among words as words, and tuples as rows of a matrix.
        array = np.empty(len(column), dtype=object)
        for row, one in enumerate(column):
            array[row] = one
        return array
    return np.asarray(column)


def as_labels(name: str, array: NDArray[Any], mistakes: list[str]) -> Labels:
    """Return labels as int64 if they are whole numbers, else as objects; note mistakes."""
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    values = array.tolist()
    missing = np.fromiter(map(_is_missing, values), dtype=bool, count=len(values))
    if missing.any() and name in NEVER_MISSING:
        mistakes.append(
            f"{name} has {int(missing.sum())} missing values, expected a label for every sample; "
            "leave the others out"
        )
        return np.zeros(len(values), dtype=np.int64)
    there = [value for value, no in zip(values, missing, strict=True) if not no]
    if all(isinstance(value, bool | int | float) for value in there):
        if broken := [value for value in there if value % 1 != 0]:
            mistakes.append(
                f"{name} has values such as {broken[0]!r}, expected labels; give classes instead "
                "of scores, and divide measured values into ranges"
            )
            return np.zeros(len(values), dtype=np.int64)
        whole = [-1 if no else int(v) for v, no in zip(values, missing, strict=True)]
        return np.array(whole, dtype=np.int64)
    try:
        hash(tuple(there))
    except TypeError as error:
        mistakes.append(f"{name} has values that are no labels: {error}; give numbers or words")
    labels = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        labels[row] = None if missing[row] else value
    return labels


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN or pandas's NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # only NaN differs from itself
    except TypeError:  # NA is neither equal nor different
        return True


def is_known(attributes: Labels) -> NDArray[np.bool_]:
    """Tell which attribute values are known, (Z,)."""
    if attributes.dtype == object:
        return np.array([value is not None for value in attributes], dtype=bool)
    known: NDArray[np.bool_] = attributes >= 0
    return known


def distinct(labels: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """Return the distinct labels, ascending, and the number of each label among them."""
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    values = set(labels.tolist())
    try:
        ordered = sorted(values)
    except TypeError:  # of several types, None among them
        ordered = sorted(values, key=lambda value: (type(value).__name__, str(value)))
    distinct = np.empty(len(ordered), dtype=object)
    for place, value in enumerate(ordered):
        distinct[place] = value
    place_of = {value: place for place, value in enumerate(ordered)}
    return distinct, np.array([place_of[label] for label in labels.tolist()], dtype=np.intp)


def _among(classes: Labels, favoured: Collection[Any]) -> NDArray[np.bool_]:
    wanted = set(favoured)
    return np.array([label in wanted for label in classes.tolist()], dtype=bool)
