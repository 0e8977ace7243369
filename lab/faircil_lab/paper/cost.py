"""Whether the cost that the program lowers and the disparity that counts move together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from faircil.report.statistics import Interval, interval
from faircil.weighting.groups import Floats
from faircil_lab.paper.comparison import pearson, spearman
from faircil_lab.paper.drawing import write_png
from faircil_lab.paper.epochs import EpochByEpoch, EpochPanel, WatchedRun, draw_together
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section, WithoutRuns
from faircil_lab.paper.store import (
    Statement,
    above_zero,
    look_up,
    not_run,
    page_of,
    problem_of,
    statement,
    values_of,
)
from faircil_lab.wording import mean_text, sentence

SAYS = "On {}, cost and EO disparity move together"

Correlation = Callable[[Floats, Floats], float]


@dataclass(frozen=True)
class Series:
    """Cost and disparity, (seeds, E), of E epochs, and the task of each."""

    tasks: tuple[int, ...]
    cost: Floats
    disparity: Floats

    @classmethod
    def of(cls, part: str, runs: Sequence[WatchedRun]) -> Series:
        """Gather what several seeds have measured on the training or on the test data."""
        cost, disparity = (
            np.array([[getattr(getattr(e, part), name) for e in run.epochs] for run in runs])
            for name in ("cost", "disparity")
        )
        return cls(tuple(epoch.task for epoch in runs[0].epochs), cost, disparity)

    def over_all(self, correlation: Correlation) -> Interval:
        """Correlate over all epochs, seed by seed."""
        pairs = zip(self.cost, self.disparity, strict=True)
        return interval([correlation(*pair) for pair in pairs])

    def within_tasks(self, correlation: Correlation) -> Interval:
        """Correlate over the epochs of a task, seed by seed, and average over tasks.

        Unlike the correlation over all epochs, this is not high merely because both values are
        higher in some tasks than in others.
        """
        parts = [np.array(self.tasks) == task for task in dict.fromkeys(self.tasks)]
        pairs = zip(self.cost, self.disparity, strict=True)
        return interval(
            [float(np.mean([correlation(a[part], b[part]) for part in parts])) for a, b in pairs]
        )

    def statement(self, where: str) -> Statement:
        """Say whether both move together."""
        found = self.within_tasks(spearman)
        ours = f"rank correlation within tasks {mean_text(found)}"
        return statement(SAYS.format(where), ours, above_zero(found))


DATASET = "biased-mnist"
PARTS = {"train": "training data (task and buffer)", "test": "test data of the tasks seen"}
ABOUT = (
    "The cost is what the program minimises, ‖Dℓ‖₁ of the losses of groups; the disparity is `eo`, "
    "the same formula with accuracies instead of losses. Both are measured after every epoch of a "
    "run of FSW for EO on "
    "Biased MNIST. They move together if they rise and fall together within a task: the rank "
    "correlation over its epochs, averaged over tasks; mean over seeds with its 95 % interval."
)
COLUMNS = ("all epochs, linear", "all epochs, ranks", "within tasks, linear", "within tasks, ranks")


@dataclass(frozen=True)
class CostFigure(WithoutRuns):
    """Cost function against measured disparity."""

    title: str = "Cost function and measured disparity"
    paper: str = "Fig. 4"
    seeds: tuple[int, ...] = (0, 1, 2)

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        command = "faircil reproduce cost"
        found = [look_up(EpochByEpoch(DATASET, seed), results) for seed in self.seeds]
        problem = problem_of(found)
        if problem is not None:
            statements = [not_run(SAYS.format(part), problem) for part in PARTS.values()]
            return page_of(sentence(problem), statements, ABOUT, command)
        series = {part: Series.of(part, values_of(found)) for part in PARTS}
        statements = [one.statement(PARTS[part]) for part, one in series.items()]
        return page_of(_answer(series), statements, ABOUT, command, _section(series))


def _answer(series: Mapping[str, Series]) -> str:
    train, test = (series[part] for part in ("train", "test"))
    together = [above_zero(one.within_tasks(spearman)) for one in (train, test)]
    reading = {
        (True, True): "They move together, on training and on test data",
        (True, False): "They move together on training data, but not on test data",
        (False, True): "They move together on test data, but not on training data",
        (False, False): "They do not move together",
    }[together[0], together[1]]
    within, over = (
        [mean_text(of(part, spearman)) for part in (train, test)]
        for of in (Series.within_tasks, Series.over_all)
    )
    return (
        f"{reading}: the rank correlation within a task is {within[0]} on training data and "
        f"{within[1]} on test data; over all epochs it is {over[0]} and {over[1]}."
    )


def _section(series: Mapping[str, Series]) -> Section:
    rows = tuple(
        (
            PARTS[part],
            *(mean_text(one.over_all(kind)) for kind in (pearson, spearman)),
            *(mean_text(one.within_tasks(kind)) for kind in (pearson, spearman)),
        )
        for part, one in series.items()
    )
    lines = {"cost": "cost", "disparity": "EO disparity"}
    panels = [
        EpochPanel(
            PARTS[part].capitalize(),
            one.tasks,
            {name: getattr(one, kind) for kind, name in lines.items()},
        )
        for part, one in series.items()
    ]

    def draw(path: Path, panels: Sequence[EpochPanel]) -> None:
        write_png(draw_together(panels), path)

    return Section(
        "Correlations",
        "Of cost and disparity, over all epochs and over those of a task.",
        Grid(("measured on", *COLUMNS), rows),
        Picture(
            "cost.png",
            "Cost (left scale) and EO disparity (right scale) after every epoch: mean over seeds, "
            "band from the smallest to the largest.",
            partial(draw, panels=panels),
        ),
    )
