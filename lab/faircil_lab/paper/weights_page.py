"""Figures 3 and 23 to 30 and Table 3: FSW's weights by group, drawn and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.data.datasets import DATASETS
from faircil.report import format_value
from faircil.report.plots import COLOURS
from faircil.results.record import Names
from faircil.results.run_files import read_names
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.contenders import FSW, Entry, LineUp, Settings, commands, missing
from faircil_lab.paper.drawing import finish_axes, write_png
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section, Verdict
from faircil_lab.paper.metrics import TARGETS, Target
from faircil_lab.paper.weights import (
    COUNT_HEADER,
    ORDER_HEADER,
    WORSE_LESS_BETTER,
    GroupAverage,
    Weighed,
    WeightClaim,
    average_groups,
    count_claims,
    order_claims,
    read_weights,
)

WORSE = "larger loss"
FEW = 0.01  # of all weights: nearly all others are 0 or 1
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
    settings: Settings = "tuned"
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
    """Say in how many comparisons the claim holds, and how many weights are neither 0 nor 1."""
    whole, partial = (
        [claim.value for claim in counts if claim.what == what and claim.value is not None]
        for what in ("binary", "non-binary")
    )
    if not partial:
        return "Not run yet."
    sentences = []
    # Not those of the digits' colours, which say nothing of the worse group.
    held = [
        claim
        for claim in orders
        if claim.what.startswith(WORSE_LESS_BETTER) and claim.verdict not in (None, Verdict.NOT_RUN)
    ]
    if held:
        same = sum(claim.verdict is Verdict.SAME for claim in held)
        sentences.append(
            f"The worse group gets the higher mean weight in {same} of {len(held)} comparisons."
        )
    most = f"{max(partial):.1f}"
    if all(p <= FEW * (p + w) for p, w in zip(partial, whole, strict=True)):
        sentences.append(f"Nearly all weights are 0 or 1: at most {most} per optimisation are not.")
    else:
        sentences.append(f"Up to {most} weights per optimisation are neither 0 nor 1.")
    return " ".join(sentences)
