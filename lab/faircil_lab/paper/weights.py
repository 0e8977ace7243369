"""Weights of the groups of the current task, and how many of them are neither 0 nor 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.data.datasets import DATASETS
from faircil.report import format_value
from faircil.report.plots import COLOURS
from faircil.report.statistics import Interval, interval
from faircil.results.record import GroupWeights, Names, RunSummary, WeightRecord
from faircil.results.run_files import read_epochs, read_names
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.comparison import UNTOLD, compare_values
from faircil_lab.paper.contenders import FSW, Entry, LineUp, commands, missing
from faircil_lab.paper.drawing import finish_axes, write_png
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section, Verdict
from faircil_lab.paper.metrics import TARGETS, Metric, Target
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
    """A number or a statement of the paper beside ours; ``value`` is our mean."""

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


def order_claims(weighed: Weighed) -> list[WeightClaim]:
    """Check that the worse group gets the higher mean weight."""
    measure = weighed.target.measure
    shares = weighed.values(lambda epochs: worse_gets_more(epochs, measure))
    share = f" (above 0 in {100 * fmean(shares.values()):.0f} %)" if shares else ""
    found = [
        _order_claim(
            weighed,
            f"mean weight, worse less better{share}",
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
        return WeightClaim(what, (*start, "–", UNTOLD), found.mean, None)
    verdict = Verdict.SAME if found.low > 0 else Verdict.DIFFERENT
    bounds = f"{format_value(found.low)} … {format_value(found.high)}"
    return WeightClaim(what, (*start, bounds, verdict.value), found.mean, verdict)


def _verdict_text(verdict: Verdict | None, problem: str | None) -> str:
    if verdict is None:
        return "–"
    return f"{verdict.value}: {problem}" if verdict is Verdict.NOT_RUN else verdict.value


WORSE = "larger loss"
WRAP = 14  # letters of a class's name on a line


@dataclass(frozen=True)
class Bar:
    """The mean weight of a group, with its interval.

    ``name`` is that of the class, ``value`` that of the attribute value, empty where there is none;
    ``worse``: the loss is larger than that of all groups it is compared with.
    """

    name: str
    value: str
    mean: float
    low: float | None
    high: float | None
    worse: bool


@dataclass(frozen=True)
class BarPanel:
    """A task: one place per class, side by side its attribute values."""

    title: str
    bars: tuple[Bar, ...]


def draw_bars(panels: Sequence[BarPanel], title: str, attribute: str) -> Figure:
    """Draw bars, one panel per task.

    Parameters
    ----------
    panels : sequence of BarPanel
    title : str
    attribute : str
        Its name heads the legend; empty where classes are compared.
    """
    figure = Figure(figsize=(2.7 * len(panels) + 2.0, 3.4), layout="constrained")
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    values = tuple(dict.fromkeys(bar.value for panel in panels for bar in panel.bars))
    for place, panel in zip(axes, panels, strict=True):
        _draw_panel(place, panel, values)
    axes[0].set_ylabel("mean weight", fontsize=9)
    axes[0].set_ylim(0, 1.12)
    figure.align_xlabels()
    handles, labels = axes[0].get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    order = [label for label in (*values, WORSE) if label in by_label]
    axes[-1].legend(
        [by_label[label] for label in order],
        order,
        title=attribute or None,
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
    )
    return figure


def _draw_panel(axes: Axes, panel: BarPanel, values: Sequence[str]) -> None:
    names = list(dict.fromkeys(bar.name for bar in panel.bars))
    width = 0.8 / len(values)
    for number, value in enumerate(values):
        bars = [bar for bar in panel.bars if bar.value == value]
        x = np.array([names.index(bar.name) for bar in bars])
        places = x + width * (number - (len(values) - 1) / 2)
        means = [bar.mean for bar in bars]
        axes.bar(places, means, width * 0.92, color=COLOURS[number], label=value)
        for place, bar in zip(places, bars, strict=True):
            if bar.low is not None and bar.high is not None:
                ends = np.clip([bar.low, bar.high], 0, 1)  # no weight is outside
                axes.plot([place, place], ends, color="black", lw=1.1)
        worse = [
            (place, min(max(bar.mean, bar.high or 0), 1))
            for place, bar in zip(places, bars, strict=True)
            if bar.worse
        ]
        if worse:
            at, top = np.array(worse).T
            axes.plot(at, top + 0.05, "v", color="black", markersize=6, label=WORSE)
    axes.set_xticks(range(len(names)), [fill(name, WRAP) for name in names])
    axes.set_xlabel("class", fontsize=9)
    axes.set_title(panel.title, fontsize=10)
    finish_axes(axes)


COUNTS = (
    "Per optimisation: means over all epochs of all tasks but the first. The paper prints no "
    "deviation: `same` where its number is within the 95 % interval of ours over seeds."
)
ORDER = (
    "Groups are compared as the measure does: the classes of a task (EER), or the attribute values "
    "of a class (EO, DP). The worse group has the larger loss on the training data when the "
    "weights are computed. The paper states that it gets the higher weight on average; `same` "
    "where the difference is above 0 over seeds (95 %). The share is of the comparisons of all "
    "tasks and epochs whose weights differ."
)


@dataclass(frozen=True)
class Weights:
    """How FSW weighs the samples of each task."""

    title: str = "Weights of groups, and how many are neither 0 nor 1"
    paper: str = "Figs. 3 and 23 to 30, Table 3"
    settings: Literal["tuned", "shipped"] = "tuned"
    seeds: tuple[int, ...] = SEEDS

    @property
    def line_up(self) -> LineUp:
        """FSW's runs of the tables of accuracy and disparity."""
        return LineUp((FSW,), TARGETS, self.settings, self.seeds)

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        return self.line_up.requests()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs, with the settings that were chosen."""
        return self.line_up.works(tuned)

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        entries = {target: self.line_up.entry(FSW, target, results) for target in TARGETS}
        weighed = [
            Weighed(target, entry.problem, read_weights(entry.runs))
            for target, entry in entries.items()
        ]
        counts = [claim for one in weighed for claim in count_claims(one)]
        orders = [claim for one in weighed for claim in order_claims(one)]
        sections = [
            Section("Weights that are 0 or 1, and others", COUNTS, _grid(COUNT_HEADER, counts)),
            Section("Who gets the higher weight", ORDER, _grid(ORDER_HEADER, orders)),
            *(_section(one, entries[one.target]) for one in weighed),
        ]
        verdicts = [claim.verdict for claim in (*counts, *orders) if claim.verdict is not None]
        return Page(_answer(counts, orders), tuple(sections), tuple(verdicts))


def _grid(header: tuple[str, ...], claims: Sequence[WeightClaim]) -> Grid:
    return Grid(header, tuple(claim.texts for claim in claims))


def _section(weighed: Weighed, entry: Entry) -> Section:
    """Show the mean weight of each group, task by task."""
    target = weighed.target
    averages = average_groups(weighed.by_seed, target.measure)
    text = missing([entry])
    if entry.runs and not averages:
        text = "An earlier version wrote these runs, without the weights of groups: run them again."
    if not averages:
        return Section(target.title, text, commands=commands([entry]))
    names = read_names(Path(entry.runs[0].dir))
    picture = Picture(
        f"weights-{target.file}.png",
        "Mean weight over the samples of a group, averaged over epochs; the mean over seeds with "
        "its 95 % interval.",
        lambda path: _draw(target, averages, names, path),
    )
    rows = [
        (
            str(group.task),
            names.classes[group.label],
            _value(target, group, names) or "all",
            f"{group.samples:,.0f}",
            format_value(group.weight.mean),
            format_value(group.loss),
        )
        for group in averages
    ]
    header = ("task", "class", "attribute value", "samples", "mean weight", "mean loss")
    return Section(target.title, text, Grid(header, tuple(rows)), picture, commands([entry]))


def _value(target: Target, group: GroupAverage, names: Names) -> str:
    """Name the attribute value; EER knows none."""
    return "" if target.measure == "eer" else names.attribute_values[group.attribute]


def _draw(target: Target, averages: Sequence[GroupAverage], names: Names, path: Path) -> None:
    panels = [
        BarPanel(
            f"task {task}",
            tuple(
                Bar(
                    names.classes[group.label],
                    _value(target, group, names),
                    group.weight.mean,
                    group.weight.low,
                    group.weight.high,
                    group.worse,
                )
                for group in averages
                if group.task == task
            ),
        )
        for task in dict.fromkeys(group.task for group in averages)
    ]
    attribute = DATASETS[target.dataset].attribute if target.measure != "eer" else None
    write_png(draw_bars(panels, target.title, attribute or ""), path)


def _answer(counts: Sequence[WeightClaim], orders: Sequence[WeightClaim]) -> str:
    held = [claim for claim in orders if claim.verdict not in (None, Verdict.NOT_RUN)]
    if not held:
        return "Not run yet."
    same = sum(claim.verdict is Verdict.SAME for claim in held)
    partial = [claim.value for claim in counts if claim.what == "non-binary" and claim.value]
    return (
        f"The worse group gets the higher mean weight in {same} of {len(held)} comparisons. Nearly "
        f"all weights are 0 or 1: at most {max(partial, default=0.0):.1f} per optimisation are not."
    )
