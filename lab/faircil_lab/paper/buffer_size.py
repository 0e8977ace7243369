"""FSW with smaller and larger buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import KEPT
from faircil_lab.paper.comparison import Trend, trend_of
from faircil_lab.paper.contenders import (
    FSW,
    REPLAY,
    Contender,
    Entry,
    LineUp,
    Settings,
    commands,
    missing,
)
from faircil_lab.paper.drawing import (
    EMPHASIS,
    Line,
    LinePanel,
    Style,
    draw_lines,
    make_line,
    style_of,
    write_png,
)
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section, Verdict
from faircil_lab.paper.metrics import METRICS, Metric, Target

SIZES = (16, 32, 64, 128)
TARGETS = (Target("mnist", "eer"), Target("biased-mnist", "eo"))
STYLES = {FSW: Style(EMPHASIS, "o", width=2.4), REPLAY: style_of(1)}
ABOUT = (
    "For each seed, the rank correlation of a value with the four buffer sizes: 1 where it only "
    "grows, −1 where it only falls. The mean over seeds with its 95 % interval; a trend is "
    "reported where that excludes 0. The paper sees accuracy grow and disparity fall with the "
    "buffer, and no clear relation with the number of samples whose weight is above 0."
)


@dataclass(frozen=True)
class BufferSize:
    """Accuracy, disparity and the number of samples kept by buffer size."""

    title: str = "Smaller and larger buffers"
    paper: str = "Figs. 21 and 22"
    settings: Settings = "shipped"
    seeds: tuple[int, ...] = SEEDS

    def line_up(self, contender: Contender) -> LineUp:
        """Return a contender once for each size, all else equal."""
        sized = [replace(contender, fixed=(f"buffer_size={size}",)) for size in SIZES]
        return LineUp(sized, TARGETS, self.settings, self.seeds)

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        return [request for c in STYLES for request in self.line_up(c).requests()]

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs."""
        return [work for c in STYLES for work in self.line_up(c).works(tuned)]

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        found = [
            _Found(target, {c: self.line_up(c).entries(target, results) for c in STYLES})
            for target in TARGETS
        ]
        trends = [trend for one in found for trend in one.trends()]
        header = ("dataset (measure)", "method", "value", "paper", "rank correlation", "verdict")
        claims = Section(
            "Does it change with the buffer?",
            ABOUT,
            Grid(header, tuple(trend.texts for trend in trends)),
            _picture([one for one in found if one.complete]),
        )
        verdicts = tuple(trend.verdict for trend in trends if trend.verdict is not None)
        return Page(_answer(trends), (claims, *(one.section() for one in found)), verdicts)


@dataclass(frozen=True)
class _Found:
    """The runs of a target, by contender, in the order of sizes."""

    target: Target
    entries: Mapping[Contender, Sequence[Entry]]

    @property
    def complete(self) -> bool:
        """Whether every size has a run."""
        return all(entry.runs for entries in self.entries.values() for entry in entries)

    def metrics(self, contender: Contender) -> tuple[str, ...]:
        """Name what is shown; only FSW has weights."""
        return ("accuracy", self.target.metric, *((KEPT,) if contender == FSW else ()))

    def by_seed(self, contender: Contender, metric: Metric) -> list[dict[int, float]]:
        """Return the values by seed at each size."""
        return [metric.by_seed(entry.runs) for entry in self.entries[contender]]

    def trends(self) -> list[Trend]:
        """Return how each value moves with the size; the paper speaks of FSW alone."""
        return [
            trend_of(
                (self.target.title, contender.name, METRICS[name].title),
                self.by_seed(contender, METRICS[name]),
                METRICS[name].higher_is_better,
                claimed=contender == FSW,
            )
            for contender in STYLES
            for name in self.metrics(contender)
        ]

    def lines(self, name: str) -> tuple[Line, ...]:
        """Return the lines of a panel."""
        return tuple(
            make_line(
                contender.name,
                style,
                SIZES,
                [list(v.values()) for v in self.by_seed(contender, METRICS[name])],
            )
            for contender, style in STYLES.items()
            if name in self.metrics(contender)
        )

    def section(self) -> Section:
        """Show the values size by size."""
        every = [entry for entries in self.entries.values() for entry in entries]
        names = self.metrics(FSW)
        rows = [
            (
                contender.name,
                str(size),
                *(METRICS[n].text([*METRICS[n].by_seed(entry.runs).values()]) for n in names),
            )
            for contender, entries in self.entries.items()
            for size, entry in zip(SIZES, entries, strict=True)
            if entry.runs
        ]
        titles = [METRICS[name].title for name in names]
        table = Grid(("method", "buffer per group", *titles), tuple(rows)) if rows else None
        return Section(self.target.title, missing(every), table, commands=commands(every))


def _picture(found: Sequence[_Found]) -> Picture | None:
    if not found:
        return None
    rows = [
        [
            LinePanel(
                f"{one.target.title}: {METRICS[name].axis_title}",
                "buffer samples per group",
                one.lines(name),
            )
            for name in one.metrics(FSW)
        ]
        for one in found
    ]

    def draw(path: Path) -> None:
        write_png(draw_lines(rows, "Buffer size", doubling=True), path)

    return Picture("buffer-size.png", "Mean over seeds with its 95 % interval.", draw)


def _answer(trends: Sequence[Trend]) -> str:
    judged = [t for t in trends if t.verdict not in (None, Verdict.NOT_RUN)]
    if not judged:
        return "Not run yet."
    failed = [f"{', '.join(t.names)}: {t.reading}" for t in judged if t.verdict is not Verdict.SAME]
    answer = f"{len(judged) - len(failed)} of {len(judged)} claims about the buffer size hold."
    return f"{answer} Exceptions: {'; '.join(failed)}." if failed else answer
