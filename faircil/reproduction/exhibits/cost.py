"""Whether the cost that the program lowers and the disparity that counts move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import Results
from faircil.reproduction.measurement_plots.epochs import EpochPanel, draw_together
from faircil.reproduction.measurements.cost_series import SAYS, Series, pearson, spearman
from faircil.reproduction.measurements.epochs import EpochByEpoch
from faircil.reproduction.measurements.statements import (
    above_zero,
    look_up,
    not_run,
    page_of,
    problem_of,
    sentence,
    values_of,
    written,
)
from faircil.reproduction.measurements.without_runs import WithoutRuns
from faircil.reproduction.page import Grid, Page, Picture, Section

DATASET = "biased-mnist"
PARTS = {"train": "training data (task and buffer)", "test": "test data of the tasks seen"}
ABOUT = (
    "The cost is what the program lowers, ‖Dℓ‖₁ of the losses of groups; the disparity is `eo`, "
    "the same formula with accuracies for losses. Both after every epoch of a run of FSW for EO on "
    "Biased MNIST. They move together if they rise and fall together within a task: the rank "
    "correlation over its epochs, averaged over tasks; mean over seeds with its 95 % interval."
)
COLUMNS = ("all epochs, linear", "all epochs, ranks", "within tasks, linear", "within tasks, ranks")


@dataclass(frozen=True)
class Cost(WithoutRuns):
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
    return (
        f"{reading}: the rank correlation within a task is {written(train.within_tasks(spearman))} "
        f"on training data and {written(test.within_tasks(spearman))} on test data; over all "
        f"epochs it is {written(train.over_all(spearman))} and {written(test.over_all(spearman))}."
    )


def _section(series: Mapping[str, Series]) -> Section:
    rows = tuple(
        (
            PARTS[part],
            *(written(one.over_all(kind)) for kind in (pearson, spearman)),
            *(written(one.within_tasks(kind)) for kind in (pearson, spearman)),
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
