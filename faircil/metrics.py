"""Metrics of predictions: their definitions, their evaluation, and predictions read from a file.

:data:`METRICS` is the single table of metrics. Evaluation, stored results, tables, plots, tuning,
progress and ``faircil list metrics`` read it, so a new metric is one row. Only labels are needed,
neither a net nor a stream.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from faircil.counts import (
    ENOUGH,
    ClassAccuracy as ClassAccuracy,
    Counts,
    GroupAccuracy as GroupAccuracy,
    count,
)
from faircil.errors import DataError
from faircil.files import check_listed
from faircil.formulas import (
    accuracy as accuracy,
    accuracy_of,
    balanced_accuracy_of,
    dp as dp,
    dp_of,
    dp_predicted as dp_predicted,
    dp_predicted_of,
    eer as eer,
    eer_of,
    eer_task as eer_task,
    eer_task_of,
    eo as eo,
    eo_gap as eo_gap,
    eo_gap_of,
    eo_of,
    eopp_gap_of,
    eopp_of,
    forgetting as forgetting,
    forgetting_of,
    task_accuracies,
    worst_group_of,
)
from faircil.labels import Column
from faircil.registry import Registry

Part = Literal["class", "task", "group", "value"]


@dataclass(frozen=True)
class Metric:
    """A number that describes predictions, with everything needed to show it.

    Parameters
    ----------
    of : callable
        Maps :class:`~faircil.counts.Counts` to the value, or to None if it is undefined.
    title : str
        A few words for the axis of a plot.
    summary : str
        What it measures, in one sentence without the final period.
    higher_is_better : bool
    compares : {"class", "task", "group", "value"} or None
        The parts of the test data whose treatment it compares; a group is a class with one
        attribute value. None: it compares no parts.
    at_end : bool
        Whether a run reports the value after its last task instead of the mean over tasks.
    ideal : str
        The best value in words, by default "1 = best" or "0 = fair".
    heading : str
        Heading of its table column; by default the name.
    limits : tuple
        Smallest and largest possible value; None: an axis adapts to the values.
    in_tables : bool
        Whether tables have a column for it.
    """

    of: Callable[[Counts], float | None]
    title: str
    summary: str
    higher_is_better: bool = False
    compares: Part | None = None
    at_end: bool = False
    ideal: str = ""
    heading: str = ""
    limits: tuple[float | None, float | None] = (0.0, None)
    in_tables: bool = True

    @property
    def by_attribute(self) -> bool:
        """Whether it needs a sensitive attribute."""
        return self.compares in ("group", "value")

    @property
    def is_disparity(self) -> bool:
        """Whether it measures how differently parts of the data are treated."""
        return self.compares is not None and not self.higher_is_better

    @property
    def best(self) -> str:
        """The best value in words."""
        return self.ideal or ("1 = best" if self.higher_is_better else "0 = fair")

    @property
    def axis_title(self) -> str:
        """The title with the best value."""
        return f"{self.title} ({self.best})"

    @property
    def description(self) -> str:
        """The summary with the best value, as a sentence."""
        return f"{self.summary}; {self.best}."


SHARE = (0.0, 1.0)
MOST_DIGITS = 18  # of a task number; longer strings of digits are names
# In the order in which they are displayed.
_BUILT_IN = {
    "accuracy": Metric(
        accuracy_of,
        "accuracy",
        "Share of correct predictions, averaged within each task over its classes and then over "
        "the tasks so far; for a run, the mean over these evaluations",
        higher_is_better=True,
        heading="accuracy (mean)",
        limits=SHARE,
    ),
    "final_accuracy": Metric(
        accuracy_of,
        "accuracy",
        "The accuracy of the final model: after the last task, on the test samples of all tasks",
        higher_is_better=True,
        at_end=True,
        heading="accuracy (final)",
        limits=SHARE,
    ),
    "balanced_accuracy": Metric(
        balanced_accuracy_of,
        "accuracy over groups",
        "Accuracy averaged over groups (a class with one attribute value; without an attribute, a "
        "class), however small they are; tuning uses it",
        higher_is_better=True,
        limits=SHARE,
        in_tables=False,
    ),
    "worst_group": Metric(
        worst_group_of,
        "worst group's accuracy",
        "Accuracy of the worst group (a class with one attribute value; without an attribute, a "
        f"class) among those with at least {ENOUGH} test samples; for a run, that of its final "
        "model. If it is low, a low disparity is levelling down",
        higher_is_better=True,
        at_end=True,
        heading="worst group (final)",
        limits=SHARE,
    ),
    "eer": Metric(
        eer_of,
        "EER disparity between classes",
        "Equal error rate in the sense of fairness (not the biometric threshold of that name): "
        "how far the error of a class is from the overall error, on average",
        compares="class",
    ),
    "eer_task": Metric(
        eer_task_of,
        "EER disparity between tasks",
        "How far the accuracy of a task is from the mean over tasks, on average; differences "
        "between classes within a task do not count",
        compares="task",
    ),
    "eo": Metric(
        eo_of,
        "equalized-odds disparity",
        "Equalized odds: within a class, how far the accuracy for an attribute value is from the "
        "mean over values, on average",
        compares="group",
    ),
    "eo_gap": Metric(
        eo_gap_of,
        "equalized-odds gap",
        "Equalized odds as a gap: within a class, the best minus the worst accuracy over attribute "
        "values, on average (twice eo for two values)",
        compares="group",
    ),
    "eopp": Metric(
        eopp_of,
        "equal-opportunity disparity",
        "Equal opportunity: eo of the favoured classes alone, which a run with measure eopp names",
        compares="group",
    ),
    "eopp_gap": Metric(
        eopp_gap_of,
        "equal-opportunity gap",
        "Equal opportunity as a gap: eo_gap of the favoured classes alone",
        compares="group",
    ),
    "dp": Metric(
        dp_of,
        "demographic-parity disparity",
        "Demographic parity: how far the share of predictions that go to a class, for one "
        "attribute value, is from that share over all samples, averaged over seen classes",
        compares="value",
    ),
    "dp_predicted": Metric(
        dp_predicted_of,
        "demographic-parity disparity, predicted classes",
        "Demographic parity averaged over the classes that were predicted at least once instead of "
        "the seen ones",
        compares="value",
        in_tables=False,
    ),
    "forgetting": Metric(
        forgetting_of,
        "forgetting",
        "How much accuracy the old tasks have lost since their best moment, on average; below 0, "
        "old tasks have improved",
        at_end=True,
        ideal="0 = nothing forgotten",
        limits=(None, None),
    ),
}


def as_metric(piece: object) -> Metric:
    """Return a row of :data:`METRICS`; reject a bare function, which lacks title and summary."""
    if not isinstance(piece, Metric):
        raise TypeError(f"expected a Metric, with its title and summary, got {piece!r}")
    return piece


METRICS: Registry[Metric] = Registry("metric", "faircil.metrics", as_metric, _BUILT_IN)


@dataclass(frozen=True)
class TaskMetrics:
    """The metrics after a task.

    Every metric is also an attribute: ``after.eo_gap`` is ``after.values["eo_gap"]``.

    Parameters
    ----------
    values : mapping from name to float or None
        One entry for each of :data:`METRICS`; None where undefined or not applicable.
    per_test_task : tuple of float
        Mean class accuracy of each task, in ascending order of tasks.
    classes : tuple of ClassAccuracy
        For each class in the data, ascending.
    groups : tuple of GroupAccuracy
        For each group in the data, ascending; empty without an attribute.
    counts : Counts
        The counts from which all metrics are computed.
    """

    values: Mapping[str, float | None]
    per_test_task: tuple[float, ...]
    classes: tuple[ClassAccuracy, ...]
    groups: tuple[GroupAccuracy, ...]
    counts: Counts = field(repr=False, compare=False)

    def __getattr__(self, name: str) -> float | None:
        # Only called for names that are no field. self.values would recurse: an instance that is
        # being unpickled does not have it yet.
        values = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"there is no metric '{name}'; there are {', '.join(METRICS)}")
        value: float | None = values[name]
        return value


def evaluate(
    y_true: Column,
    y_pred: Column,
    *,
    task: Column | None = None,
    sensitive: Column | None = None,
    before: TaskMetrics | None = None,
    favoured: Collection[Any] | None = None,
    times: ArrayLike | None = None,
) -> TaskMetrics:
    """Return all metrics of the given predictions; :data:`METRICS` defines them.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes of the test samples of all tasks so far: numbers, words or other
        hashables, in a list, an array, a column of pandas or a tensor.
    task : column of int, shape (n,), optional
        The task to which the sample's true class belongs; by default all belong to one task.
    sensitive : column of any labels, shape (n,), optional
        Attribute value of each sample; negative or missing: unknown, the sample is in no group.
    before : TaskMetrics, optional
        The metrics after the previous task. Without it, ``forgetting`` is undefined.
    favoured : collection of labels, optional
        Classes with a favourable outcome. Without them ``eopp`` and ``eopp_gap`` are undefined.
    times : array of int, shape (n,), optional
        Number of samples that each row stands for, at least 1; by default 1.

    Examples
    --------
    >>> after = evaluate([0, 0, 1, 1], [0, 1, 1, 1], task=[0, 0, 1, 1], sensitive=[0, 1, 0, 1])
    >>> after.accuracy, after.per_test_task, after.eer, after.eo_gap
    (0.75, (0.5, 1.0), 0.25, 0.5)
    >>> evaluate(["no", "no", "yes", "yes"], ["no", "yes", "yes", "yes"], sensitive=list("fmfm")).eo
    0.25
    """
    earlier = None if before is None else before.counts
    counts = count(
        y_true,
        y_pred,
        task=task,
        sensitive=sensitive,
        before=earlier,
        favoured=favoured,
        times=times,
    )
    return TaskMetrics(
        values={name: metric.of(counts) for name, metric in METRICS.items()},
        per_test_task=tuple(task_accuracies(counts).tolist()),
        classes=counts.by_class(),
        groups=() if sensitive is None else counts.by_group(),
        counts=counts,
    )


def before_task(earlier: Sequence[TaskMetrics], task: Column) -> TaskMetrics | None:
    """Return the metrics after the preceding task, to pass as ``before`` to :func:`evaluate`.

    Parameters
    ----------
    earlier : sequence of TaskMetrics
        After each earlier task.
    task : column of int, shape (n,)
        Tasks of the samples to be evaluated next.

    Returns
    -------
    TaskMetrics or None
        None for the first task, and if some task so far introduced no class: forgetting is then
        undefined.
    """
    followed = earlier and len(np.unique(task)) == len(earlier) + 1
    return earlier[-1] if followed else None


def read_predictions(path: str | Path) -> list[dict[str, Any]]:
    """Read the ``predictions.csv`` of a run as arguments of :func:`evaluate` after each task.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of the run. It needs columns ``y_true`` and ``y_pred``; ``task``,
        ``attribute`` and ``after_task`` may be missing.

    Returns
    -------
    list of dict
        ``evaluate(**predictions[-1])`` returns the metrics of the final model.
    """
    return [arguments_of(rows) for rows in predictions_by_task(path)]


def predictions_by_task(path: str | Path) -> list[list[dict[str, str]]]:
    """Return the rows of a table of predictions after each task; see :func:`read_predictions`."""
    file = Path(path)
    file = file / "predictions.csv" if file.is_dir() else file
    check_listed(file)
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as a table of predictions: {error}") from None
    missing = [name for name in ("y_true", "y_pred") if not rows or name not in rows[0]]
    if missing:
        raise DataError(
            f"{file} has {len(rows)} rows and no column {' or '.join(missing)}; expected a table "
            "with a row for each prediction, such as the predictions.csv of a run"
        )
    after: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        after.setdefault(row.get("after_task", ""), []).append(row)
    return list(after.values())


def arguments_of(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Convert rows of a table to arguments of :func:`evaluate`; empty values are unknown."""
    found: dict[str, Any] = {name: [row[name] for row in rows] for name in ("y_true", "y_pred")}
    if "task" in rows[0]:
        tasks = [row["task"] for row in rows]
        found["task"] = [
            int(task) if task.isdecimal() and len(task) <= MOST_DIGITS else task for task in tasks
        ]
    if "attribute" in rows[0]:
        found["sensitive"] = [row["attribute"] or None for row in rows]
    return found
