"""The content of a report: methods on the same data, the files of their runs, and differences.

Everything is read through :mod:`faircil.results`, which rejects changed files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from faircil.counts import ENOUGH, Floats
from faircil.files import read_json
from faircil.metrics import METRICS
from faircil.report.comparison import Row, comparable, group_runs, is_bound
from faircil.report.statistics import FEWEST_SEEDS, LEVEL, Interval, holm, interval, paired
from faircil.report.table import Means, group_name, levels_down
from faircil.results.over_time import (
    Timeline,
    Transfer,
    bias_transfers,
    group_accuracies,
    lost_since_best,
    metric_matrix,
    read_timeline,
)
from faircil.results.record import EpochRecord, Names, RunSummary, over_seeds
from faircil.results.run_files import read_epochs, read_names

BASELINE = "er"  # plain replay
GENERAL = ("eo_gap", "eer")  # disparities for any data, with and without an attribute
Verdict = Literal["better", "worse", "open"]


@dataclass(frozen=True)
class GroupPath:
    """A group of the test data over time, as a mean over seeds.

    Parameters
    ----------
    label, value : str
        Class and attribute value; the latter is empty without an attribute.
    task : int
        Number of the task that introduces the class, from 1.
    n : int
        Number of test samples.
    path : tuple of float or None
        Accuracy after each task; None before the class is learned.
    lost : float or None
        See :func:`faircil.results.over_time.lost_since_best`; None for classes of the last task.
    """

    label: str
    value: str
    task: int
    n: int
    path: tuple[float | None, ...]
    lost: float | None

    @property
    def name(self) -> str:
        """Class and attribute value."""
        return f"{self.label}, {self.value}" if self.value else self.label

    @property
    def last(self) -> float:
        """Accuracy after the last task."""
        return self.path[-1] or 0.0

    @property
    def too_small(self) -> bool:
        """Whether there are too few test samples to evaluate the group."""
        return self.n < ENOUGH


@dataclass(frozen=True)
class GroupWeight:
    """Weight of a group of the training data in each task; None without a weight."""

    name: str
    weights: tuple[float | None, ...]


@dataclass(frozen=True)
class Method:
    """A configuration with everything that its runs have stored.

    Parameters
    ----------
    row : Row
    style : int
        Index of its colour and marker.
    timelines : tuple of Timeline
        For each run; empty if the runs store no predictions.
    epochs : tuple of EpochRecord
        Of the first run.
    names : Names
    environment : mapping
        Of the first run.
    """

    row: Row
    style: int
    timelines: tuple[Timeline, ...]
    epochs: tuple[EpochRecord, ...]
    names: Names
    environment: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return self.row.name

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """Its runs, by seed."""
        return self.row.runs

    @cached_property
    def means(self) -> Means:
        """All metrics of the runs, as means over seeds."""
        return over_seeds(self.runs)[0]

    def by_seed(self, metric: str) -> dict[int, float]:
        """Return a metric of each run that has it."""
        values = ((run.seed, run.value(metric)) for run in self.runs)
        return {seed: value for seed, value in values if value is not None}

    def interval(self, metric: str) -> Interval | None:
        """Return a metric with its interval over seeds; None if no run has it."""
        return _possible(list(self.by_seed(metric).values()), metric)

    def after_tasks(self, metric: str) -> list[Interval | None]:
        """Return a metric after each task, with its interval over seeds."""
        columns = ([task.get(metric) for task in run.per_task] for run in self.runs)
        by_task = ([v for v in values if v is not None] for values in zip(*columns, strict=True))
        return [_possible(known, metric) for known in by_task]

    @property
    def followed(self) -> tuple[Timeline, ...]:
        """The timelines that can be averaged: all, or the first if the order of classes differs."""
        first = self.timelines[0]
        same = all(
            [*one.classes] == [*first.classes] and [*one.task_of] == [*first.task_of]
            for one in self.timelines
        )
        return self.timelines if same else self.timelines[:1]

    def matrix(self, metric: str) -> Floats:
        """Return the metric of each task after each task, as a mean over seeds, (L, T)."""
        return _mean([metric_matrix(one, metric) for one in self.followed])

    @cached_property
    def groups(self) -> tuple[GroupPath, ...]:
        """All groups of the test data, in the order of learning."""
        if not self.timelines:
            return ()
        first = self.followed[0]
        accuracies = [group_accuracies(one) for one in self.followed]
        mean, lost = _mean(accuracies), _mean([lost_since_best(one) for one in accuracies])
        values = first.attributes[first.known]
        samples = first.samples[-1][:, first.known]
        found = []
        for place, value in zip(*np.nonzero(samples), strict=True):
            path = tuple(None if np.isnan(one) else float(one) for one in mean[:, place, value])
            less = float(lost[place, value])
            found.append(
                GroupPath(
                    str(first.classes[place]),
                    str(values[value]) if first.by_attribute else "",
                    int(first.task_of[place]) + 1,
                    int(samples[place, value]),
                    path,
                    None if np.isnan(less) else less,
                )
            )
        return tuple(found)

    @property
    def transfers(self) -> list[tuple[str, Transfer]]:
        """Changes of the favoured attribute value's advantage in each task, with its name."""
        if not self.timelines or not self.timelines[0].by_attribute:
            return []
        first = self.followed[0]
        mean = _mean([group_accuracies(one) for one in self.followed])
        names = first.attributes[first.known]
        return [(str(names[one.value]), one) for one in bias_transfers(mean, first.task_of)]

    @property
    def weights_are_of_groups(self) -> bool:
        """Whether weights belong to groups in a solution, rather than to samples in a step."""
        return any(epoch.passed is not None and epoch.passed.groups for epoch in self.epochs)

    @cached_property
    def weights(self) -> tuple[GroupWeight, ...]:
        """Group weights in each task of the first run, as means over epochs; empty if none."""
        found: dict[tuple[int, tuple[int, ...]], dict[int, list[float]]] = {}
        for epoch in self.epochs:
            for label, attribute, weight in _weights_of(epoch):
                by_task = found.setdefault((label, attribute), {})
                by_task.setdefault(epoch.task, []).append(weight)
        values = {value for _, attribute in found for value in attribute}
        if not self.weights_are_of_groups and values == {0}:  # the measure compares classes
            found = {(label, ()): weights for (label, _), weights in found.items()}
        tasks = range(1, len(self.runs[0].per_task) + 1)
        return tuple(
            GroupWeight(
                group_name(label, attribute, self.names),
                tuple(float(np.mean(own[task])) if task in own else None for task in tasks),
            )
            for (label, attribute), own in sorted(found.items())
        )


def _weights_of(epoch: EpochRecord) -> list[tuple[int, tuple[int, ...], float]]:
    if epoch.passed is not None:
        return [(one.label, one.attribute, one.weight) for one in epoch.passed.groups]
    groups = () if epoch.weights is None else epoch.weights.groups
    return [(one.label, (one.attribute,), one.mean) for one in groups]


def _possible(values: Sequence[float], metric: str) -> Interval | None:
    """Return the interval of a metric, clipped to its possible values; None without a value."""
    if not values:
        return None
    found = interval(values)
    if found.low is None or found.high is None:
        return found
    low, high = METRICS[metric].limits
    return Interval(
        found.mean,
        found.low if low is None else max(found.low, low),
        found.high if high is None else min(found.high, high),
    )


def _mean(arrays: Sequence[Floats]) -> Floats:
    """Return the mean of arrays of the same shape; NaN where all are NaN."""
    stacked = np.stack(arrays)
    there = np.isfinite(stacked)
    means = np.full(stacked.shape[1:], np.nan)
    sums = np.where(there, stacked, 0.0).sum(axis=0)
    np.divide(sums, there.sum(axis=0), where=there.any(axis=0), out=means)
    return means


@dataclass(frozen=True)
class Difference:
    """The difference of a method from the baseline in a metric, over common seeds.

    ``difference`` is the method's value minus that of the baseline. ``verdict`` is open if the
    paired t-test, with Holm's correction over all differences of the study, is not significant at 5
    %, or if there are fewer than 3 common seeds. ``levelled`` is whether a disparity is lower but
    no group gains.
    """

    method: str
    metric: str
    n: int
    difference: float
    low: float | None
    high: float | None
    verdict: Verdict
    levelled: bool = False


@dataclass(frozen=True)
class Study:
    """Methods that can be compared.

    Parameters
    ----------
    title : str
    note : str
        Differences from other studies of the same dataset; empty if there are none.
    methods : tuple of Method
    disparity : str
        The metric that shows the runs' measure.
    """

    title: str
    note: str
    methods: tuple[Method, ...]
    disparity: str

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics shown first."""
        names = ("final_accuracy", "worst_group", self.disparity)
        return tuple(n for n in names if any(one.interval(n) for one in self.methods))

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.methods[0].runs[0].per_task)

    @cached_property
    def baseline(self) -> Method | None:
        """Plain replay, if there are several methods including it; the one with the most seeds."""
        plain = [one for one in self.methods if one.runs[0].label == BASELINE]
        return (
            max(plain, key=lambda one: len(one.runs)) if len(self.methods) > 1 and plain else None
        )

    @property
    def ranked(self) -> tuple[Method, ...]:
        """The methods without references such as ``joint``."""
        return tuple(one for one in self.methods if not is_bound(one.row))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Differences of each method from the baseline in each headline metric."""
        base = self.baseline
        if base is None:
            return ()
        found: list[Difference] = []
        chances: list[float] = []
        for one in self.ranked:
            for metric in self.headline if one is not base else ():
                pair = paired(one.by_seed(metric), base.by_seed(metric))
                if pair.difference is None:
                    continue
                levelled = METRICS[metric].is_disparity and levels_down(
                    one.means, base.means, metric
                )
                found.append(
                    Difference(
                        one.name,
                        metric,
                        pair.n,
                        pair.difference,
                        pair.low,
                        pair.high,
                        "open",
                        levelled,
                    )
                )
                enough = pair.n >= FEWEST_SEEDS and pair.p_value is not None
                chances.append(pair.p_value if enough and pair.p_value is not None else 1.0)
        judged = zip(found, holm(chances), strict=True)
        return tuple(replace(one, verdict=_verdict(one, p)) for one, p in judged)

    @cached_property
    def front(self) -> frozenset[str]:
        """Names of methods that no other beats in both mean final accuracy and disparity."""
        places = {
            one.name: (accuracy.mean, -disparity.mean)
            for one in self.ranked
            if (accuracy := one.interval("final_accuracy"))
            and (disparity := one.interval(self.disparity))
        }
        return frozenset(
            name
            for name, mine in places.items()
            if not any(
                other != mine and all(b >= a for a, b in zip(mine, other, strict=True))
                for other in places.values()
            )
        )


def _verdict(one: Difference, p_value: float) -> Verdict:
    if p_value > 1 - LEVEL or one.difference == 0:
        return "open"
    return "better" if (one.difference > 0) == METRICS[one.metric].higher_is_better else "worse"


def studies_of(runs: Iterable[RunSummary], shown: Mapping[str, str]) -> list[Study]:
    """Read the files of finished runs, and group comparable runs.

    Parameters
    ----------
    runs : iterable of RunSummary
    shown : mapping from measure to metric
        The metric that shows each measure of the runs.
    """
    found = []
    for one in comparable(runs):
        rows = group_runs(one.runs)
        methods = tuple(_method(row, style) for style, row in enumerate(rows))
        metric = shown[str(one.runs[0].config["measure"])]
        if not METRICS[metric].is_disparity:  # such as the worst group, which is shown anyway
            metric = next(name for name in GENERAL if name == "eer" or _has(methods, name))
        found.append(Study(one.title, one.note, methods, metric))
    return found


def _has(methods: Sequence[Method], metric: str) -> bool:
    return any(one.interval(metric) for one in methods)


def _method(row: Row, style: int) -> Method:
    kept = row.runs[0].config.get("evaluate_on") != "validation"
    folder = Path(row.runs[0].dir)
    return Method(
        row,
        style,
        tuple(read_timeline(run) for run in row.runs) if kept else (),
        tuple(read_epochs(folder)),
        read_names(folder),
        read_json(folder / "environment.json"),
    )
