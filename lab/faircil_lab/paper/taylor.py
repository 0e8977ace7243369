"""How well Taylor's formula predicts the losses of groups, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from faircil.report.statistics import interval
from faircil.weighting.groups import Floats
from faircil_lab.paper.comparison import rank_correlation
from faircil_lab.paper.drawing import write_png
from faircil_lab.paper.epochs import EpochByEpoch, EpochPanel, WatchedRun, draw_errors
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section, WithoutRuns
from faircil_lab.paper.metrics import DATASET_NAMES
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
from faircil_lab.wording import mean_text, percent, sentence

KINDS = {
    "first": "Taylor, first order",
    "second": "Taylor, second order",
    "program": "the linear program",
    "unchanged": "no change at all",
}
FIRST, SECOND, LATER = slice(0, 1), slice(1, 2), slice(1, None)  # epochs of a task
SAYS = (
    "{}: the error is largest in the first epoch of each task",
    "{}: the error falls with the epochs of a task",
    "{}: the second order is closer than the first, in the first epoch of a task",
    "{}: the second order is closer than the first, from the second epoch on",
)


@dataclass(frozen=True)
class ErrorSeries:
    """Errors on a dataset; E epochs from the second task on.

    Parameters
    ----------
    name : str
    tasks : tuple of int
        Of each epoch.
    values : mapping
        From a kind of prediction to errors, (seeds, E).
    """

    name: str
    tasks: tuple[int, ...]
    values: Mapping[str, Floats]

    @classmethod
    def of(cls, name: str, runs: Sequence[WatchedRun]) -> ErrorSeries:
        """Gather the errors of several seeds."""
        epochs = [[epoch for epoch in run.epochs if epoch.errors is not None] for run in runs]
        values = {
            kind: np.array([[getattr(epoch.errors, kind) for epoch in run] for run in epochs])
            for kind in KINDS
        }
        return cls(name, tuple(epoch.task for epoch in epochs[0]), values)

    def by_task(self, kind: str) -> dict[int, Floats]:
        """Return errors by task, each (seeds, epochs)."""
        tasks = np.array(self.tasks)
        return {task: self.values[kind][:, tasks == task] for task in dict.fromkeys(self.tasks)}

    def at(self, kind: str, epochs: slice) -> Floats:
        """Return the mean error over tasks and some of their epochs, (seeds,)."""
        means: Floats = np.mean(
            [errors[:, epochs].mean(axis=1) for errors in self.by_task(kind).values()], axis=0
        )
        return means

    def statements(self) -> list[Statement]:
        """Check what the paper says."""
        says = [text.format(self.name) for text in SAYS]
        tasks = self.by_task("first")
        largest = sum(int(errors.mean(axis=0).argmax()) == 0 for errors in tasks.values())
        trends = [
            float(np.mean([rank_correlation(errors[seed]) for errors in tasks.values()]))
            for seed in range(len(self.values["first"]))
        ]
        return [
            statement(says[0], f"in {largest} of {len(tasks)} tasks", largest == len(tasks)),
            statement(
                says[1],
                f"rank correlation of error and epoch {mean_text(interval(trends))}; the second "
                f"epoch has {percent(self.share_left())} of the error of the first",
                above_zero(interval([-trend for trend in trends])),
            ),
            self._closer(says[2], FIRST),
            self._closer(says[3], LATER),
        ]

    def _closer(self, says: str, epochs: slice) -> Statement:
        first, second = (self.at(kind, epochs) for kind in ("first", "second"))
        ours = f"mean error {second.mean():.3f} against {first.mean():.3f}"
        holds = above_zero(interval((first - second).tolist()))
        return statement(says, ours, holds, paper="in theory")

    def share_left(self) -> float:
        """Return the first-order error of second epochs over that of first ones."""
        return float(self.at("first", SECOND).mean() / self.at("first", FIRST).mean())

    def rows(self) -> list[tuple[str, ...]]:
        """Return the error in the first and in the last epoch of each task."""
        means = {
            kind: {task: errors.mean(axis=0) for task, errors in self.by_task(kind).items()}
            for kind in KINDS
        }
        return [
            (
                self.name,
                str(task),
                *(f"{means[kind][task][0]:.3f} → {means[kind][task][-1]:.3f}" for kind in KINDS),
            )
            for task in means["first"]
        ]


DATASETS = ("mnist", "biased-mnist")
ABOUT = (
    "For every epoch from the second task on: how far the loss of a group after the epoch is from "
    "the prediction at its start, averaged over groups (on the task's training data and the "
    "buffer). Taylor's formula gets the step that the epoch took, over all parameters. The linear "
    "program has its own step: it counts normalised gradients of the last layer with "
    "the factor α. “No change” predicts that losses stay as they are."
)


@dataclass(frozen=True)
class Taylor(WithoutRuns):
    """Errors of predicted losses."""

    title: str = "How well losses are predicted"
    paper: str = "Fig. 6"
    seeds: tuple[int, ...] = (0, 1, 2)

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        statements: list[Statement] = []
        found: list[ErrorSeries] = []
        for dataset in DATASETS:
            runs = [look_up(EpochByEpoch(dataset, seed), results) for seed in self.seeds]
            problem, name = problem_of(runs), DATASET_NAMES[dataset]
            if problem is not None:
                statements += [not_run(says.format(name), problem) for says in SAYS]
            else:
                found.append(ErrorSeries.of(name, values_of(runs)))
                statements += found[-1].statements()
        command = "faircil reproduce taylor"
        if not found:
            return page_of(sentence(statements[0].ours), statements, ABOUT, command)
        return page_of(_answer(found), statements, ABOUT, command, _section(found))


def _answer(found: Sequence[ErrorSeries]) -> str:
    parts = []
    for errors in found:
        left = {kind: f"{errors.at(kind, LATER).mean():.3f}" for kind in KINDS}
        parts.append(
            f"on {errors.name} the second epoch of a task has {percent(errors.share_left())} of "
            f"the first-order error of its first; from then on the error is {left['first']} on "
            f"average, {left['second']} with the second order, {left['unchanged']} if one "
            f"predicts no change at all, and {left['program']} for what the program predicts"
        )
    text = "; ".join(parts)
    return sentence(text)


def _section(found: Sequence[ErrorSeries]) -> Section:
    rows = [row for errors in found for row in errors.rows()]
    panels = [
        EpochPanel(
            errors.name,
            errors.tasks,
            {name: errors.values[kind] for kind, name in KINDS.items()},
        )
        for errors in found
    ]

    def draw(path: Path, panels: Sequence[EpochPanel]) -> None:
        write_png(draw_errors(panels, "error of a group's loss"), path)

    return Section(
        "First and last epoch of each task",
        "Mean error over groups and seeds, in the first → in the last epoch of a task.",
        Grid(("dataset", "task", *KINDS.values()), tuple(rows)),
        Picture(
            "taylor.png",
            "Error of predicted group losses in every epoch: mean over seeds, band from the "
            "smallest to the largest.",
            partial(draw, panels=panels),
        ),
    )
