"""Accuracy against disparity: the front of FSW's search against the fronts of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from faircil.report import BOUNDS, format_value
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil.tuning.tuning_files import front
from faircil_lab.paper.comparison import Points, beaten, ranks
from faircil_lab.paper.contenders import (
    CONTENDERS,
    FSW,
    Contender,
    LineUp,
    Settings,
    notes_of,
    request,
    why_not_chosen,
)
from faircil_lab.paper.drawing import EMPHASIS, Style, finish_axes, style_of, write_png
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section, Verdict
from faircil_lab.paper.metrics import METRICS, TARGETS, Target

LAMBDAS = ("0", "0.01", "0.1", "0.5", "1", "5", "10")
# Controls have FSW's settings and no search of their own.
RIVALS = tuple(
    one for one in CONTENDERS if one.method not in BOUNDS and one != FSW and not one.settings_of
)


@dataclass(frozen=True)
class Trade:
    """The points of a target, accuracy and disparity, each array (n, 2).

    Parameters
    ----------
    target : Target
    budget : int
        Configurations of each method that take part: the first ones of its search, as many as the
        smallest search has.
    own : ndarray
        Front of FSW's search.
    rivals : mapping
        Fronts of the searches of the others.
    tried : mapping
        Configurations that the search of each method tried in all.
    lambdas : tuple of str
    curve : ndarray
        FSW's chosen settings with λ alone varied: further runs, shown and not compared.
    """

    target: Target
    budget: int
    own: Points
    rivals: Mapping[Contender, Points]
    tried: Mapping[str, int]
    lambdas: tuple[str, ...] = ()
    curve: Points | None = None

    def others(self, *, in_paper_only: bool) -> Points:
        """Return the common front of the rivals, (n, 2)."""
        chosen = [p for c, p in self.rivals.items() if c.in_paper or not in_paper_only]
        return front_of(np.concatenate([np.empty((0, 2)), *chosen]))

    def standing(self, *, in_paper_only: bool) -> Verdict:
        """Say whether one front dominates the other, as the paper claims of FSW.

        ``same``: FSW beats every point of the others' common front. ``worse``: every point of FSW's
        front is beaten. ``different``: neither.
        """
        others = self.others(in_paper_only=in_paper_only)
        if not len(others):
            return Verdict.NOT_RUN
        if beaten(others, self.own).all():
            return Verdict.SAME
        return Verdict.WORSE if beaten(self.own, others).all() else Verdict.DIFFERENT


def front_of(points: Points) -> Points:
    """Return the points that no other beats, from the fairest to the most accurate."""
    kept = front([(float(accuracy), float(disparity)) for accuracy, disparity in points])
    return points[kept] if len(kept) else np.empty((0, 2))


def choice_of(target: Target, tuned: Mapping[TuneRequest, Tuned]) -> Tuned | None:
    """Return the search for FSW's settings on a target."""
    return tuned.get(request(FSW, target.dataset, target.measure))


def curve_configs(choice: Tuned) -> list[RunConfig]:
    """Return the best of the search once for each λ; a later setting wins over an earlier one."""
    return [choice.request.config([*choice.best.overrides, f"lam={lam}"]) for lam in LAMBDAS]


def trade_of(target: Target, results: Results) -> Trade | None:
    """Collect the points of a target; None where FSW has none."""
    searches = {
        one: tuned
        for one in (FSW, *RIVALS)
        if (tuned := results.tuned.get(request(one, target.dataset, target.measure)))
    }
    if FSW not in searches:
        return None
    budget = min(len(tuned.trials) for tuned in searches.values())
    fronts = {one: _front(tuned, budget, target.metric) for one, tuned in searches.items()}
    own = fronts.pop(FSW)
    if not len(own):
        return None
    choice = searches[FSW]
    runs = [results.runs(config, choice.request.seeds) for config in curve_configs(choice)]
    curve = {
        lam: point
        for lam, of_lam in zip(LAMBDAS, runs, strict=True)
        if (point := _point(of_lam, target.metric))
    }
    return Trade(
        target,
        budget,
        own,
        {one: points for one, points in fronts.items() if len(points)},
        {one.name: len(tuned.trials) for one, tuned in searches.items()},
        tuple(curve),
        np.array(list(curve.values())) if curve else None,
    )


def _front(tuned: Tuned, budget: int, metric: str) -> Points:
    """Return the front of the first configurations of a search; a diverged one has no point."""
    points = [_point(trial.runs, metric) for trial in tuned.trials[:budget]]
    return front_of(np.array([point for point in points if point]).reshape(-1, 2))


def _point(runs: Sequence[RunSummary], metric: str) -> tuple[float, float] | None:
    """Return mean accuracy and disparity; None where a run or a value is missing."""
    values = [(run.metrics["accuracy"], run.metrics[metric]) for run in runs]
    known = [(a, d) for a, d in values if a is not None and d is not None]
    if not known or len(known) < len(values):
        return None
    return fmean(a for a, _ in known), fmean(d for _, d in known)


NEAR = 0.05  # of an axis: labels as near as this are written as one


@dataclass(frozen=True)
class Cloud:
    """Points (n, 2) of accuracy and disparity; ``ours`` are drawn hollow."""

    name: str
    style: Style
    points: Points
    ours: bool = False


@dataclass(frozen=True)
class LabelledCurve:
    """Points (n, 2) of accuracy and disparity in the order of what moves along the curve."""

    name: str
    labels: tuple[str, ...]
    points: Points


def draw_tradeoff(
    curve: LabelledCurve, clouds: Sequence[Cloud], title: str, disparity: str
) -> Figure:
    """Draw all points on the left, and what surrounds the curve on the right.

    Parameters
    ----------
    curve : LabelledCurve
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


def _zoom(axes: Axes, points: Points) -> None:
    """Set limits that leave half of the curve's own extent around it, and at least .01."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.maximum(0.5 * (high - low), 0.01)
    (left, bottom), (right, top) = low - margin, high + margin
    axes.set_xlim(left, right)
    axes.set_ylim(max(bottom, 0), top)


def _write_labels(axes: Axes, curve: LabelledCurve) -> None:
    """Write labels next to the points, those of points that lie together as one."""
    extent = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    together: list[tuple[Points, list[str]]] = []
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
    "with its one seed; the paper shows test data. Every method has the same budget, the "
    "configurations that its search tried first; its front has those that no other configuration "
    "of the method beats, that is, no other is at least as good in both accuracy and disparity "
    "and better in one. "
    "The paper claims that FSW dominates: `same` where FSW's front beats every point of the common "
    "front of the paper's other methods, `worse` where every point of FSW's front is beaten, "
    "`different` where neither holds. Joint training and fine-tuning are bounds and take no part; "
    "the controls have no separate search. The curve by λ (FSW's chosen settings, λ alone "
    "varied) has further runs: it is shown, but not compared. DRUG is shown but not counted: it is "
    "too small to rank methods."
)
HEADER = (
    "dataset (measure)",
    "configurations of each method",
    "points of FSW's front that a method of the paper beats",
    "points of the paper's common front that FSW beats",
    "the same two, with replay and DER++ among the others",
    "FSW dominates, as in the paper",
)


@dataclass(frozen=True)
class Tradeoff:
    """The trade between accuracy and disparity; it needs the trials of a search."""

    title: str = "Accuracy against disparity"
    paper: str = "Figs. 2 and 9 to 12"
    settings: Settings = "tuned"

    def requests(self) -> Sequence[TuneRequest]:
        """Return the searches whose trials are the points."""
        return LineUp((FSW, *RIVALS), TARGETS, self.settings).requests()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return FSW's curves by λ."""
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
        about = "\n\n".join([ABOUT, *notes_of(RIVALS)])
        sections = [Section("Where FSW stands", about, Grid(HEADER, tuple(rows)))]
        sections += [_section(trade, results) for trade in shown]
        verdicts = [_verdict(trade) for target, trade in trades.items() if ranks(target)]
        return Page(_answer(shown), tuple(sections), tuple(verdicts))


def _verdict(trade: Trade | None) -> Verdict:
    return Verdict.NOT_RUN if trade is None else trade.standing(in_paper_only=True)


def _standing(trade: Trade) -> tuple[str, ...]:
    texts = []
    for in_paper_only in (True, False):
        others = trade.others(in_paper_only=in_paper_only)
        texts += [_counted(trade.own, others), _counted(others, trade.own)]
    counted = "" if ranks(trade.target) else " (not counted)"
    return (
        trade.target.title,
        str(trade.budget),
        *texts[:2],
        " / ".join(texts[2:]),
        f"{_verdict(trade).value}{counted}",
    )


def _counted(points: Points, others: Points) -> str:
    return f"{beaten(points, others).sum()} of {len(points)}"


def _missing(target: Target, results: Results) -> tuple[str, ...]:
    choice = choice_of(target, results.tuned)
    why = "it diverged" if choice else why_not_chosen(FSW, target, results)
    return (target.title, "–", "–", "–", "–", f"{Verdict.NOT_RUN.value}: {why}")


def _section(trade: Trade, results: Results) -> Section:
    target, choice = trade.target, choice_of(trade.target, results.tuned)
    picture = Picture(
        f"tradeoff-{target.file}.png",
        "Each point is one configuration on validation data. Better is to the right and down. "
        "Black: FSW's front, and its curve by λ. Filled: the methods of the paper; hollow: replay "
        "and DER++.",
        lambda path: _draw(trade, path),
    )
    rows = [("FSW", *map(format_value, point)) for point in trade.own.tolist()]
    for contender, points in trade.rivals.items():
        rows += [(contender.name, *map(format_value, point)) for point in points.tolist()]
    if trade.curve is not None:
        rows += [
            (f"FSW, λ = {lam} (not compared)", *map(format_value, point))
            for lam, point in zip(trade.lambdas, trade.curve.tolist(), strict=True)
        ]
    tried = ", ".join(f"{name} {number}" for name, number in trade.tried.items())
    configs = curve_configs(choice) if choice else []
    seeds = choice.request.seeds if choice else ()
    return Section(
        target.title,
        f"Configurations tried: {tried}; compared are the first {trade.budget} of each.",
        Grid(("configuration", "accuracy", target.metric), tuple(rows)),
        picture,
        tuple(command_of(config, seeds) for config in configs),
    )


def _draw(trade: Trade, path: Path) -> None:
    clouds = [
        Cloud(contender.name, style_of(RIVALS.index(contender)), points, not contender.in_paper)
        for contender, points in trade.rivals.items()
    ]
    clouds.append(Cloud("FSW", Style(EMPHASIS, "s"), trade.own))
    if trade.curve is None:
        curve = LabelledCurve("FSW", ("",) * len(trade.own), trade.own)
    else:
        curve = LabelledCurve("FSW, by λ", trade.lambdas, trade.curve)
    title = f"{trade.target.title}, validation data"
    write_png(draw_tradeoff(curve, clouds, title, METRICS[trade.target.metric].axis_title), path)


def _answer(trades: Sequence[Trade]) -> str:
    counted = [trade for trade in trades if ranks(trade.target)]
    if not counted:
        return "Not run yet."
    paper, every = (
        [trade.standing(in_paper_only=only) for trade in counted] for only in (True, False)
    )
    return (
        f"With equal budgets, FSW's front beats every point of the other methods of the paper on "
        f"{paper.count(Verdict.SAME)} of {len(counted)} panels and is beaten everywhere on "
        f"{paper.count(Verdict.WORSE)}; with replay and DER++ among the others, on "
        f"{every.count(Verdict.SAME)} and {every.count(Verdict.WORSE)} (validation data, one seed)."
    )
