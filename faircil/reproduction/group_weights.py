"""What the epochs of runs say of the weights of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from faircil.results.epochs import read_epochs
from faircil.results.record import GroupWeights, WeightRecord
from faircil.results.summary import RunSummary
from faircil.statistics import Interval, interval


@dataclass(frozen=True)
class WeightedEpoch:
    """The weights of an epoch of a task."""

    task: int
    weights: WeightRecord


@dataclass(frozen=True)
class GroupAverage:
    """A group of a task, averaged over epochs and then over seeds.

    ``worse``: its loss is the largest of the groups that it is compared with.
    """

    task: int
    label: int
    attribute: int
    samples: float
    weight: Interval
    loss: float
    worse: bool


def read_weights(runs: Sequence[RunSummary]) -> dict[int, list[WeightedEpoch]]:
    """Return the weighted epochs of runs by seed: those of all tasks but the first."""
    return {
        run.seed: [
            WeightedEpoch(epoch.task, epoch.weights)
            for epoch in read_epochs(Path(run.dir))
            if epoch.weights is not None
        ]
        for run in runs
    }


def compared(groups: Sequence[GroupWeights], measure: str) -> list[list[GroupWeights]]:
    """Return the sets of groups whose losses the measure compares, none of one group alone.

    EER compares the classes of a task, the others the attribute values of each class.
    """
    sets: dict[int, list[GroupWeights]] = {}
    for group in groups:
        sets.setdefault(0 if measure == "eer" else group.label, []).append(group)
    return [members for members in sets.values() if len(members) > 1]


def worse_gets_more(epochs: Sequence[WeightedEpoch], measure: str) -> float | None:
    """Return how often the group with the largest loss has the highest mean weight.

    A share of all comparisons of all epochs, those left out where all weights are equal, such as
    all 1; None where there is nothing to compare.
    """
    found = [
        worst.mean > max(g.mean for g in rest)
        for worst, rest in _worst(epochs, measure)
        if any(g.mean != worst.mean for g in rest)
    ]
    return fmean(found) if found else None


def worse_less_better(epochs: Sequence[WeightedEpoch], measure: str) -> float | None:
    """Return by how much the mean weight of the group with the largest loss exceeds the others'."""
    found = [worst.mean - fmean(g.mean for g in rest) for worst, rest in _worst(epochs, measure)]
    return fmean(found) if found else None


def value_less_value(epochs: Sequence[WeightedEpoch], first: int, second: int) -> float | None:
    """Return by how much the mean weight of an attribute value exceeds another's, by class."""
    found = []
    for epoch in epochs:
        for members in compared(epoch.weights.groups, "eo"):
            mean = {group.attribute: group.mean for group in members}
            if first in mean and second in mean:
                found.append(mean[first] - mean[second])
    return fmean(found) if found else None


def _worst(
    epochs: Sequence[WeightedEpoch], measure: str
) -> Iterator[tuple[GroupWeights, list[GroupWeights]]]:
    """Yield the group with the largest loss, and those that it is compared with."""
    for epoch in epochs:
        for members in compared(epoch.weights.groups, measure):
            worst = max(members, key=lambda group: group.loss)
            yield worst, [group for group in members if group is not worst]


def average_groups(
    by_seed: Mapping[int, Sequence[WeightedEpoch]], measure: str
) -> list[GroupAverage]:
    """Average the groups of each task over the epochs of a run, then over runs."""
    found: dict[int, dict[tuple[int, int], dict[int, list[GroupWeights]]]] = {}
    for seed, epochs in by_seed.items():
        for epoch in epochs:
            for group in epoch.weights.groups:
                of_task = found.setdefault(epoch.task, {})
                of_group = of_task.setdefault((group.label, group.attribute), {})
                of_group.setdefault(seed, []).append(group)
    return [
        average
        for task, groups in sorted(found.items())
        for average in _average_task(task, groups, measure)
    ]


def _average_task(
    task: int, groups: Mapping[tuple[int, int], Mapping[int, list[GroupWeights]]], measure: str
) -> list[GroupAverage]:
    means = {
        key: GroupWeights(
            *key,
            samples=0,
            mean=0.0,
            loss=fmean(fmean(group.loss for group in epochs) for epochs in seeds.values()),
        )
        for key, seeds in groups.items()
    }
    worst = [max(members, key=lambda g: g.loss) for members in compared([*means.values()], measure)]
    return [
        GroupAverage(
            task,
            *key,
            samples=fmean(epochs[0].samples for epochs in seeds.values()),
            weight=interval([fmean(group.mean for group in epochs) for epochs in seeds.values()]),
            loss=means[key].loss,
            worse=any(means[key] is other for other in worst),
        )
        for key, seeds in sorted(groups.items())
    ]
