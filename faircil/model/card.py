"""Model cards: what a model is, what it learned, and how fair it was, for its recipients.

A card is written next to every saved model, as a document and as a page. Its fairness section is an
audit of the rows on which the model was last measured, with intervals. See Mitchell et al., "Model
Cards for Model Reporting" (2019), for the content of cards; the intended use and users of a model
must be added by its makers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from faircil import __version__
from faircil.auditing import Audit, Report
from faircil.auditing.words import EXPLAINED, audit_sentences, audit_tables, table_markdown
from faircil.counts import ENOUGH
from faircil.data.table_columns import CROSSED
from faircil.errors import FaircilError
from faircil.learners.moments import Moments
from faircil.model.history import GroupRows, Lesson, Measured
from faircil.model.model import Model
from faircil.report import Cell, Table, as_markdown, in_markdown

DRAWS = 500  # a quarter of an audit's, since a card is written each time a model is saved
ATTRIBUTE = "attribute"  # of a model trained on arrays, which have no names


def summary_of(model: Model) -> dict[str, Any]:
    """Return an overview of a model as JSON, to be read without loading the model."""
    return {
        "method": model.config.label,
        "measure": model.config.measure,
        "classes": list(model.names),
        "attribute": " × ".join(model.config.own.sensitive) if model.config.own else None,
        "attribute_values": model.values,
        "inputs": model.inputs,
        "groups": [vars(group) for group in model.seen],
        "rows_kept": model.rows_kept,
        "lessons": [lesson_document(one) for one in model.lessons],
        "measured": [asdict(one) for one in model.measured],
        "notes": list(model.notes),
    }


def lesson_document(lesson: Lesson) -> dict[str, Any]:
    """Return a JSON document of rows learned, or forgotten, at once."""
    return {
        "at": lesson.at,
        "rows": lesson.rows,
        "new_classes": list(lesson.new_classes),
        "seconds": lesson.seconds,
    }


def audit_of(model: Model, measured: Measured, draws: int = DRAWS, seed: int = 0) -> Audit:
    """Return the audit of the rows on which a model was measured.

    If the model has several attributes, each of them and their intersection are audited.
    """
    own = model.config.own
    names = list(own.sensitive) if own is not None else [ATTRIBUTE] * model.has_attribute
    favoured = [model.names[label] for label in model.learner.measure.favoured or ()] or None
    rows = measured.predicted
    made = Audit(names, favoured=favoured, draws=draws, seed=seed)
    times = [one.rows for one in rows]
    values = [_parts(one.value, len(names)) for one in rows]
    made.add_counted(
        [one.label for one in rows],
        [one.prediction for one in rows],
        {name: [value[place] for value in values] for place, name in enumerate(names)},
        times,
    )
    return made


def _parts(value: str | None, attributes: int) -> list[str | None]:
    """Split a value of an intersection into values of the attributes; None: unknown."""
    parts = [] if value is None else value.split(CROSSED) if attributes > 1 else [value]
    return [*parts] if len(parts) == attributes else [None] * attributes


def last_measured(model: Model) -> Measured | None:
    """Return the model's last measurement on rows that it had not learned."""
    return next((one for one in reversed(model.measured) if one.predicted), None)


def unmeasured(model: Model) -> list[str]:
    """Describe what was not measured, and how to measure it."""
    how = "`faircil audit --remember` measures it on rows that it has not learned"
    last = last_measured(model)
    if last is None:
        return [f"the model is not measured; {how}"]
    since = model.lessons[last.lessons :]
    rows = sum(abs(one.rows) for one in since)
    return [f"not measured since it learned or forgot {rows:,} more rows; {how}"] if since else []


def card_of(model: Model) -> dict[str, Any]:
    """Return the card of a model as JSON."""
    measured, report, why_not = last_measured(model), None, ""
    if measured is not None:
        try:
            report = audit_of(model, measured).report()
        except FaircilError as error:  # for example, rows of a single group
            why_not = str(error)
    return {
        "faircil": __version__,
        "summary": _handed_on(model),
        "settings": model.config.model_dump(mode="json", exclude={"own"}),
        "audit": None if report is None else report.as_dict(),
        "no_audit": why_not or None,
        "not_measured": unmeasured(model),
        "privacy": privacy(model),
        "page": _page(model, measured, report, why_not),
    }


def _handed_on(model: Model) -> dict[str, Any]:
    """Return the summary without data about single people, since cards are shared."""
    summary = summary_of(model)
    large, small = _by_size(model.seen)
    return summary | {
        "groups": [vars(group) for group in large],
        "small_groups": {"groups": len(small), "rows": sum(one.rows for one in small)},
        "measured": [
            {name: value for name, value in one.items() if name not in ("groups", "predicted")}
            for one in summary["measured"]
        ],
    }


def _by_size(groups: Sequence[GroupRows]) -> tuple[list[GroupRows], list[GroupRows]]:
    """Return the groups with enough rows to be listed, and the others."""
    large = [one for one in groups if one.rows >= ENOUGH]
    return large, [one for one in groups if 0 < one.rows < ENOUGH]


def privacy(model: Model) -> list[str]:
    """Describe the personal data that a model contains."""
    smallest = min((one.rows for one in model.seen if one.rows), default=0)
    told = [f"stored rows of data: {model.rows_kept:,}"]
    if isinstance(model.learner, Moments) and (noise := model.learner.noise) is not None:
        told.append(
            f"it holds sums over the rows of each group, with noise for ε = {noise.epsilon:g} and "
            f"δ = {noise.delta:g}, for rows with features of a norm of at most {noise.norm:.4g}"
        )
    elif isinstance(model.learner, Moments):
        told.append("it holds checksums, which reveal whether a given row was learned")
        told.append(
            "it holds sums over the rows of each group; the smallest group has "
            f"{smallest:,} row(s), and the sums of very few rows reveal each of them"
        )
    return told


def _page(model: Model, measured: Measured | None, report: Report | None, why_not: str) -> str:
    """Return the card as Markdown."""
    own, config = model.config.own, model.config
    what = f"`{in_markdown(own.label)}`" if own is not None else "a class"
    large, small = _by_size(model.seen)
    rows = sum(one.rows for one in small)
    parts = [
        "# Model card\n",
        f"A model of faircil {__version__}: it predicts {what}, one of {len(model.labels)} classes,"
        f" from {model.inputs:,} inputs a row, by method {config.label} with the fairness measure "
        f"{config.measure}.\n",
        "Written by faircil, and rewritten whenever the model changes. Only you know what the "
        "model is meant for, and what it must not be used for: say so when you share it.\n",
        "## What it learned\n",
        _markdown(
            ("at (UTC)", "rows", "new classes"),
            [(one.at, f"{one.rows:,}", ", ".join(one.new_classes) or "–") for one in model.lessons],
        ),
        "## From whom\n",
        _markdown(
            ("class", CROSSED.join(own.sensitive) if own and own.sensitive else "group", "rows"),
            [(one.label, one.value or "–", f"{one.rows:,}") for one in large],
        ),
        f"Groups of fewer than {ENOUGH} rows: {len(small):,}, with {rows:,} rows in all.\n",
        "## How fair it was\n",
    ]
    if measured is not None:
        parts.append(f"Measured at {measured.at} on {measured.rows:,} {measured.on}.\n")
    told = [*([why_not] * bool(why_not)), *unmeasured(model)]
    parts.append(_listed([*(audit_sentences(report) if report else ()), *told]))
    if report is not None:
        parts += [table_markdown(table).replace("## ", "### ", 1) for table in audit_tables(report)]
        parts.append(EXPLAINED + "\n")
    parts += ["## What it holds about people\n", _listed(privacy(model))]
    if model.notes:
        parts += ["## Notes on its data\n", _listed(model.notes)]
    settings = _flat(config.model_dump(mode="json", exclude={"own"}))
    parts += ["## Settings\n", _markdown(("setting", "value"), settings)]
    return "\n".join(parts)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return as_markdown(Table("", tuple(header), tuple(tuple(map(Cell, row)) for row in rows)))


def _listed(sentences: Iterable[str]) -> str:
    return "".join(f"- {in_markdown(one)}\n" for one in sentences)


def _flat(document: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return the values of nested documents, each with its path."""
    rows: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{name}.")
        elif value is not None:
            rows.append((f"{before}{name}", str(value)))
    return rows
