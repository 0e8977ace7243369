"""How well Taylor's formula predicts the losses of groups, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import Results
from faircil.reproduction.measurement_plots.epochs import EpochPanel, draw_errors
from faircil.reproduction.measurements.epochs import EpochByEpoch
from faircil.reproduction.measurements.error_series import KINDS, LATER, SAYS, ErrorSeries
from faircil.reproduction.measurements.statements import (
    Statement,
    look_up,
    not_run,
    page_of,
    percent,
    problem_of,
    sentence,
    values_of,
)
from faircil.reproduction.measurements.without_runs import WithoutRuns
from faircil.reproduction.page import Grid, Page, Picture, Section
from faircil.reproduction.targets import DATASET_NAMES

DATASETS = ("mnist", "biased-mnist")
ABOUT = (
    "For every epoch from the second task on: how far the loss of a group after the epoch is from "
    "what was predicted at its start, averaged over groups (on the task's training data and the "
    "buffer). Taylor's formula is given the step that the epoch took, over all parameters. The "
    "linear program has a step of its own: it counts normalised gradients of the last layer with "
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
