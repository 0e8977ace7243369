"""Scores of predictions on a stream, with what test rows and seeds leave open.

Two things vary. *Test rows* are a sample: with others, the same model would have other scores. Each
score of a seed has limits for that. Those of final accuracy, disparity and worst group are the
intervals of an audit of the final predictions (:mod:`faircil.auditing.intervals`). Accuracy over
time and fairness forgetting join several evaluations of the same rows; their standard error comes
from resampling rows within their groups, each with all of its predictions. *Seeds* change the model
and, on most streams, the rows: Student's t over seeds.

The two are independent, so their widths are added in squares: with e the mean over seeds, [l, u]
the mean of the limits and h the half-width of Student's interval,

    e − √((e − l)² + h²)   to   e + √((u − e)² + h²).

The noise of test rows is not divided by the number of seeds. Where all seeds share the test rows
they share its error. Where each seed draws its own rows, h has a part of it already, and the
interval is too wide rather than too narrow. A gap is larger by chance, so that e may lie above u:
then e is u.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from faircil.auditing.findings import Finding, report_of
from faircil.metrics import METRICS, TaskMetrics, evaluate
from faircil.report.statistics import Interval, interval
from faircil.results.over_time import Timeline, lost_since_best, metric_matrix, timeline_of
from faircil.results.record import averages
from faircil_lab.suite.catalogue import SuiteStream
from faircil_lab.suite.row_index import RowIndex

DRAWS = 500  # of an audit: enough for limits to two digits
RESAMPLES = 100  # of test rows: a standard error to 7 %
NORMAL = 1.96
# What a leaderboard has of a row, whether higher is better, and the ends of what it can be.
SCORES = {
    "accuracy": (True, (0.0, 1.0)),
    "final_accuracy": (True, (0.0, 1.0)),
    "disparity": (False, (0.0, 1.0)),
    "worst_group": (True, (0.0, 1.0)),
    "fairness_forgetting": (False, (-1.0, 1.0)),
}


@dataclass(frozen=True)
class Measured:
    """A score of one seed, and the limits that its test rows leave to the true one."""

    value: FiniteFloat  # as a file has to have it, too
    low: FiniteFloat
    high: FiniteFloat


@dataclass(frozen=True)
class SeedScore:
    """The scores of one seed; None where one is undefined.

    Parameters
    ----------
    accuracy : Measured or None
        Mean over the evaluations after each task.
    final_accuracy, disparity, worst_group : Measured or None
        Of the final model.
    fairness_forgetting : Measured or None
        Disparity on the classes of a task after the last task, minus its smallest value since they
        were learned; mean over old tasks.
    by_chance : float or None
        The disparity to expect of a model that is as accurate and treats all groups alike.
    too_small : int
        Groups with fewer than 10 test rows that the disparity compares.
    """

    accuracy: Measured | None
    final_accuracy: Measured | None
    disparity: Measured | None
    worst_group: Measured | None
    fairness_forgetting: Measured | None
    by_chance: FiniteFloat | None = None
    too_small: int = 0


BySeed = Mapping[int, SeedScore]


def score(stream: SuiteStream, index: RowIndex, predicted: NDArray[np.int64]) -> SeedScore:
    """Score the predictions of one seed.

    Parameters
    ----------
    stream : SuiteStream
    index : RowIndex
        Its n test rows.
    predicted : ndarray of int64, shape (tasks, n)
        See :func:`faircil_lab.suite.row_index.read_aligned`.
    """
    label = np.array([index.codes[name] for name in index.label])
    columns = [_columns(index, label, predicted, after) for after in range(1, index.tasks + 1)]
    evaluations: list[TaskMetrics] = []
    for one in columns:
        before = evaluations[-1] if evaluations else None
        evaluations.append(evaluate(**one, before=before))
    values = averages(evaluations)
    scope = () if stream.attribute is None else (stream.attribute,)
    report = report_of({scope: evaluations[-1].counts}, draws=DRAWS, only={stream.disparity})
    (gap,), (final,), (worst,) = map(report.find, (stream.disparity, "accuracy", "worst_group"))
    timeline = timeline_of(columns)
    errors = _errors(timeline, stream.disparity, label, columns[-1].get("sensitive"), predicted)
    return SeedScore(
        _around(values["accuracy"], errors[0]),
        _limited(final),
        _limited(gap),
        _limited(worst),
        _around(fairness_forgetting(timeline, stream.disparity), errors[1]),
        gap.floor,
        gap.too_small,
    )


def _columns(
    index: RowIndex, label: NDArray[np.int64], predicted: NDArray[np.int64], after: int
) -> dict[str, NDArray[np.int64]]:
    """Return the columns of an evaluation, as numbers."""
    n = index.seen(after)
    columns = {"y_true": label[:n], "y_pred": predicted[after - 1, :n], "task": index.task[:n]}
    if index.value is not None:
        names = sorted(set(index.value) - {""})
        codes = {"": -1} | {name: number for number, name in enumerate(names)}
        columns["sensitive"] = np.array([codes[value] for value in index.value[:n]])
    return columns


def _limited(found: Finding) -> Measured | None:
    if found.value is None or found.low is None or found.high is None:
        return None
    return Measured(found.value, found.low, found.high)


def _around(value: float | None, error: float) -> Measured | None:
    if value is None:
        return None
    return Measured(value, value - NORMAL * error, value + NORMAL * error)


def accuracy_over_time(timeline: Timeline) -> float:
    """Return the accuracy averaged over the tasks so far, then over evaluations."""
    matrix = metric_matrix(timeline, "accuracy")
    return fmean(np.nanmean(row) for row in matrix)


def fairness_forgetting(timeline: Timeline, disparity: str) -> float | None:
    """Return by how much the disparity within old tasks grew since its best, on average."""
    lost = lost_since_best(metric_matrix(timeline, disparity), METRICS[disparity].higher_is_better)
    known = lost[np.isfinite(lost)]
    return float(known.mean()) if len(known) else None


def _errors(
    timeline: Timeline,
    disparity: str,
    label: NDArray[np.int64],
    value: NDArray[np.int64] | None,
    predicted: NDArray[np.int64],
) -> tuple[float, float]:
    """Return standard errors of accuracy over time and of fairness forgetting."""
    drawn = resampled_hits(timeline, label, value, predicted)
    lines = [replace(timeline, hits=hits) for hits in drawn]
    accuracies = [accuracy_over_time(line) for line in lines]
    forgetting = [
        lost for line in lines if (lost := fairness_forgetting(line, disparity)) is not None
    ]
    return float(np.std(accuracies)), float(np.std(forgetting)) if forgetting else 0.0


def resampled_hits(
    timeline: Timeline,
    label: NDArray[np.int64],
    value: NDArray[np.int64] | None,
    predicted: NDArray[np.int64],
    draws: int = RESAMPLES,
) -> NDArray[np.int64]:
    """Draw test rows with replacement within their groups, and count right predictions again.

    A row is drawn with its predictions after all tasks, so that evaluations vary together. Groups
    keep their sizes.

    Parameters
    ----------
    timeline : Timeline
        With L evaluations, C classes and Z attribute values.
    label : ndarray, shape (n,)
    value : ndarray, shape (n,), or None
    predicted : ndarray, shape (L, n)
    draws : int

    Returns
    -------
    ndarray of int64, shape (draws, L, C, Z)
    """
    generator = np.random.default_rng(0)
    right = (predicted == label).astype(np.int64)
    hits = np.zeros((draws, *timeline.hits.shape), dtype=np.int64)
    values = timeline.attributes if value is not None else [0]
    own = value if value is not None else np.zeros(len(label), dtype=np.int64)
    for c, one in enumerate(timeline.classes):
        for z, other in enumerate(values):
            rows = np.flatnonzero((label == one) & (own == other))
            if len(rows):
                times = generator.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), draws)
                hits[:, :, c, z] = times @ right[:, rows].T
    return hits


def values_of(scores: BySeed, name: str) -> dict[int, float]:
    """Return a score of each seed that has it."""
    found: dict[int, Measured | None] = {seed: getattr(one, name) for seed, one in scores.items()}
    return {seed: one.value for seed, one in found.items() if one is not None}


def over_seeds(scores: BySeed, name: str) -> Interval | None:
    """Return the mean of a score over seeds with its interval; None where no seed has it."""
    found = [one for score in scores.values() if (one := getattr(score, name)) is not None]
    if not found:
        return None
    return combined(found, SCORES[name][1])


def combined(found: Sequence[Measured], ends: tuple[float, float]) -> Interval:
    """Join what test rows and what seeds leave open: see the module.

    Parameters
    ----------
    found : sequence of Measured
        One for each seed. A single one has the limits of its test rows alone.
    ends : tuple of float
        What the score can be at least and at most.
    """
    seeds = interval([one.value for one in found])
    half = 0.0 if seeds.high is None else seeds.high - seeds.mean
    low, high = fmean(one.low for one in found), fmean(one.high for one in found)
    middle = min(max(seeds.mean, low), high)
    below, above = hypot(middle - low, half), hypot(high - middle, half)
    return Interval(seeds.mean, max(middle - below, ends[0]), min(middle + above, ends[1]))
