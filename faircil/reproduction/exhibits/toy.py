"""Figure 1: who is forgotten, why, and what weights do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from faircil.report import format_value
from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import SEEDS, Results
from faircil.reproduction.measurement_plots.toy import draw_toy
from faircil.reproduction.measurements.statements import (
    look_up,
    page_of,
    problem_of,
    sentence,
    values_of,
)
from faircil.reproduction.measurements.toy import ToyForgetting
from faircil.reproduction.measurements.toy_seeds import ToySeeds, without_seeds
from faircil.reproduction.measurements.without_runs import WithoutRuns
from faircil.reproduction.page import Grid, Page, Picture, Section
from faircil.results.summary import spread

ABOUT = (
    "Dataset `toy`, shipped settings. Gradients are means over the new class and over the buffer's "
    "samples of the old ones, at the start of the second task. Means over seeds with their 95 % "
    "interval. The published angles come without a deviation: they count as the same if a single "
    "run of ours may have them."
)
CAPTION = (
    "Data and gradients of the first seed; accuracy as the mean over seeds, with a band from the "
    "smallest to the largest. Gradients have length 1 and are seen in the plane of g₁ and g₂; g₀ "
    "is short because it stands across it. g₂* is the mean of the new class with FSW's weights, "
    "thin lines are single samples."
)


@dataclass(frozen=True)
class Toy(WithoutRuns):
    """The toy of Fig. 1 with its angles."""

    title: str = "Unfair forgetting on a toy"
    paper: str = "Fig. 1"
    seeds: tuple[int, ...] = SEEDS

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        command = "faircil reproduce toy"
        found = [look_up(ToyForgetting(seed), results) for seed in self.seeds]
        problem = problem_of(found)
        if problem is not None:
            statements = without_seeds(problem)
            return page_of(sentence(problem), statements, ABOUT, command)
        toy = ToySeeds(values_of(found))
        return page_of(toy.answer(), toy.statements(), ABOUT, command, _section(toy))


def _section(toy: ToySeeds) -> Section:
    rows = tuple(
        (
            name,
            *(
                format_value(*spread(toy.accuracy(method)[:, epoch, label].tolist()))
                for label in range(3)
                for epoch in (0, -1)
            ),
        )
        for method, name in (("replay", "replay"), ("fsw", "FSW"))
    )
    times = ("before task 2", "after it")
    header = ("method", *(f"class {c}, {time}" for c in range(3) for time in times))

    def draw(path: Path) -> None:
        figure = draw_toy(toy.seeds[0], toy.accuracy("replay"), toy.accuracy("fsw"))
        write_png(figure, path)

    return Section(
        "Accuracy of each class",
        table=Grid(header, rows),
        picture=Picture("toy.png", CAPTION, draw),
    )
