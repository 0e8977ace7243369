"""Audits as sections of a report, for readers who have only the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faircil.auditing.audit_files import KeptAudit, KeptGate
from faircil.auditing.disparities import MEASURES
from faircil.auditing.findings import Finding, Rate, Report, Scope
from faircil.auditing.gate import CROSSED, Decision
from faircil.auditing.words import (
    LEVELLED,
    audit_sentences,
    before_and_after,
    levelling_sentence,
)
from faircil.metrics import METRICS
from faircil.report.page import (
    EMPTY,
    Cells,
    Section,
    badge,
    escaped,
    figure,
    more,
    named,
    paragraph,
    percent,
    table,
)
from faircil.report.sections import AuditRow, Part, findings
from faircil.report.svg import interval_bar

MOST_GROUPS = 12  # of a scope that are shown at first
KINDS = {Decision.PASSES: "good", Decision.FAILS: "bad", Decision.CANNOT_TELL: "open"}
CARD = ("accuracy", "worst_group", "eo_gap", "accuracy_gap", "eopp_gap", "dp_worst", "eer")
TERMS = {
    "observed": "What the samples show.",
    "interval": "The range of the true value, that of infinitely many samples of the same source: "
    "95 of 100 such intervals contain it.",
    "by chance alone": "The gap that a system without any difference would show on average, since "
    "groups are finite.",
    "treated differently": "More than chance explains: in a permutation test, p is at most .05 "
    "after Holm's correction over all tests of the audit.",
    "cannot tell": "There are too few samples: fewer than 10 in a group, or an interval that "
    "contains the limit of a gate.",
}


def audit_rows(report: Report) -> list[AuditRow]:
    """Return the findings of an audit as rows of a report."""
    return [
        AuditRow(
            one.measure,
            CROSSED.join(one.scope) or "classes",
            one.value,
            one.low,
            one.high,
            one.floor,
            verdict(one),
        )
        for one in report.findings
    ]


def verdict(finding: Finding) -> str:
    """Describe a finding of an audit in words."""
    if finding.value is None:
        return "cannot tell"
    if finding.p_value is None:  # a level, which is not a comparison
        return "–"
    return "groups are treated differently" if finding.differs else "no difference is shown"


def audit_part(kept: KeptAudit, number: int = 1, *, alone: bool = True) -> Part:
    """Write an audit as a section of a report.

    Parameters
    ----------
    kept : KeptAudit
    number : int
        Distinguishes it from other audits on the page.
    alone : bool
        Whether the page contains nothing else, so that titles need no further context.
    """
    parts = {
        "short": ("In short", _in_short(kept)),
        "groups": ("How each group fares", _groups(kept.report)),
        "measured": ("What was measured", findings(audit_rows(kept.report))),
        "before": ("Before and after", _before(kept)),
        "gate": ("The gate", _gate(kept.gate)),
        "sure": ("How certain this is", _sure(kept)),
        "again": ("How to repeat it", _again(kept)),
    }
    title = Path(kept.file).name
    sections = [
        Section(
            f"a{number}-{anchor}", said if alone else f"{named(title)}: {said.lower()}", content
        )
        for anchor, (said, content) in parts.items()
        if content
    ]
    used = dict.fromkeys(one.measure for one in kept.findings)
    meant = {
        f"{name} ({MEASURES[name]})": METRICS[name].description if name in METRICS else ""
        for name in used
        if name in MEASURES
    }
    return Part(title, sections, TERMS | {name: said for name, said in meant.items() if said})


def _in_short(kept: KeptAudit) -> str:
    """Summarise the findings, with a card of the main numbers for each scope."""
    told = [f"{kept.n:,} predictions were audited."]
    told += [f"{line}." for line in audit_sentences(kept.report)]
    if kept.gate is not None:
        told.append(f"The gate {kept.gate.decision}.")
    listed = "".join(f"<li>{escaped(line)}</li>" for line in told)
    scopes = dict.fromkeys(one.scope for one in kept.findings)
    cards = "".join(_card(scope, kept.report) for scope in scopes)
    return f'<div class="lead"><ul>{listed}</ul></div><div class="cards">{cards}</div>'


def _card(scope: Scope, report: Report) -> str:
    own = {one.measure: one for one in report.findings if one.scope == scope}
    numbers = []
    for name in (one for one in CARD if one in own):
        one = own[name]
        between = ""
        if one.low is not None and one.high is not None:
            between = f" <span class='interval'>({percent(one.low)} to {percent(one.high)})</span>"
        value = "cannot tell" if one.value is None else f"<b>{percent(one.value)}</b>{between}"
        numbers.append(f"<dt>{escaped(MEASURES.get(name, name))}</dt><dd>{value}</dd>")
    differs = any(one.differs for one in own.values())
    said = ("bad", "treated differently") if differs else ("open", "no difference shown")
    title = named(CROSSED.join(scope)) if scope else "All samples"
    return f'<div class="card"><h3>{title}{badge(*said)}</h3><dl>{"".join(numbers)}</dl></div>'


def _groups(report: Report) -> str:
    """Show the accuracy of each group with its interval, worst first."""
    parts = []
    for scope in dict.fromkeys(one.scope for one in report.rates):
        own = [one for one in report.rates if one.scope == scope]
        own.sort(key=lambda one: (one.low is None, one.accuracy))
        by = f"class and {CROSSED.join(scope)}" if scope else "class"
        header = ("group", "0 to 100 %", "accuracy", "interval", "n")
        rows = [_group(one) for one in own]
        shown = table(Cells(header, rows[:MOST_GROUPS], f"Accuracy by {escaped(by)}", "falls"))
        if len(rows) > MOST_GROUPS:
            rest = Cells(header, rows[MOST_GROUPS:], "the other groups", "falls")
            shown += more(f"{len(rows) - MOST_GROUPS} more groups", table(rest))
        parts.append(figure(shown, _worst_and_best(own)))
    lead = paragraph(
        "The dot is the accuracy of a group, the bar the interval that holds its true accuracy. "
        "Groups whose bars overlap may be equally well off."
    )
    return lead + "".join(parts)


def _group(one: Rate) -> tuple[str, ...]:
    name = _group_name(one)
    if one.low is None or one.high is None:
        return named(name), f"n = {one.n}: cannot tell", "–", "–", f"{one.n:,}"
    between = f"{percent(one.low)} to {percent(one.high)}"
    seen = f"{name}: {percent(one.accuracy)}, interval {between}"
    bar = f'<td class="bar">{interval_bar(one.accuracy, one.low, one.high, 0, seen)}</td>'
    return named(name), bar, percent(one.accuracy), between, f"{one.n:,}"


def _group_name(one: Rate) -> str:
    values = one.attribute if isinstance(one.attribute, tuple) else (one.attribute,)
    parts = (one.label, *(values if one.scope else ()))
    return ", ".join(str(part) if str(part).strip() else EMPTY for part in parts)


def _worst_and_best(rates: Sequence[Rate]) -> str:
    judged = [one for one in rates if one.low is not None]
    if not judged:
        return "No group has 10 samples or more, so none can be judged."
    worst, best = judged[0], judged[-1]
    return (
        f"Worst off is {named(_group_name(worst))} with {percent(worst.accuracy)}, best off "
        f"{named(_group_name(best))} with {percent(best.accuracy)}."
    )


def _before(kept: KeptAudit) -> str:
    if kept.against is None:
        return ""
    changed = before_and_after(kept.against.report, kept.report)
    rows = [[escaped(cell.text) for cell in row] for row in changed.cells]
    header = tuple(map(escaped, changed.header))
    told = (
        f"Before is {named(kept.against.file)}. A measure has changed if the intervals do not "
        "overlap."
    )
    told_of = (levelling_sentence(one) for one in kept.against.levelled_down)
    levelled = "".join(
        f"<li>{badge('bad', LEVELLED)} {escaped(line.removeprefix(f'{LEVELLED}: '))}.</li>"
        for line in told_of
    )
    return figure(table(Cells(header, rows, "Before and after")), told) + (
        f"<ul>{levelled}</ul>" if levelled else ""
    )


def _gate(gate: KeptGate | None) -> str:
    if gate is None:
        return ""
    kinds = {one.words: KINDS[one] for one in Decision}
    rows = [
        (
            f"<code>{escaped(one.condition)}</code>",
            named(CROSSED.join(one.scope)) if one.scope else "classes",
            percent(one.value),
            "–" if one.low is None else f"{percent(one.low)} to {percent(one.high)}",
            badge(kinds.get(one.verdict, "open"), one.verdict),
        )
        for one in gate.checks
    ]
    header = ("condition to fail on", "groups", "observed", "interval", "verdict")
    told = (
        f"The gate <strong>{escaped(gate.decision)}</strong>. A condition fails only if the whole "
        "interval is beyond the limit, and passes only if the whole interval is on the good side."
    )
    return figure(table(Cells(header, rows, "Conditions")), told)


def _sure(kept: KeptAudit) -> str:
    told = (
        f"Intervals and tests come from {kept.draws:,} random tables. They cover sampling "
        "error, assuming independent rows from the population of interest. They do not account for "
        "wrong labels or unrepresentative test data. If no difference is shown, there may still be "
        "one: the upper end of an interval says how large a difference remains possible."
    )
    notes = "".join(f"<li>{escaped(note)}</li>" for note in kept.notes)
    return paragraph(told) + (f"<ul>{notes}</ul>" if notes else "")


def _again(kept: KeptAudit) -> str:
    command = f"<pre>{escaped(kept.command)}</pre>" if kept.command else ""
    return paragraph(f"The audited file is {named(kept.file)}.") + command
