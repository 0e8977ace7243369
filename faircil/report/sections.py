"""The report: one page about finished runs, for readers who did not produce them.

Each section answers a question: what was learned when, which groups were forgotten, how fairness
changed, what was done about it at what cost, how the methods compare, how certain all of it is, and
how to repeat it. :func:`report_page` combines them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faircil.metrics import METRICS
from faircil.report import sentences
from faircil.report.comparison import compare
from faircil.report.groups_over_time import (
    how_fairness_moved,
    methods_key,
    what_was_learned,
    who_was_forgotten,
)
from faircil.report.page import (
    Cells,
    Section,
    escaped,
    figure,
    heat_cell,
    more,
    named,
    page,
    paragraph,
    percent,
    some,
    table,
)
from faircil.report.statistics import LEVEL
from faircil.report.study import Method, Study
from faircil.report.svg import Point, front_chart, legend_mark
from faircil.report.table import bound_note, format_value, heading, legend as explained, price_note

ABOUT_RUNS = (
    "This page shows how accurate the models are for everyone, who was forgotten when new classes "
    "were learned, and what was done about it. Every number comes from finished runs, whose files "
    "were verified when the page was written."
)
ABOUT_PREDICTIONS = (
    "This page shows how accurate a system is for everyone, who fares worst, and how certain that "
    "is. Every number comes from counts of its predictions, whatever system made them."
)


@dataclass(frozen=True)
class AuditRow:
    """A finding of an audit, in plain language and numbers.

    Parameters
    ----------
    measure, scope : str
        The measure, and the attributes or intersection whose groups are compared.
    value, low, high : float or None
        Observed value, and the interval of the true value; None where undefined.
    by_chance : float or None
        Value expected without any difference, at these sample sizes.
    verdict : str
        For example "differs", "within chance" or "n = 7: cannot tell".
    """

    measure: str
    scope: str
    value: float | None
    low: float | None
    high: float | None
    by_chance: float | None
    verdict: str


@dataclass(frozen=True)
class Part:
    """A part of a report that is not about runs: its title, sections and glossary."""

    title: str
    sections: Sequence[Section]
    terms: Mapping[str, str]


def report_page(
    studies: Sequence[Study],
    audits: Mapping[str, Sequence[AuditRow]] | None = None,
    made: str = "",
    besides: Sequence[Part] = (),
) -> str:
    """Write the report as one HTML document.

    Parameters
    ----------
    studies : sequence of Study
    audits : mapping from title to findings, optional
        Shown in the section on certainty.
    made : str
        How and with what the report was generated, as a plain-text sentence.
    besides : sequence of Part
        Parts after the studies.
    """
    found: list[Section] = []
    for number, study in enumerate(studies, start=1):
        found += _study_sections(study, f"s{number}-", len(studies) > 1)
    if audits:
        content = "".join(f"<h3>{named(k)}</h3>{findings(rows)}" for k, rows in audits.items())
        found.append(Section("audits", "What the audit found", content))
    for part in besides:
        found += part.sections
    terms = {word: said for part in besides for word, said in part.terms.items()}
    found.append(Section("words", "What the words mean", glossary(studies, terms)))
    titles = [*(study.title for study in studies), *(part.title for part in besides)]
    lead = paragraph(ABOUT_RUNS if studies else ABOUT_PREDICTIONS)
    lead += paragraph(f'<span class="note">{escaped(made)}</span>' if made else "")
    return page(f"Fairness report: {', '.join(dict.fromkeys(titles))}", lead, found)


def _study_sections(study: Study, prefix: str, several: bool) -> list[Section]:
    parts: Mapping[str, tuple[str, Callable[[Study], str]]] = {
        "short": ("In short", in_short),
        "learned": ("What was learned when", what_was_learned),
        "forgotten": ("Who was forgotten", who_was_forgotten),
        "moved": ("How fairness changed from task to task", how_fairness_moved),
        "done": ("What was done about it", what_was_done),
        "compared": ("The methods side by side", side_by_side),
        "sure": ("How certain this is", how_sure),
        "again": ("How to run it again", run_again),
    }
    before = f"{named(study.title)}: " if several else ""
    made = ((anchor, title, write(study)) for anchor, (title, write) in parts.items())
    return [
        Section(prefix + anchor, before + title.lower() if several else title, content)
        for anchor, title, content in made
        if content
    ]


def in_short(study: Study) -> str:
    """Summarise the final results of each method, and whether it has helped."""
    told = [sentences.opening(study)]
    if study.baseline is not None:
        told += [*sentences.helped(study), sentences.few_seeds(study)]
    else:
        told.append(
            "There is no plain replay (er) to compare with, so these runs do not show whether a "
            "method improved fairness; <code>faircil run --baseline er</code> also runs it."
        )
    cards = [_card(one, study) for one in study.methods]
    return f'<div class="lead">{paragraph(*told)}</div>' + some(cards, "cards")


def _card(method: Method, study: Study) -> str:
    numbers = []
    for metric in study.headline:
        found = method.interval(metric)
        value = f"<b>{percent(found.mean)}</b>{sentences.between(found)}" if found else "–"
        numbers.append(f"<dt>{sentences.plain(metric)}</dt><dd>{value}</dd>")
    own = [one for one in study.differences if one.method == method.name]
    role = '<span class="badge open">plain replay</span>' if method is study.baseline else ""
    items = "".join(f"<li>{sentences.changed(one)}</li>" for one in own)
    listed = f'<p class="note">Against plain replay:</p><ul>{items}</ul>' if own else ""
    if (worst := sentences.hardest(method)) is not None and (worst.lost or 0.0) > 0:
        fell = f"{percent(worst.last + (worst.lost or 0.0), 0)} → {percent(worst.last, 0)}"
        listed = f'<p class="most">Lost most: {named(worst.name)}, {fell}.</p>' + listed
    title = f"<h3>{legend_mark(method.style)}{named(method.name)}{role}</h3>"
    return f'<div class="card">{title}<dl>{"".join(numbers)}</dl>{listed}</div>'


def what_was_done(study: Study) -> str:
    """Show group weights over tasks, the price of a smaller disparity, and notes."""
    weighted = [one for one in study.methods if one.weights]
    plainly = [named(one.name) for one in study.methods if not one.weights]
    told = f"Without group weights: {sentences.first_of(plainly)}." if plainly else ""
    return paragraph(told) + some([_weights(one, study) for one in weighted], "pair")


def _weights(method: Method, study: Study) -> str:
    top = max(w for one in method.weights for w in one.weights if w is not None) or 1.0
    rows = [
        (
            named(one.name),
            *(
                heat_cell(w, (w or 0.0) / top, f"{w:.2f}" if w is not None else "")
                for w in one.weights
            ),
        )
        for one in method.weights
    ]
    header = ("group", *(f"task {task}" for task in range(1, study.tasks + 1)))
    caption = f"{named(method.name)}: weight of each group in each task, seed {method.runs[0].seed}"
    told = [sentences.weighed(method)]
    passed = method.epochs[-1].passed if method.epochs else None
    if passed is not None and passed.price is not None:
        told.append(f"What fairness costs: {escaped(price_note(passed.price))}.")
    if passed is not None and passed.bound is not None:
        told.append(f"{escaped(bound_note(passed.objective, passed.bound).capitalize())}.")
    return figure(table(Cells(header, rows, caption), most=60), " ".join(told))


def side_by_side(study: Study) -> str:
    """Compare all methods in a table, and by accuracy against disparity."""
    if len(study.methods) < 2:
        return ""
    drawn = [
        Point(
            one.name,
            (across.mean, across.low, across.high),
            (up.mean, up.low, up.high),
            one.style,
            one.name in study.front,
        )
        for one in study.methods
        if (across := one.interval(study.disparity)) and (up := one.interval("final_accuracy"))
    ]
    front = ""
    if drawn:
        what = f"{METRICS[study.disparity].title}, mean over tasks"
        seen = f"accuracy at the end against {what}, a mark for each method"
        rows = [
            (named(one.name), percent(one.up[0]), percent(one.across[0]), "yes" * one.on_front)
            for one in drawn
        ]
        cells = Cells(("method", "accuracy at the end", escaped(what), "on the line"), rows)
        sentence = f"Up and to the left is better. {sentences.traded(study)}"
        chart = front_chart(drawn, title=seen, across_title=what)
        front = figure(chart, sentence, cells, methods_key(study))
    return front + _comparison(study)


def _comparison(study: Study) -> str:
    runs = [run for one in study.methods for run in one.runs]
    parts = []
    for found in compare(runs):
        rows = [
            [
                f"<strong>{escaped(c.text)}</strong>" if c.best else escaped(c.marked(""))
                for c in row
            ]
            for row in found.cells
        ]
        header = tuple(escaped(name) for name in found.header)
        notes = explained(found, best="bold").splitlines()
        told = "".join(f"<li>{escaped(note)}</li>" for note in notes)
        caption = "All metrics, mean ± standard deviation over seeds; .658 is 65.8 %"
        parts.append(table(Cells(header, rows, caption)) + f'<ul class="note">{told}</ul>')
    return "".join(parts)


def how_sure(study: Study) -> str:
    """Describe the basis of the numbers: seeds, group sizes, notes of the runs."""
    items = [
        f"{named(one.name)}: {len(one.runs)} seed{'s' * (len(one.runs) > 1)} "
        f"({', '.join(str(run.seed) for run in one.runs)})"
        for one in study.methods
    ]
    told = (
        f"An interval in brackets contains the mean over many random starts with {LEVEL:.0%} "
        "confidence (Student's t over the seeds); a single run has none. It does not cover the "
        "choice of test samples: small groups are uncertain however many seeds there are. "
        "<em>Better</em> and <em>worse</em> mean that a paired t-test over 3 common seeds or more, "
        "corrected for the number of comparisons (Holm), is significant at 5 %."
    )
    small = {g.name: g.n for one in study.methods for g in one.groups if g.too_small}
    few = [f"{named(name)} (n = {n})" for name, n in list(small.items())[:20]]
    warned = f"Too small to judge: {', '.join(few)}." if few else ""
    more_small = f" And {len(small) - 20} more." if len(small) > 20 else ""
    notes = dict.fromkeys(note for one in study.methods for run in one.runs for note in run.notes)
    listed = "".join(f"<li>{escaped(note)}</li>" for note in list(notes)[:20])
    kept = f"<h3>Notes of the runs</h3><ul>{listed}</ul>" if listed else ""
    seeds = "".join(f"<li>{item}</li>" for item in items)
    note = paragraph(escaped(study.note[:1].upper() + study.note[1:] + ".")) if study.note else ""
    return paragraph(told) + f"<ul>{seeds}</ul>" + paragraph(warned + more_small) + note + kept


def findings(rows: Sequence[AuditRow]) -> str:
    """Show the findings of an audit with intervals and the values expected by chance."""
    cells = Cells(
        ("measure", "groups", "observed", f"{LEVEL:.0%} interval", "by chance alone", "verdict"),
        [
            (
                escaped(row.measure),
                named(row.scope) if row.scope else "classes",
                percent(row.value),
                "–" if row.low is None else f"{percent(row.low)} to {percent(row.high)}",
                percent(row.by_chance),
                escaped(row.verdict),
            )
            for row in rows
        ],
        "Findings",
    )
    told = (
        "The interval contains the true value. <em>By chance alone</em> is what a perfectly fair "
        "model would show in samples of these sizes: a smaller observed value means nothing."
    )
    return figure(table(cells), told)


def run_again(study: Study) -> str:
    """Show the command, configuration and environment of each method."""
    parts = []
    for one in study.methods:
        command = escaped(str(one.environment.get("command", "")))
        kept = {
            "configuration": one.runs[0].config,
            "environment": {k: v for k, v in one.environment.items() if k != "command"},
            "folders": [str(Path(run.dir)) for run in one.runs],
        }
        shown = escaped_lines(json.dumps(kept, indent=2, ensure_ascii=False))
        parts.append(
            f"<h3>{named(one.name)}</h3><pre>{command}</pre>"
            + more("Configuration and environment", f"<pre>{shown}</pre>")
        )
    return some(parts, "again")


def escaped_lines(text: str) -> str:
    """Escape text of several lines for HTML."""
    return "\n".join(map(escaped, text.splitlines()))


def glossary(studies: Sequence[Study], further: Mapping[str, str]) -> str:
    """Explain the terms and metrics used on the page."""
    learning = {
        "task": "New classes that the model learns together. Data of earlier tasks "
        "is gone, except for a few stored samples or sums.",
        "forgetting": "Learning something new changes the model, and it gets worse at what it "
        "knew. Here: accuracy at the best moment, minus accuracy at the end.",
        "fairness forgetting": "The same for a disparity: its value on the classes of a task at "
        "the end, minus its smallest value since they were learned.",
        "lead of a group": "How far its accuracy is above the mean of the groups of a class, "
        "averaged over classes.",
        "plain replay (er)": "The baseline: it stores a few samples of each group and trains on "
        "them again, without regard to fairness.",
        "seed": "The number that determines all random choices. Runs that differ only in their "
        "seed show how much is due to chance.",
    }
    terms = {
        "group": "The test samples of a class with one attribute value; without an attribute, a "
        "class.",
        **(learning if studies else {}),
        "levelling down": "A gap that is smaller only because the better group got worse, or "
        "nobody got better. That is not fairness.",
        "point": "A difference of two percentages: from 60 % to 70 % is 10 points.",
    }
    used = [n for n in METRICS if any(one.interval(n) for s in studies for one in s.methods)]
    metrics = {
        f"{heading(name)} ({METRICS[name].title})": METRICS[name].description for name in used
    }
    entries = {**terms, **further, **metrics}
    listed = "".join(f"<dt>{escaped(k)}</dt><dd>{escaped(v)}</dd>" for k, v in entries.items())
    example = f"In tables, {format_value(0.6584)} is {percent(0.6584)}."
    return f'<dl class="terms">{listed}</dl>' + paragraph(escaped(example))
