"""What parity costs: accuracy against disparity, from no post-processing to the strictest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.plots import COLOURS, MARKERS
from faircil.report import format_value
from faircil.reproduction.drawing import write_png
from faircil.reproduction.metrics import METRICS
from faircil.reproduction.page import Grid, Picture, Section
from faircil.reproduction.targets import Target
from faircil.results.summary import RunSummary


@dataclass(frozen=True)
class Curve:
    """A method: its runs without post-processing, then with each ε."""

    name: str
    runs: tuple[tuple[RunSummary, ...], ...]

    def means(self, metric: str) -> list[float]:
        """Return the mean over seeds, point by point."""
        return [fmean(METRICS[metric].by_seed(runs).values()) for runs in self.runs]


def curve_section(target: Target, curves: Sequence[Curve], epsilons: Sequence[float]) -> Section:
    """Show accuracy / dp of every ε as a table and as a picture."""
    names = ("none", *(f"ε = {epsilon:g}".replace("0.", ".") for epsilon in epsilons))
    rows = tuple(
        (
            curve.name,
            *(
                f"{format_value(accuracy)} / {format_value(disparity)}"
                for accuracy, disparity in zip(
                    curve.means("accuracy"), curve.means("dp"), strict=True
                )
            ),
        )
        for curve in curves
    )
    picture = Picture(
        f"epsilon-fair-{target.file}.png",
        "Accuracy against demographic-parity disparity (`dp`), means over seeds. Hollow: without "
        f"post-processing; then, along the line, {', '.join(reversed(names[1:]))}.",
        lambda path: _draw(target, curves, path),
    )
    heading = f"The cost of parity on {target.title}: accuracy / dp"
    return Section(heading, table=Grid(("method", *names), rows), picture=picture)


def _draw(target: Target, curves: Sequence[Curve], path: Path) -> None:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(curves):
        _line(axes, curve, number)
    axes.set_title(f"The cost of parity on {target.title}", fontsize=11)
    axes.set_xlabel("demographic-parity disparity, dp (0 = fair)")
    axes.set_ylabel("accuracy (1 = best)")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    write_png(figure, path)


def _line(axes: Axes, curve: Curve, number: int) -> None:
    """Draw a curve from its hollow beginning to the strictest ε."""
    accuracy, disparity = curve.means("accuracy"), curve.means("dp")
    order = [0, *range(len(accuracy) - 1, 0, -1)]  # the loosest ε is next to none
    xs, ys = [disparity[i] for i in order], [accuracy[i] for i in order]
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    axes.plot(xs, ys, color=colour, marker=marker, lw=1.6, ms=6, label=curve.name)
    axes.plot(xs[:1], ys[:1], color=colour, marker=marker, ms=8, mfc="white", mew=1.6)
