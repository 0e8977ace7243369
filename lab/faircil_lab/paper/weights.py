"""FSW's weights: their mean in each group of the current task, and how many are neither 0 nor 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from faircil.report import format_value
from faircil.report.statistics import Interval, interval
from faircil.results.record import GroupWeights, RunSummary, WeightRecord
from faircil.results.run_files import read_epochs
from faircil_lab.paper.comparison import UNDEFINED, compare_values
from faircil_lab.paper.exhibit import Verdict
from faircil_lab.paper.metrics import Metric, Target
from faircil_lab.paper.published import published


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


COUNT_HEADER = ("dataset (measure)", "number of", "paper", "ours", "difference", "verdict")
ORDER_HEADER = ("dataset (measure)", "difference of", "paper", "ours", "95 % interval", "verdict")
Epochs = Sequence[WeightedEpoch]


@dataclass(frozen=True)
class Weighed:
    """FSW's weights on a target by seed, or why there are none."""

    target: Target
    problem: str | None
    by_seed: Mapping[int, Epochs]

    def values(self, of: Callable[[Epochs], float | None]) -> dict[int, float]:
        """Return a number of each run that has it, by seed."""
        found = {seed: of(epochs) for seed, epochs in self.by_seed.items()}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class WeightClaim:
    """A number or a statement of the paper next to ours; ``value`` is our mean."""

    what: str
    texts: tuple[str, ...]
    value: float | None
    verdict: Verdict | None


@dataclass(frozen=True)
class Count:
    """A number of weights: what to call it, how to count it, and where the paper prints it."""

    words: str
    of: Callable[[WeightRecord], float]
    topic: str
    metric: str


COUNT_CLAIMS = (
    Count("weights that are 0 or 1", lambda w: w.kept + w.dropped, "weights", "binary"),
    Count("weights between 0 and 1", lambda w: w.partial, "weights", "non-binary"),
    Count("samples with a weight above 0", lambda w: w.kept + w.partial, "layers", "samples kept"),
)


def count_claims(weighed: Weighed) -> list[WeightClaim]:
    """Compare the counts of weights with the published ones."""
    return [_count_claim(weighed, count) for count in COUNT_CLAIMS]


def _count_claim(weighed: Weighed, count: Count) -> WeightClaim:
    metric = Metric(count.words, lambda _: None, None, digits=1)
    value = published(count.topic).value(weighed.target.key, "fsw", count.metric)
    ours = weighed.values(lambda epochs: fmean(count.of(e.weights) for e in epochs))
    found = compare_values(metric, value, ours)
    texts = (
        weighed.target.title,
        count.words,
        "–" if value is None else str(value),
        metric.text(list(ours.values())) if ours else "–",
        "–" if found.difference is None else metric.difference_text(found.difference),
        _verdict_text(found.verdict, weighed.problem),
    )
    return WeightClaim(count.metric, texts, fmean(ours.values()) if ours else None, found.verdict)


WORSE_LESS_BETTER = "mean weight, worse less better"  # begins what such a claim says


def order_claims(weighed: Weighed) -> list[WeightClaim]:
    """Check that the worse group gets the higher mean weight."""
    measure = weighed.target.measure
    shares = weighed.values(lambda epochs: worse_gets_more(epochs, measure))
    share = f" (above 0 in {100 * fmean(shares.values()):.0f} %)" if shares else ""
    found = [
        _order_claim(
            weighed,
            f"{WORSE_LESS_BETTER}{share}",
            weighed.values(lambda epochs: worse_less_better(epochs, measure)),
        )
    ]
    if weighed.target.dataset == "biased-mnist":
        values = weighed.values(lambda epochs: value_less_value(epochs, 1, 0))
        found.append(_order_claim(weighed, "mean weight, other colours less own", values))
    return found


def _order_claim(weighed: Weighed, what: str, values: Mapping[int, float]) -> WeightClaim:
    if not values:
        text = _verdict_text(Verdict.NOT_RUN, weighed.problem)
        return WeightClaim(
            what, (weighed.target.title, what, "above 0", "–", "–", text), None, Verdict.NOT_RUN
        )
    found = interval(list(values.values()))
    start = (weighed.target.title, what, "above 0", format_value(found.mean))
    if found.low is None or found.high is None:
        return WeightClaim(what, (*start, "–", UNDEFINED), found.mean, None)
    verdict = Verdict.SAME if found.low > 0 else Verdict.DIFFERENT
    bounds = f"{format_value(found.low)} … {format_value(found.high)}"
    return WeightClaim(what, (*start, bounds, verdict.value), found.mean, verdict)


def _verdict_text(verdict: Verdict | None, problem: str | None) -> str:
    if verdict is None:
        return "–"
    return f"{verdict.value}: {problem}" if verdict is Verdict.NOT_RUN else verdict.value
