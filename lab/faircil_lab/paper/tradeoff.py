"""Accuracy against disparity: FSW by λ, and the best points of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from faircil.report import BOUNDS, format_value
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.comparison import Points, dominated, front
from faircil_lab.paper.contenders import CONTENDERS, FSW, Contender, LineUp, request, why_not_chosen
from faircil_lab.paper.drawing import EMPHASIS, Style, finish_axes, style_of, write_png
from faircil_lab.paper.exhibit import Results
from faircil_lab.paper.metrics import METRICS, TARGETS, Target
from faircil_lab.paper.page import Grid, Page, Picture, Section, Verdict

LAMBDAS = ("0", "0.01", "0.1", "0.5", "1", "5", "10")
RIVALS = tuple(c for c in CONTENDERS if c.method not in BOUNDS and c != FSW)


@dataclass(frozen=True)
class Trade:
    """The points of a target: FSW's by λ, and each rival's front."""

    target: Target
    lambdas: tuple[str, ...]
    curve: Points
    rivals: Mapping[Contender, Points]

    def against(self, *, in_paper_only: bool) -> Points:
        """Return the points of the rivals, (n, 2)."""
        chosen = [p for c, p in self.rivals.items() if c.in_paper or not in_paper_only]
        return np.concatenate([np.empty((0, 2)), *chosen])


def choice_of(target: Target, tuned: Mapping[TuneRequest, Tuned]) -> Tuned | None:
    """Return the search for FSW's settings on a target."""
    return tuned.get(request(FSW, target.dataset, target.measure))


def curve_configs(choice: Tuned) -> list[RunConfig]:
    """Return the best of the search once for each λ; a later setting wins over an earlier one."""
    return [choice.request.config([*choice.best.overrides, f"lam={lam}"]) for lam in LAMBDAS]


def trade_of(target: Target, results: Results) -> Trade | None:
    """Collect the points of a target; None where FSW has none."""
    choice = choice_of(target, results.tuned)
    if choice is None:
        return None
    runs = [results.runs(config, choice.request.seeds) for config in curve_configs(choice)]
    found = {
        lam: point
        for lam, of_lam in zip(LAMBDAS, runs, strict=True)
        if (point := _point(of_lam, target.metric))
    }
    rivals = {}
    for contender in RIVALS:
        tuned = results.tuned.get(request(contender, target.dataset, target.measure))
        points = [_point(trial.runs, target.metric) for trial in tuned.trials] if tuned else []
        if known := [point for point in points if point]:
            rivals[contender] = front(np.array(known))
    if not found:
        return None
    return Trade(target, tuple(found), np.array(list(found.values())), rivals)


def _point(runs: Sequence[RunSummary], metric: str) -> tuple[float, float] | None:
    """Return mean accuracy and disparity; None where a run or a value is missing."""
    values = [(run.metrics["accuracy"], run.metrics[metric]) for run in runs]
    known = [(a, d) for a, d in values if a is not None and d is not None]
    if not known or len(known) < len(values):
        return None
    return fmean(a for a, _ in known), fmean(d for _, d in known)


Pairs = NDArray[np.float64]
NEAR = 0.05  # of an axis: labels as near as this are written as one


@dataclass(frozen=True)
class Cloud:
    """Points (n, 2) of accuracy and disparity; ``ours`` are drawn hollow."""

    name: str
    style: Style
    points: Pairs
    ours: bool = False


@dataclass(frozen=True)
class Curve:
    """Points (n, 2) of accuracy and disparity in the order of what moves along the curve."""

    name: str
    labels: tuple[str, ...]
    points: Pairs


def draw_tradeoff(curve: Curve, clouds: Sequence[Cloud], title: str, disparity: str) -> Figure:
    """Draw all points on the left, and what surrounds the curve on the right.

    Parameters
    ----------
    curve : Curve
    clouds : sequence of Cloud
    title : str
    disparity : str
        Name of the second axis.
    """
    figure = Figure(figsize=(11.2, 4.3), layout="constrained")
    figure.suptitle(title, fontsize=13)
    whole, near = figure.subplots(1, 2)
    for axes in (whole, near):
        for cloud in clouds:
            axes.plot(
                *cloud.points.T,
                label=cloud.name,
                color=cloud.style.colour,
                marker=cloud.style.marker,
                markerfacecolor="none" if cloud.ours else cloud.style.colour,
                markersize=7,
                lw=0,
            )
        axes.plot(*curve.points.T, label=curve.name, color=EMPHASIS, marker="o", ms=5, lw=1.6)
        axes.set_xlabel("accuracy", fontsize=9)
        finish_axes(axes)
    whole.set_ylabel(disparity, fontsize=9)
    whole.set_title("all (better: right and down)", fontsize=10)
    near.set_title("around FSW, with its λ", fontsize=10)
    _zoom(near, curve.points)
    _write_labels(near, curve)
    near.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    return figure


def _zoom(axes: Axes, points: Pairs) -> None:
    """Set limits that leave half of the curve's own extent around it, and at least .01."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.maximum(0.5 * (high - low), 0.01)
    (left, bottom), (right, top) = low - margin, high + margin
    axes.set_xlim(left, right)
    axes.set_ylim(max(bottom, 0), top)


def _write_labels(axes: Axes, curve: Curve) -> None:
    """Write labels beside the points, those of points that lie together as one."""
    extent = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    together: list[tuple[Pairs, list[str]]] = []
    for point, label in zip(curve.points, curve.labels, strict=True):
        for place, labels in together:
            if np.abs((point - place) / extent).max() < NEAR:
                labels.append(label)
                break
        else:
            together.append((point, [label]))
    for place, labels in together:
        axes.annotate(
            ", ".join(labels),
            (place[0], place[1]),
            xytext=(7, -9),
            textcoords="offset points",
            fontsize=8.5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


ABOUT = (
    "All points are measured on the part of the training data that is held out to choose settings, "
    "with its one seed; the paper shows test data. FSW: its chosen settings, with λ alone varied. "
    "Others: of all configurations that were tried, those that no other of the same method beats "
    "in both accuracy and disparity. Joint training and fine-tuning are bounds and take no part."
)
HEADER = (
    "dataset (measure)",
    "points of FSW that no other method of the paper beats in both",
    "… nor replay, a control or DER++",
    "points of the paper's other methods that FSW beats in both",
    "FSW's curve stands, as in the paper",
)


@dataclass(frozen=True)
class Tradeoff:
    """The trade between accuracy and disparity; it needs the trials of a search."""

    title: str = "Accuracy against disparity"
    paper: str = "Figs. 2 and 9 to 12"
    settings: Literal["tuned", "shipped"] = "tuned"

    def requests(self) -> Sequence[TuneRequest]:
        """Return the searches whose trials are the points."""
        return LineUp((FSW, *RIVALS), TARGETS, self.settings).requests()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return FSW's curves."""
        return [
            Work(config, seed)
            for target in TARGETS
            if (choice := choice_of(target, tuned))
            for config in curve_configs(choice)
            for seed in choice.request.seeds
        ]

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        trades = {target: trade_of(target, results) for target in TARGETS}
        shown = [trade for trade in trades.values() if trade is not None]
        rows = [
            _standing(trade) if trade else _missing(target, results)
            for target, trade in trades.items()
        ]
        sections = [Section("Where FSW stands", ABOUT, Grid(HEADER, tuple(rows)))]
        sections += [_section(trade, results) for trade in shown]
        verdicts = [_verdict(trade) for trade in trades.values()]
        return Page(_answer(shown), tuple(sections), tuple(verdicts))


def _verdict(trade: Trade | None) -> Verdict:
    """Say whether FSW has a point that no other method of the paper beats in both."""
    if trade is None or not len(trade.against(in_paper_only=True)):
        return Verdict.NOT_RUN
    return Verdict.SAME if _stands(trade, in_paper_only=True) else Verdict.WORSE


def _stands(trade: Trade, *, in_paper_only: bool) -> bool:
    return not dominated(trade.curve, trade.against(in_paper_only=in_paper_only)).all()


def _standing(trade: Trade) -> tuple[str, ...]:
    paper, every = (trade.against(in_paper_only=only) for only in (True, False))
    left = [
        f"{len(trade.curve) - dominated(trade.curve, points).sum()} of {len(trade.curve)}"
        for points in (paper, every)
    ]
    beaten = f"{dominated(paper, trade.curve).sum()} of {len(paper)}"
    return (trade.target.title, *left, beaten, _verdict(trade).value)


def _missing(target: Target, results: Results) -> tuple[str, ...]:
    choice = choice_of(target, results.tuned)
    if choice is None:
        why: str | None = why_not_chosen(FSW, target, results)
    else:
        why = results.problem(curve_configs(choice)[0], choice.request.seeds)
    return (target.title, "–", "–", "–", f"{Verdict.NOT_RUN.value}: {why}")


def _section(trade: Trade, results: Results) -> Section:
    target, choice = trade.target, choice_of(trade.target, results.tuned)
    picture = Picture(
        f"tradeoff-{target.file}.png",
        "Each point is one configuration on validation data. Better is to the right and down. "
        "Filled: the methods of the paper; hollow: replay, the controls and DER++.",
        lambda path: _draw(trade, path),
    )
    rows = [
        (f"FSW, λ = {lam}", *map(format_value, point))
        for lam, point in zip(trade.lambdas, trade.curve.tolist(), strict=True)
    ]
    for contender, points in trade.rivals.items():
        rows += [(contender.name, *map(format_value, point)) for point in points.tolist()]
    configs = curve_configs(choice) if choice else []
    seeds = choice.request.seeds if choice else ()
    return Section(
        target.title,
        table=Grid(("configuration", "accuracy", target.metric), tuple(rows)),
        picture=picture,
        commands=tuple(command_of(config, seeds) for config in configs),
    )


def _draw(trade: Trade, path: Path) -> None:
    clouds = [
        Cloud(contender.name, style_of(RIVALS.index(contender)), points, not contender.in_paper)
        for contender, points in trade.rivals.items()
    ]
    curve = Curve("FSW, by λ", trade.lambdas, trade.curve)
    title = f"{trade.target.title}, validation data"
    write_png(draw_tradeoff(curve, clouds, title, METRICS[trade.target.metric].axis_title), path)


def _answer(trades: Sequence[Trade]) -> str:
    if not trades:
        return "Not run yet."
    paper, every = (
        sum(_stands(trade, in_paper_only=only) for trade in trades) for only in (True, False)
    )
    return (
        f"On {paper} of {len(trades)} panels FSW has a point that no other method of the paper "
        f"beats in both accuracy and disparity; on {every} with replay, the controls and DER++ "
        "beside it (validation data, one seed)."
    )
