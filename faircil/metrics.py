"""Accuracy and fairness of predictions: pure functions of arrays, no net and no stream needed.

:data:`METRICS` is the one place that defines a metric. Evaluation, stored results, tables, plots,
tuning, progress and ``faircil list metrics`` read it, so that a new metric is one row.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.counts import (
    ENOUGH,
    ClassAccuracy as ClassAccuracy,
    Counts,
    Floats,
    GroupAccuracy as GroupAccuracy,
    count,
    deviations,
)
from faircil.errors import DataError
from faircil.labels import Column
from faircil.registry import Registry


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

    err_y is the error of class y, err the error over all samples. None with a single class.
    """
    return eer_of(count(y_true, y_pred))


def eer_task(y_true: Column, y_pred: Column, task: Column) -> float:
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


def worst_group_of(counts: Counts) -> float | None:
    """Return the lowest accuracy of a group with at least :data:`ENOUGH` samples; None without one.

    Without an attribute all samples share one value, and a group is a class.
    """
    known = counts.known
    enough = known.samples >= ENOUGH
    return float(known.group_accuracies[enough].min()) if enough.any() else None


def forgetting_of(counts: Counts) -> float | None:
    """See :func:`forgetting`; None where the counts after earlier tasks are not known."""
    history = counts.history
    if len(history) == 1:
        return None
    matrix = np.full((len(history), len(history)), np.nan)
    for row, after in enumerate(history):
        matrix[row, : row + 1] = task_accuracies(after)
    return forgetting(matrix)


def balanced_accuracy_of(counts: Counts) -> float | None:
    """Return the mean over groups (y, z) of their accuracies a_{y,z}; None without a group."""
    rates = counts.known.group_accuracies
    return float(np.nanmean(rates)) if rates.size else None


def eer_of(counts: Counts) -> float | None:
    """See :func:`eer`."""
    if counts.seen.sum() < 2:
        return None
    overall = counts.hits.sum() / counts.samples.sum()
    return float(np.abs(counts.class_accuracies[counts.seen] - overall).mean())


def eer_task_of(counts: Counts) -> float:
    """See :func:`eer_task`."""
    return float(deviations(task_accuracies(counts)).mean())


def eo(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return equalized odds: the mean over groups (y, z) of ``|a_{y,z} − a_y|``.

    a_y is the mean of a_{y,z} over the values z present with class y. A class with only one value
    present is ignored; if every class is such, or there is no attribute, the result is None.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes.
    sensitive : column of any labels, shape (n,), or None
        Attribute value of each sample; negative or missing: unknown, the sample is in no group.
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

    The classes y are those of ``y_true``; a prediction of another class counts in the number of
    samples only. None with fewer than two attribute values.

    Notes
    -----
    With two values p = (n_0 p_0 + n_1 p_1)/n lies between p_0 and p_1: ``|p_0 − p| + |p_1 − p|`` is
    ``|p_0 − p_1|`` whatever the sizes n_z. If all predictions are one of two seen classes, both
    classes give the same difference: fairlearn's ``demographic_parity_difference`` is 2 · ``dp``.
    """
    return dp_of(count(y_true, y_pred, sensitive=sensitive))


def dp_predicted(y_true: Column, y_pred: Column, sensitive: Column | None) -> float | None:
    """Return :func:`dp` with the mean over the classes predicted at least once, seen or not."""
    return dp_predicted_of(count(y_true, y_pred, sensitive=sensitive))


def eo_of(counts: Counts) -> float | None:
    """See :func:`eo`."""
    return _deviation(_comparable(counts))


def eo_gap_of(counts: Counts) -> float | None:
    """See :func:`eo_gap`."""
    return _gap(_comparable(counts))


def eopp_of(counts: Counts) -> float | None:
    """Return :func:`eo` of the favoured classes alone; None where none are given."""
    return None if counts.favoured is None else _deviation(_comparable(counts, counts.favoured))


def eopp_gap_of(counts: Counts) -> float | None:
    """Return :func:`eo_gap` of the favoured classes alone; None where none are given."""
    return None if counts.favoured is None else _gap(_comparable(counts, counts.favoured))


def dp_of(counts: Counts) -> float | None:
    """See :func:`dp`."""
    known = counts.known
    return None if len(known.attributes) < 2 else _parity(known, known.seen)


def dp_predicted_of(counts: Counts) -> float | None:
    """See :func:`dp_predicted`."""
    known = counts.known
    chosen = known.predicted.sum(axis=1) > 0
    return None if len(known.attributes) < 2 else _parity(known, chosen)


def _comparable(counts: Counts, classes: NDArray[np.bool_] | bool = True) -> Floats:
    """Group accuracies of the classes with two or more values present, NaN for absent groups."""
    known = counts.known
    compared: NDArray[np.bool_] = (known.samples > 0).sum(axis=1) > 1
    return known.group_accuracies[compared & classes]


def _deviation(rates: Floats) -> float | None:
    """Mean over groups of the distance from the mean of their class; None without a class."""
    if not len(rates):
        return None
    # Summed by class first: the two deviations of a class with two values add up to its gap
    # without rounding, which keeps eo_gap = 2 eo exact.
    per_class = np.nansum(deviations(rates), axis=1)
    return float(per_class.sum() / np.isfinite(rates).sum())


def _gap(rates: Floats) -> float | None:
    """Mean over classes of the best minus the worst of their groups; None without a class."""
    if not len(rates):
        return None
    return float((np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)).mean())


def _parity(counts: Counts, classes: NDArray[np.bool_]) -> float:
    per_value = counts.samples.sum(axis=0)
    given_value = counts.predicted / per_value
    overall = counts.predicted.sum(axis=1, keepdims=True) / per_value.sum()
    return float(np.abs(given_value - overall)[classes].mean())


Part = Literal["class", "task", "group", "value"]


@dataclass(frozen=True)
class Metric:
    """A number that describes predictions, and everything needed to show it.

    Parameters
    ----------
    of : callable
        From :class:`~faircil.counts.Counts` to the value; None where it is undefined.
    title : str
        A few words for the axis of a plot.
    summary : str
        What it measures, in one sentence without the final period.
    higher_is_better : bool
    compares : {"class", "task", "group", "value"} or None
        The parts of the test data whose treatment it compares; a group is a class with one
        attribute value. None: it compares nothing.
    at_end : bool
        Whether a run is summarised by the value after its last task instead of the mean over tasks.
    ideal : str
        The best value in words, by default "1 = best" or "0 = fair".
    heading : str
        Of its column in tables, by default the name.
    limits : tuple
        Smallest and largest possible value; None where an axis follows the values.
    in_tables : bool
        Whether tables have a column of it.
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
        """Whether it says how differently parts of the data are treated."""
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
# In the order in which people read them.
_BUILT_IN = {
    "accuracy": Metric(
        accuracy_of,
        "accuracy",
        "Share of correct predictions, averaged within each task over its classes and then over "
        "the tasks so far; of a run, the mean over these evaluations",
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
        f"class) among those with at least {ENOUGH} test samples; of a run, of its final model. "
        "If it is low, a low disparity is levelling down",
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
        "between classes of one task do not show",
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
    """Return a row of :data:`METRICS`; a bare function lacks the words to show it."""
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
        All of :data:`METRICS`; None where a metric does not apply or is undefined.
    per_test_task : tuple of float
        Mean class accuracy of each task, tasks ascending.
    classes : tuple of ClassAccuracy
        Of the classes present in the data, ascending.
    groups : tuple of GroupAccuracy
        Of the groups present in the data, ascending; empty without an attribute.
    counts : Counts
        What all of them are computed from.
    """

    values: Mapping[str, float | None]
    per_test_task: tuple[float, ...]
    classes: tuple[ClassAccuracy, ...]
    groups: tuple[GroupAccuracy, ...]
    counts: Counts = field(repr=False, compare=False)

    def __getattr__(self, name: str) -> float | None:
        # Only called for names that are no field. Not through self.values: while an instance is
        # unpickled it has none yet, and looking it up would come back here.
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
) -> TaskMetrics:
    """Return every metric of these predictions; :data:`METRICS` says what each means.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes of the test samples of all tasks so far: numbers, words or other
        hashables, in a list, an array, a column of pandas or a tensor.
    task : column of int, shape (n,), optional
        The task to which the sample's true class belongs; by default there is one.
    sensitive : column of any labels, shape (n,), optional
        Attribute value of each sample; negative or missing: unknown, the sample is in no group.
    before : TaskMetrics, optional
        The metrics after the task before. Without them ``forgetting`` is undefined.
    favoured : collection of labels, optional
        Classes whose outcome people want. Without them ``eopp`` and ``eopp_gap`` are undefined.

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
        y_true, y_pred, task=task, sensitive=sensitive, before=earlier, favoured=favoured
    )
    return TaskMetrics(
        values={name: metric.of(counts) for name, metric in METRICS.items()},
        per_test_task=tuple(task_accuracies(counts).tolist()),
        classes=counts.by_class(),
        groups=() if sensitive is None else counts.by_group(),
        counts=counts,
    )


def read_predictions(path: str | Path) -> list[dict[str, Any]]:
    """Read the ``predictions.csv`` of a run: what :func:`evaluate` takes, after each task.

    Parameters
    ----------
    path : str or Path
        The file, or the folder of the run. It needs columns ``y_true`` and ``y_pred``; ``task``,
        ``attribute`` and ``after_task`` may be missing.

    Returns
    -------
    list of dict
        ``evaluate(**predictions[-1])`` are the metrics of the final model.
    """
    file = Path(path)
    file = file / "predictions.csv" if file.is_dir() else file
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError) as error:
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
    return [_arguments(part) for part in after.values()]


def _arguments(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the arguments of :func:`evaluate` in rows of a table; an empty value is unknown."""
    found: dict[str, Any] = {name: [row[name] for row in rows] for name in ("y_true", "y_pred")}
    if "task" in rows[0]:
        tasks = [row["task"] for row in rows]
        found["task"] = [int(task) if task.isdecimal() else task for task in tasks]
    if "attribute" in rows[0]:
        found["sensitive"] = [row["attribute"] or None for row in rows]
    return found
