"""Counts of predictions by class, attribute value and task: all that the metrics need to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.errors import DataError, raise_all

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Numbers of samples; C classes that occur as truth or prediction, Z values, T tasks.

    Parameters
    ----------
    classes : ndarray of int64, shape (C,)
        The classes, ascending.
    attributes : ndarray of int64, shape (Z,)
        The attribute values, ascending. Without an attribute all samples share one value.
    samples, hits, predicted : ndarray of int64, shape (C, Z)
        Samples of the class with the value; those of them predicted right; samples with the value,
        of any class, that are predicted as the class.
    members : ndarray of bool, shape (T, C)
        Which classes each task has, tasks ascending.
    """

    classes: Integers
    attributes: Integers
    samples: Integers
    hits: Integers
    predicted: Integers
    members: NDArray[np.bool_]

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which classes occur as truth, shape (C,)."""
        seen: NDArray[np.bool_] = self.samples.sum(axis=1) > 0
        return seen

    @property
    def class_accuracies(self) -> Floats:
        """Share of each class's samples predicted right, NaN for a class without any, (C,)."""
        return share(self.hits.sum(axis=1), self.samples.sum(axis=1))

    @property
    def group_accuracies(self) -> Floats:
        """Share of each group's samples predicted right, NaN for a group without any, (C, Z)."""
        return share(self.hits, self.samples)


def count(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    task: ArrayLike | None = None,
    sensitive: ArrayLike | None = None,
) -> Counts:
    """Count predictions; each argument is an array of integers of shape (n,).

    Raises
    ------
    DataError
        If the lengths differ, there is no sample, the values are not integers, or a class is in
        two tasks.
    """
    given = {"y_true": y_true, "y_pred": y_pred, "task": task, "sensitive": sensitive}
    arrays = _checked({name: np.asarray(a) for name, a in given.items() if a is not None})
    no_value = np.zeros_like(arrays["y_true"])
    labels = np.concatenate([arrays["y_true"], arrays["y_pred"]])
    classes, codes = np.unique(labels, return_inverse=True)
    true, predicted = np.split(codes, 2)
    attributes, value = np.unique(arrays.get("sensitive", no_value), return_inverse=True)
    tasks, task_code = np.unique(arrays.get("task", no_value), return_inverse=True)
    members = _table(true, task_code, (len(classes), len(tasks))) > 0
    raise_all(
        [
            f"class {label} is in tasks {', '.join(map(str, tasks[row]))}; put it in one"
            for label, row in zip(classes, members, strict=True)
            if row.sum() > 1
        ],
        DataError,
    )
    shape = (len(classes), len(attributes))
    right = true == predicted
    return Counts(
        classes,
        attributes,
        samples=_table(true, value, shape),
        hits=_table(true[right], value[right], shape),
        predicted=_table(predicted, value, shape),
        members=members.T,
    )


def share(part: Integers, whole: Integers) -> Floats:
    """Divide elementwise; NaN where ``whole`` is 0."""
    result = np.full(part.shape, np.nan)
    np.divide(part, whole, where=whole > 0, out=result)
    return result


def deviations(values: Floats) -> Floats:
    """Distance of each value from the mean of its row; NaN entries take no part.

    The row's minimum is taken off first: rounding then cannot make equal values look unequal, and
    two values lie at exactly half their difference from the mean.
    """
    shifted = values - np.nanmin(values, axis=-1, keepdims=True)
    distances: Floats = np.abs(shifted - np.nanmean(shifted, axis=-1, keepdims=True))
    return distances


def _table(rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, int]) -> Integers:
    flat = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def _checked(arrays: dict[str, NDArray[np.generic]]) -> dict[str, Integers]:
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or arrays["y_true"].ndim != 1 or arrays["y_true"].size == 0:
        came = ", ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise DataError(f"{came}; expected shape (n,) with the same n of at least 1 for each")
    raise_all(
        [
            f"{name} has values of type {array.dtype}, expected integers; number them with "
            "numpy.unique(values, return_inverse=True)"
            for name, array in arrays.items()
            if array.dtype.kind not in "biu"
        ],
        DataError,
    )
    return {name: array.astype(np.int64) for name, array in arrays.items()}
