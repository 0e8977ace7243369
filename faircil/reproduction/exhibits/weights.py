"""Weights of the groups of the current task, and how many of them are neither 0 nor 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from faircil.data.datasets import DATASETS
from faircil.report import format_value
from faircil.reproduction.contenders import FSW
from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import SEEDS, Results
from faircil.reproduction.group_weights import GroupAverage, average_groups, read_weights
from faircil.reproduction.lineup import Entry, LineUp, commands, missing
from faircil.reproduction.page import Grid, Page, Picture, Section, Verdict
from faircil.reproduction.targets import TARGETS, Target
from faircil.reproduction.weight_claims import (
    COUNT_HEADER,
    ORDER_HEADER,
    Claim,
    Weighed,
    count_claims,
    order_claims,
)
from faircil.reproduction.weights_plot import Bar, BarPanel, draw_bars
from faircil.results.epochs import read_names
from faircil.results.record import Names
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest

COUNTS = (
    "Per optimisation: means over all epochs of all tasks but the first. The paper prints no "
    "deviation: `same` where its number is within the 95 % interval of ours over seeds."
)
ORDER = (
    "Groups are compared as the measure does: the classes of a task (EER), or the attribute values "
    "of a class (EO, DP). The worse one has the larger loss on the training data when the weights "
    "are computed. The paper says that it gets the higher weight on average; `same` where the "
    "difference is above 0 over seeds (95 %). The share is of the comparisons of all tasks and "
    "epochs whose weights differ."
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


def _grid(header: tuple[str, ...], claims: Sequence[Claim]) -> Grid:
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


def _answer(counts: Sequence[Claim], orders: Sequence[Claim]) -> str:
    held = [claim for claim in orders if claim.verdict not in (None, Verdict.NOT_RUN)]
    if not held:
        return "Not run yet."
    same = sum(claim.verdict is Verdict.SAME for claim in held)
    partial = [claim.value for claim in counts if claim.what == "non-binary" and claim.value]
    return (
        f"The worse group gets the higher mean weight in {same} of {len(held)} comparisons. Nearly "
        f"all weights are 0 or 1: at most {max(partial, default=0.0):.1f} per optimisation are not."
    )
