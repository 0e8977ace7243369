"""Accuracy against disparity: FSW by λ, and the best points of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from faircil.plots import TITLES
from faircil.report import format_value
from faircil.reproduction.contenders import FSW
from faircil.reproduction.drawing import style_of, write_png
from faircil.reproduction.exhibit import Results
from faircil.reproduction.lineup import LineUp, why_not_chosen
from faircil.reproduction.page import Grid, Page, Picture, Section, Verdict
from faircil.reproduction.pareto import dominated
from faircil.reproduction.targets import TARGETS, Target
from faircil.reproduction.tradeoff_plot import Cloud, Curve, draw_tradeoff
from faircil.reproduction.trades import RIVALS, Trade, choice_of, curve_configs, trade_of
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest

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
    write_png(draw_tradeoff(curve, clouds, title, TITLES[trade.target.metric]), path)


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
