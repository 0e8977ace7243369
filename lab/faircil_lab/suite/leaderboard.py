"""The leaderboard: an order over all streams, a table for each, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.report import Table, format_value
from faircil.report.statistics import Interval
from faircil_lab.bench.benchmark import table_of
from faircil_lab.bench.measuring import Circumstances
from faircil_lab.paper.drawing import REFERENCE, draw_panels, finish_axes, style_of
from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.ranking import RANKED, Place, Standing, places, standings
from faircil_lab.suite.scoring import SCORES, over_seeds

HEADINGS = {
    "accuracy": "accuracy (mean)",
    "final_accuracy": "accuracy (final)",
    "disparity": "disparity",
    "worst_group": "worst group",
    "fairness_forgetting": "fairness forgetting",
}


@dataclass(frozen=True)
class BoardResults(Circumstances):
    """Rows of a suite.

    Parameters
    ----------
    outcomes : tuple of BoardRow
    suite : Suite
    """

    outcomes: tuple[BoardRow, ...]
    suite: Suite

    @cached_property
    def rows(self) -> tuple[BoardRow, ...]:
        """One for each name; the last of several counts."""
        return tuple({row.name: row for row in self.outcomes}.values())

    @cached_property
    def standings(self) -> dict[str, dict[str, Standing]]:
        """How rows stand, by stream and name."""
        return {
            stream.dataset: standings(self.rows, stream, self.suite.seeds)
            for stream in self.suite.streams
        }

    @cached_property
    def places(self) -> list[Place]:
        """The rows in their order."""
        return places(self.rows, self.suite, self.standings)

    @property
    def ordered(self) -> list[BoardRow]:
        """The rows in the order of their places."""
        rows = {row.name: row for row in self.rows}
        return [rows[place.name] for place in self.places]

    def measured(self, stream: SuiteStream) -> list[BoardRow]:
        """Return the rows that have scores of a stream, in order."""
        return [row for row in self.ordered if row.scores.get(stream.dataset)]


def line(row: BoardRow) -> str:
    """Say what a row has."""
    seeds = {len(scores) for scores in row.scores.values()}
    number = "–".join(map(str, sorted({min(seeds), max(seeds)}))) if seeds else "no"
    missing = f", missing: {'; '.join(row.missing)}" if row.missing else ""
    streams = len(row.scores)
    return f"{row.name}: {streams} stream{'s' * (streams != 1)}, {number} seeds each{missing}"


def overall(results: BoardResults) -> Table:
    """Make the table over all core streams."""
    core = [stream for stream in results.suite.streams if stream.core]
    header = (
        *("method", *(f"mean rank, {HEADINGS[score]}" for score in RANKED)),
        *("not dominated on", "levels down on", "remark"),
    )
    lines = []
    for place, row in zip(results.places, results.ordered, strict=True):
        ranks = [f"{place.means[score]:.1f}" if place.means else "–" for score in RANKED]
        fair = f"{place.undominated} of {place.streams}" if place.streams else "–"
        scored = sum(bool(row.scores.get(stream.dataset)) for stream in core)
        down = f"{len(place.levelled)} of {scored}"
        lines.append((row.name, *ranks, fair, down, _remark(row, place, len(core))))
    return table_of("All streams", header, lines)


def _remark(row: BoardRow, place: Place, core: int) -> str:
    parts = []
    if row.reference:
        parts.append("reference, not ranked")
    if row.other_budget:
        parts.append(f"not ranked, other budget: {row.other_budget}")
    if row.ranked and place.streams < core:
        parts.append(f"ranked on {place.streams} of {core} streams")
    if row.origin == "predictions":
        parts.append("predictions, not run here")
    return "; ".join(parts)


def stream_table(results: BoardResults, stream: SuiteStream) -> Table:
    """Make the table of a stream."""
    header = ("method", *HEADINGS.values(), "ranks", "remark")
    lines = []
    for row in results.measured(stream):
        scores = row.scores[stream.dataset]
        own = results.standings[stream.dataset][row.name]
        ranks = " / ".join(str(own.ranks[score]) for score in RANKED) if own.ranks else "–"
        parts = ["levels down"] * own.levelled + ["at chance"] * own.at_chance
        if len(scores) < len(results.suite.seeds):
            parts.append(f"{len(scores)} of {len(results.suite.seeds)} seeds")
        cells = (interval_text(over_seeds(scores, score)) for score in SCORES)
        lines.append((row.name, *cells, ranks, ", ".join(parts)))
    return table_of(stream.heading, header, lines)


def interval_text(found: Interval | None) -> str:
    """Write a mean with its interval.

    Examples
    --------
    >>> interval_text(Interval(0.8451, 0.8312, 0.8599)), interval_text(None)
    ('.845 (.831 … .860)', '–')
    """
    if found is None or found.low is None or found.high is None:
        return format_value(None if found is None else found.mean)
    return f"{format_value(found.mean)} ({format_value(found.low)} … {format_value(found.high)})"


def front(results: BoardResults) -> Figure:
    """Draw accuracy against disparity, a panel for each stream that has rows."""
    shown = [stream for stream in results.suite.streams if results.measured(stream)]
    draws = [partial(_draw_stream, results=results, stream=stream) for stream in shown]
    return draw_panels("Final accuracy against disparity (better: up and left)", draws)


def _draw_stream(axes: Axes, results: BoardResults, stream: SuiteStream) -> None:
    """Draw a mark with intervals for each row; a hollow one levels down."""
    names = [row.name for row in results.rows]
    for row in results.measured(stream):
        scores = row.scores[stream.dataset]
        across, up = over_seeds(scores, "disparity"), over_seeds(scores, "final_accuracy")
        if across is None or up is None:
            continue
        style = style_of(names.index(row.name))
        colour = REFERENCE if row.reference else style.colour
        own = results.standings[stream.dataset][row.name]
        axes.errorbar(
            across.mean,
            up.mean,
            xerr=_ends(across),
            yerr=_ends(up),
            label=row.name,
            color=colour,
            marker=style.marker,
            markerfacecolor="white" if own.levelled or own.at_chance else colour,
            markersize=6.5,
            lw=0.9,
        )
    axes.set_title(stream.title, fontsize=10)
    axes.set_xlabel(f"{stream.disparity} (hollow: levels down)", fontsize=9)
    axes.set_ylabel("accuracy (final)", fontsize=9)
    axes.set_xlim(left=0)
    finish_axes(axes)


def _ends(found: Interval) -> list[list[float]] | None:
    """Return the lengths of an interval's arms; the mean of a gap may lie above both ends."""
    if found.low is None or found.high is None:
        return None
    return [[max(found.mean - found.low, 0.0)], [max(found.high - found.mean, 0.0)]]


def table_rows(results: BoardResults) -> Iterator[dict[str, Any]]:
    """Yield a line of ``results.csv`` for each score of each row on each stream."""
    for row in results.ordered:
        for stream, scores in row.scores.items():
            own = results.standings[stream][row.name]
            for name in SCORES:
                found = over_seeds(scores, name)
                yield {
                    "row": row.name,
                    "stream": stream,
                    "score": name,
                    "seeds": len(scores),
                    "mean": None if found is None else found.mean,
                    "low": None if found is None else found.low,
                    "high": None if found is None else found.high,
                    "rank": own.ranks.get(name),
                    "levels_down": own.levelled,
                    "origin": row.origin,
                }


def as_document(results: BoardResults) -> dict[str, Any]:
    """Return what ``results.json`` holds."""
    return {
        "suite": results.suite.label,
        "order": [
            {"row": place.name, "mean_ranks": dict(place.means), "streams": place.streams}
            for place in results.places
        ],
        "scores": list(table_rows(results)),
    }


def tables_of(results: BoardResults) -> Sequence[Table]:
    """Return the tables that a terminal shows."""
    shown = [stream for stream in results.suite.streams if results.measured(stream)]
    return [overall(results), *(stream_table(results, stream) for stream in shown)]
