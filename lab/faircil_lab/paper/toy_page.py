"""Figure 1: who is forgotten, why, and what weights do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from faircil.report import format_value
from faircil.report.plots import COLOURS, MARKERS
from faircil.report.statistics import Interval, interval
from faircil.results.record import spread
from faircil.weighting.groups import Floats
from faircil_lab.paper.drawing import finish_axes, write_png
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section, WithoutRuns
from faircil_lab.paper.published import Value, published
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
from faircil_lab.paper.toy import Point, ToyForgetting, ToySeed, Vectors
from faircil_lab.wording import mean_text, sentence

ANGLES = {"neighbour": "angle g2 g1", "far": "angle g2 g0"}  # by our name, the published ones
LAYERS = {"last": "last layer", "every": "all layers"}
ANGLE_SAYS = {
    "neighbour": "Angle between the new class and its neighbour, g₂ and g₁ ({})",
    "far": "Angle between the new class and the far one, g₂ and g₀ ({})",
}
NOTHING = 0.01  # accuracy lost: less is not forgetting
SAYS = (
    "Replay alone forgets the neighbour, class 1",
    "Replay alone does not forget class 0",
    "Weights turn g₂ towards g₁",
    "FSW forgets less of class 1",
    "FSW costs class 2 less than it gives class 1",
)


def _is_nothing(lost: Interval) -> bool:
    """Whether all of the interval is below what counts as a loss: noise alone does not confirm."""
    return (lost.mean if lost.high is None else lost.high) < NOTHING


def published_angle(which: str) -> Value:
    """Return an angle as the paper prints it."""
    value = published("toy").value("toy", "fsw", ANGLES[which])
    assert value is not None
    return value


@dataclass(frozen=True)
class ToySeeds:
    """What all seeds have measured."""

    seeds: Sequence[ToySeed]

    def angles(self, layers: str, which: str) -> list[float]:
        """Return an angle, seed by seed."""
        return [getattr(getattr(seed, layers), which) for seed in self.seeds]

    def accuracy(self, method: str) -> Floats:
        """Return the accuracy of each class over epochs, (seeds, 1 + epochs, 3)."""
        return np.array([getattr(seed, method) for seed in self.seeds])

    def statements(self) -> list[Statement]:
        """Check what the paper says."""
        angles = [
            self._angle(which, layers, name) for which in ANGLES for layers, name in LAYERS.items()
        ]
        replay, fsw = self.accuracy("replay"), self.accuracy("fsw")
        lost, lost_fsw = replay[:, 0] - replay[:, -1], fsw[:, 0] - fsw[:, -1]
        turned = [s.turns[0].before.neighbour - s.turns[0].after.neighbour for s in self.seeds]
        after = [seed.turns[0].after.neighbour for seed in self.seeds]
        gained = fsw[:, -1] - replay[:, -1]
        lost_1, lost_0 = (interval(lost[:, label].tolist()) for label in (1, 0))
        less, balance = (
            interval(values.tolist())
            for values in (lost[:, 1] - lost_fsw[:, 1], gained[:, 1] + gained[:, 2])
        )
        return [
            *angles,
            statement(SAYS[0], f"accuracy lost {mean_text(lost_1)}", above_zero(lost_1)),
            statement(SAYS[1], f"accuracy lost {mean_text(lost_0, 3)}", _is_nothing(lost_0)),
            statement(
                SAYS[2],
                f"by {mean_text(interval(turned), 0, '°')}, "
                f"to {mean_text(interval(after), 0, '°')}",
                above_zero(interval(turned)),
            ),
            statement(SAYS[3], f"by {mean_text(less)}", above_zero(less)),
            statement(
                SAYS[4],
                f"class 1 {gained[:, 1].mean():+.2f}, class 2 {gained[:, 2].mean():+.2f}; "
                f"sum {mean_text(balance)}".replace("-", "−"),
                above_zero(balance),
            ),
        ]

    def _angle(self, which: str, layers: str, name: str) -> Statement:
        """Compare an angle with the published one, taken as that of a single run.

        One of ours lies within √(n + 1) times the half-width of the interval of the mean over n.
        """
        paper, found = published_angle(which), interval(self.angles(layers, which))
        half = 0.0 if found.high is None else found.high - found.mean
        reach = half * sqrt(len(self.seeds) + 1) + paper.rounding
        same = abs(found.mean - paper.mean) <= reach
        says, ours = ANGLE_SAYS[which].format(name), mean_text(found, 1, "°")
        return statement(says, ours, same, f"{paper}°")

    def answer(self) -> str:
        """Sum up the results."""
        near, far = (
            f"{mean_text(interval(self.angles('last', which)), 1, '°')}, published "
            f"{published_angle(which)}°,"
            for which in ANGLES
        )
        replay, fsw = (self.accuracy(method)[:, -1].mean(axis=0) for method in ("replay", "fsw"))
        return (
            f"At the start of the second task the new class is {near} from its neighbour and {far} "
            f"from the far class. Replay alone ends at an accuracy of {replay[1]:.2f} on the "
            f"neighbour, FSW at {fsw[1]:.2f}; the new class has {replay[2]:.2f} and {fsw[2]:.2f}."
        )


def without_seeds(problem: str) -> list[Statement]:
    """Return the statements where nothing was measured."""
    angles = [
        not_run(ANGLE_SAYS[which].format(name), problem, f"{published_angle(which)}°")
        for which in ANGLES
        for name in LAYERS.values()
    ]
    return [*angles, *(not_run(says, problem) for says in SAYS)]


CLASSES = (COLOURS[0], COLOURS[4], COLOURS[2])  # blue, orange and green, as in the paper
WEIGHTED = "#000000"


def draw_toy(shown: ToySeed, replay: Floats, fsw: Floats) -> Figure:
    """Draw four panels.

    Parameters
    ----------
    shown : ToySeed
        The seed whose data and gradients are drawn.
    replay, fsw : ndarray, shape (seeds, 1 + epochs, 3)
        Accuracy of each class before the second task and after each of its epochs.
    """
    figure = Figure(figsize=(10.5, 8.6), layout="constrained")
    (data, forgetting), (gradients, mitigation) = figure.subplots(2, 2)
    _draw_data(data, shown.data)
    _draw_accuracy(forgetting, replay, "(b) Forgetting: accuracy with replay alone")
    _draw_vectors(gradients, shown.vectors)
    _draw_accuracy(mitigation, fsw, "(d) Mitigation: accuracy with FSW")
    return figure


def _draw_data(axes: Axes, data: Sequence[Sequence[Point]]) -> None:
    for label, points in enumerate(data):
        x, y = np.array(points).T
        colour, marker = CLASSES[label], MARKERS[label]
        axes.scatter(x, y, s=12, color=colour, marker=marker, alpha=0.7)
        # Class 2 lies below class 1, and so does its name.
        place = (float(x.mean()), float(y.min() - 0.8 if label == 2 else y.max() + 0.3))
        task = "task 1" if label < 2 else "task 2"
        axes.annotate(f"class {label} ({task})", place, ha="center", color=colour, weight="bold")
    axes.margins(y=0.12)
    axes.set_title("(a) Data", loc="left", fontsize=11)
    axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    finish_axes(axes)


def _draw_accuracy(axes: Axes, values: Floats, title: str) -> None:
    epochs = np.arange(values.shape[1])
    for label, colour in enumerate(CLASSES):
        part, mean = values[:, :, label], values[:, :, label].mean(axis=0)
        axes.plot(epochs, mean, color=colour, marker=MARKERS[label], ms=4, label=f"class {label}")
        axes.fill_between(
            epochs, part.min(axis=0), part.max(axis=0), color=colour, alpha=0.15, lw=0
        )
    axes.set_ylim(-0.03, 1.06)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("epoch of the second task")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("accuracy on test data")
    axes.legend(frameon=False, loc="center right")
    finish_axes(axes)


def _draw_vectors(axes: Axes, vectors: Vectors) -> None:
    for x, y in vectors.samples:
        axes.plot([0, x], [0, y], color=CLASSES[2], alpha=0.12, lw=0.8)
    arrows = {
        "$g_0$": (vectors.means[0], CLASSES[0], "right"),
        "$g_1$": (vectors.means[1], CLASSES[1], "left"),
        "$g_2$": (vectors.means[2], CLASSES[2], "right"),
        "$g_2^*$": (vectors.weighted, WEIGHTED, "left"),
    }
    for name, ((x, y), colour, side) in arrows.items():
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
        reach = 1 + 0.07 / float(np.hypot(x, y))
        axes.annotate(name, (x * reach, y * reach), ha=side, va="center", color=colour, fontsize=13)
    axes.set_aspect("equal")
    axes.set_xlim(-1.15, 1.25)
    axes.set_ylim(-0.4, 1.2)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    axes.set_title("(c) Gradients at the start of the second task", loc="left", fontsize=11)
    axes.set_xlabel("along $g_1$")
    axes.set_ylabel("across")
    finish_axes(axes)
    axes.grid(False)


ABOUT = (
    "Dataset `toy`, shipped settings. Gradients are means over the new class and over the buffer's "
    "samples of the old ones, at the start of the second task. Means over seeds with their 95 % "
    "interval. The published angles come without a deviation: they count as the same if they are "
    "plausible for a single run of ours. A class is not forgotten if the whole interval of what "
    f"it lost is below {format_value(NOTHING)}."
)
CAPTION = (
    "Data and gradients of the first seed; accuracy as the mean over seeds, with a band from the "
    "smallest to the largest. Gradients have length 1 and are shown in the plane of g₁ and g₂; g₀ "
    "is short because it is nearly perpendicular to it. g₂* is the mean of the new class with "
    "FSW's weights, thin lines are single samples."
)


@dataclass(frozen=True)
class Toy(WithoutRuns):
    """The toy of Fig. 1 with its angles."""

    title: str = "Unfair forgetting on toy data"
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
