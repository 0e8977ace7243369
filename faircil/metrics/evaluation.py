"""All metrics of one set of predictions, from one counting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from faircil.metrics.classes import accuracy_of, eer_of, eer_task_of, task_accuracies
from faircil.metrics.counts import Counts, count
from faircil.metrics.groups import dp_of, dp_predicted_of, eo_gap_of, eo_of

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
