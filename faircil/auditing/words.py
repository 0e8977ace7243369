"""Audits in words and tables, for the terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faircil.auditing.disparities import MEASURES
from faircil.auditing.findings import Finding, LevelledDown, Report
from faircil.auditing.gate import Gate
from faircil.errors import shortened
from faircil.report import Cell, Table, as_markdown, format_value, in_markdown

MOST_LISTED = 12
LONGEST = 40  # characters of a name
CANNOT = "n = {}: cannot tell"
LEAST_P = 0.001  # smaller p-values are written as "< .001"
LEVELLED = "levelled down"
UNSURE = 0.05  # p-values above it are not significant
EXPLAINED = (
    "Interval: 95 % confidence interval of the true value. By chance: the gap to expect at these "
    "sizes without any difference, on average and, in brackets, its 95 % quantile. Beyond chance: "
    "observed minus by chance, which corrects for the number and sizes of groups. p: of a "
    "permutation test of no difference, after Holm's correction over all tests."
)
HEADER = ("measure", "observed", "95 % interval", "by chance", "beyond chance", "p", "widest gap")


def audit_tables(report: Report) -> list[Table]:
    """Return a table of measures and one of groups for each scope."""
    tables = []
    for scope in dict.fromkeys(finding.scope for finding in report.findings):
        rows = [
            (
                f"{one.measure} ({MEASURES[one.measure]})",
                "cannot tell" if one.value is None else format_value(one.value),
                _interval(one.low, one.high),
                _chance(one),
                format_value(one.excess),
                _probability(one.p_adjusted),
                _widest(one),
            )
            for one in report.findings
            if one.scope == scope
        ]
        tables.append(_table(f"by {_name(scope)}" if scope else "all samples", HEADER, rows))
        groups = [rate for rate in report.rates if rate.scope == scope]
        if groups:
            lines = [
                (
                    _name(one.label),
                    *([_name(one.attribute)] if scope else []),
                    f"{one.n:,}",
                    format_value(one.accuracy) if one.low is not None else "–",
                    _interval(one.low, one.high) if one.low is not None else CANNOT.format(one.n),
                )
                for one in sorted(groups, key=lambda one: (one.low is None, one.accuracy))
            ]
            title = f"accuracy by class{f' and {_name(scope)}' if scope else ''}, worst first"
            if len(lines) > MOST_LISTED:
                title += f" ({MOST_LISTED} of {len(lines)}; all are in the JSON document)"
            value = [_name(scope)] if scope else []
            header = ("class", *value, "samples", "accuracy", "95 % interval")
            tables.append(_table(title, header, lines[:MOST_LISTED]))
    return tables


def before_and_after(before: Report, after: Report) -> Table:
    """Return a table of the changes of each measure."""
    old = {(one.measure, one.scope): one for one in before.findings}
    rows = []
    for new in after.findings:
        one = old.get((new.measure, new.scope))
        if one is None:
            continue
        rows.append(
            (
                new.measure + (f" by {_name(new.scope)}" if new.scope else ""),
                *(f"{format_value(x.value)} ({_interval(x.low, x.high)})" for x in (one, new)),
                _change(one, new),
            )
        )
    return _table("before and after", ("measure", "before", "after", "change"), rows)


def _change(old: Finding, new: Finding) -> str:
    """Describe the change; if the intervals are disjoint, the true values differ."""
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return "cannot tell"
    if new.low > old.high:
        return "higher"
    return "lower" if new.high < old.low else "cannot tell: the intervals overlap"


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table(title, tuple(header), tuple(tuple(map(Cell, row)) for row in rows))


def audit_sentences(report: Report) -> list[str]:
    """Describe the findings in plain language."""
    told = []
    for scope in dict.fromkeys(rate.scope for rate in report.rates):
        about = _name(scope) if scope else "classes"
        findings = [one for one in report.findings if one.scope == scope]
        differing = [one for one in findings if one.differs]
        if differing:
            names = ", ".join(one.measure for one in differing)
            told.append(
                f"{about}: groups are treated differently, more than chance explains "
                f"({names}); {_widest(differing[0])}"
            )
        else:
            told.append(
                f"{about}: no difference is shown that chance would not explain; this does "
                "not prove fairness, see how wide the intervals are"
            )
        small = [rate for rate in report.rates if rate.scope == scope and rate.low is None]
        if small:
            groups = [(x.label, x.attribute) if scope else (x.label,) for x in small]
            listed = [
                f"{', '.join(map(_name, group))} (n = {one.n})"
                for group, one in zip(groups, small, strict=True)
            ]
            told.append(f"{about}: cannot tell for {shortened(listed, MOST_LISTED)}")
    return told + [f"note: {note}" for note in report.notes]


def levelling_sentence(one: LevelledDown) -> str:
    """Describe a gap that closed because the better group got worse."""
    numbers = (one.gap_before, one.gap_after, one.better_before, one.better_after)
    gap, gap_now, better, better_now = map(format_value, numbers)
    worse, worse_now = map(format_value, (one.worse_before, one.worse_after))
    explains = "does not explain" if one.p_value <= UNSURE else "may explain"
    return (
        f"{LEVELLED}: in class {_name(one.label)} the gap by {_name(one.scope)} closed from "
        f"{gap} to {gap_now} because the better group {_name(one.better)} fell from {better} to "
        f"{better_now} ({_name(one.worse)}: {worse} to {worse_now}); chance {explains} the fall "
        f"(p {_probability(one.p_value)})"
    )


def gate_sentences(gate: Gate | None) -> list[str]:
    """Describe the decision of a gate, if any, for each condition."""
    if gate is None:
        return []
    told = [f"{check.verdict.words}: {check.sentence}" for check in gate.checks]
    return [*told, f"the gate {gate.decision.words}"]


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None else f"{format_value(low)} to {format_value(high)}"


def _chance(one: Finding) -> str:
    if one.floor is None:
        return "–"
    return f"{format_value(one.floor)} ({format_value(one.floor_high)})"


def _probability(value: float | None) -> str:
    if value is None:
        return "–"
    return "< .001" if value < LEAST_P else f"{value:.3f}".removeprefix("0")


def _widest(one: Finding) -> str:
    """Describe the two groups that are furthest apart."""
    worst = one.worst
    if worst is None:
        return "–"
    low = f"{_name(worst.low)} {format_value(worst.low_rate)}"
    high = f"{_name(worst.high)} {format_value(worst.high_rate)}"
    share = one.measure.startswith("dp")
    where = (
        "" if worst.label is None else f"{'predicted' * share or 'class'} {_name(worst.label)}: "
    )
    return f"{where}{low}, {high}"


def _name(label: Any) -> str:
    """Write a label, or the values of several attributes, on one line with limited length."""
    if isinstance(label, tuple):
        return " × ".join(map(_name, label))
    text = " ".join(str(label).split()) or "(empty)"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def audit_markdown(heading: str, tables: Sequence[Table], told: Sequence[str]) -> str:
    """Write an audit in Markdown: heading, sentences, tables."""
    sentences = "\n".join(f"- {in_markdown(line)}" for line in told)
    parts = [f"# Audit of {in_markdown(heading)}\n\n{sentences}\n", *map(table_markdown, tables)]
    return "\n".join([*parts, EXPLAINED + "\n"])


def table_markdown(table: Table) -> str:
    """Write a table with its title in Markdown."""
    return f"## {in_markdown(table.title)}\n\n{as_markdown(table)}"
