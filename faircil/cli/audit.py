"""``faircil audit``: how fairly a table of predictions treats people, and a gate on it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from faircil.cli.console import json_text, make_console, print_json, say, show_table
from faircil.errors import shortened

if TYPE_CHECKING:
    from faircil.auditing import Audit, Gate, LevelledDown, Report
    from faircil.auditing.findings import Finding
    from faircil.report import Table

EPILOG = """examples:
  faircil audit predictions.csv --truth y --prediction p --sensitive sex race
  faircil audit predictions.parquet --truth y --prediction p --sensitive sex --favoured hired
  faircil audit new.csv --against old.csv --truth y --prediction p --sensitive sex
  faircil audit predictions.csv --truth y --prediction p --sensitive sex \\
      --fail-on "eo_gap>0.10" "worst_group<0.7" --junit gate.xml --markdown gate.md
  faircil predict model --data new.csv --keep job sex -o predictions.csv &&
      faircil audit predictions.csv --truth job --prediction prediction --sensitive sex
  faircil audit runs/biased-digits/fsw-eo-1234/seed-0

The folder of a run needs no columns: its predictions after the last task are audited. Intervals are
of 95 %. "By chance" is what a system without any difference would show at these sizes. A gate fails
only if the whole interval is beyond the limit. Exit codes of a gate: 0 passes, 3 fails, 4 cannot
tell (--cannot-tell pass or fail decides otherwise).
"""
MOST_LISTED = 12
LONGEST = 40  # characters of a name
CANNOT = "n = {}: cannot tell"
LEAST_P = 0.001  # smaller ones are written as such
UNSURE = 0.05  # p-values above leave it open


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="table of predictions, or a folder with a predictions.csv, such as that of a run",
    )
    parser.add_argument("--truth", metavar="COLUMN", help="the true class")
    parser.add_argument(
        "--prediction",
        metavar="COLUMN",
        help="the predicted class; faircil predict writes it to the column prediction",
    )
    parser.add_argument(
        "--sensitive",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="sensitive attributes: each is audited, and their intersection (default: none, only "
        "classes are compared)",
    )
    parser.add_argument(
        "--task", metavar="COLUMN", help="number of the task of the class: accuracy averages tasks"
    )
    parser.add_argument(
        "--favoured", nargs="+", metavar="CLASS", help="classes that people want, for eopp"
    )
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="an earlier table with the same columns"
    )
    parser.add_argument("--draws", type=int, default=2000, help="of intervals (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    gate = parser.add_argument_group("gate")
    gate.add_argument(
        "--fail-on",
        nargs="+",
        action="extend",
        default=[],
        metavar="CONDITION",
        help='what must not be, such as "eo_gap>0.10" or "eo_gap[sex]>0.10"',
    )
    gate.add_argument(
        "--cannot-tell",
        choices=["report", "pass", "fail"],
        default="report",
        help="what an interval that contains the limit counts as (default: report, exit code 4)",
    )
    gate.add_argument("--junit", type=Path, metavar="FILE", help="write the gate as JUnit XML")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    output.add_argument("--markdown", type=Path, metavar="FILE", help="write Markdown there")
    output.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="write audit.json and audit.md there"
    )


def command(arguments: argparse.Namespace) -> int:
    """Audit, print, write; return the exit code of the gate."""
    from faircil.auditing.gate import decide

    audits = _audits(arguments)
    report = audits[0].report()
    gate = None
    if arguments.fail_on:
        gate = decide(report, arguments.fail_on, cannot_tell=arguments.cannot_tell)
    before = audits[1].report() if len(audits) > 1 else None
    levelled = audits[0].levelled_down(audits[1]) if before is not None else ()
    document = {
        "file": str(arguments.file),
        **report.as_dict(),
        "gate": None if gate is None else gate.as_dict(),
        "against": None
        if before is None
        else {
            "file": str(arguments.against),
            **before.as_dict(),
            "levelled_down": [one.as_dict() for one in levelled],
        },
    }
    tables = _tables(report) if before is None else [*_tables(report), _changes(before, report)]
    told = [*_sentences(report), *map(_levelling, levelled), *_gate_lines(gate)]
    heading = f"{report.n:,} samples of {arguments.file}"
    _write(arguments, document, _markdown(heading, tables, told), gate)
    if arguments.json:
        print_json(document)
    else:
        _show(heading, tables, told)
    return 0 if gate is None else gate.exit_code


def _audits(arguments: argparse.Namespace) -> list[Audit]:
    """Read the tables; all mistakes of the call and in the tables at once."""
    from faircil.auditing.gate import parse_conditions
    from faircil.auditing.reading import audit_file
    from faircil.errors import DataError, UsageError, collecting, raise_all

    mistakes: list[str] = []
    with collecting(mistakes):
        parse_conditions(arguments.fail_on)
    if arguments.junit is not None and not arguments.fail_on:
        mistakes.append("--junit writes a gate; give conditions with --fail-on")
    audits: list[Audit] = []
    faults: list[str] = []
    for path in (arguments.file, arguments.against):
        if path is None:
            continue
        try:
            with collecting(mistakes):
                made = audit_file(
                    path,
                    truth=arguments.truth,
                    prediction=arguments.prediction,
                    sensitive=arguments.sensitive,
                    task=arguments.task,
                    favoured=arguments.favoured,
                    draws=arguments.draws,
                    seed=arguments.seed,
                )
                faults += made.mistakes()
                audits.append(made)
        except DataError as error:
            faults += map(str, error.args)
    every = list(dict.fromkeys([*mistakes, *faults]))
    raise_all(every, UsageError if mistakes else DataError)
    return audits


def _show(heading: str, tables: Sequence[Table], told: Sequence[str]) -> None:
    console = make_console()
    console.print(Text(heading, style="bold"))
    for table in tables:
        show_table(table)
    for line in (*told, EXPLAINED):
        console.print(Text(line), soft_wrap=True)


def _markdown(heading: str, tables: Sequence[Table], told: Sequence[str]) -> str:
    from faircil.report import as_markdown

    parts = [f"# Audit of {heading}\n"]
    parts.append("\n".join(f"- {line}" for line in told) + "\n")
    parts += [f"## {table.title}\n\n{as_markdown(table)}" for table in tables]
    parts.append(EXPLAINED + "\n")
    return "\n".join(parts)


def _write(
    arguments: argparse.Namespace, document: dict[str, Any], markdown: str, gate: Gate | None
) -> None:
    from faircil.errors import StorageError

    files: dict[Path, str] = {}
    if arguments.markdown is not None:
        files[arguments.markdown] = markdown
    if arguments.out is not None:
        text = json_text(document) + "\n"
        files |= {arguments.out / "audit.json": text, arguments.out / "audit.md": markdown}
    if arguments.junit is not None and gate is not None:
        files[arguments.junit] = gate.as_junit()
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot write {path}: {error.strerror or error}; choose another place"
            ) from None
    if files:
        say(f"saved: {', '.join(map(str, files))}")


EXPLAINED = (
    "Interval: of 95 %, for the true value. By chance: what no difference at all would show at "
    "these sizes, on average and, in brackets, at most in 95 % of cases. Beyond chance: observed "
    "less by chance, which corrects for the number and the sizes of groups. p: of the permutation "
    "test of no difference, after Holm over all tests of this audit."
)
HEADER = ("measure", "observed", "95 % interval", "by chance", "beyond chance", "p", "widest gap")


def _tables(report: Report) -> list[Table]:
    """Return a table of measures for each scope, and one of its groups."""
    from faircil.auditing.disparities import MEASURES
    from faircil.report import format_value

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


def _changes(before: Report, after: Report) -> Table:
    """Return what became of each measure."""
    from faircil.report import format_value

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
    """Say whether the intervals are apart; if they are, so are the true values."""
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return "cannot tell"
    if new.low > old.high:
        return "higher"
    return "lower" if new.high < old.low else "cannot tell: the intervals overlap"


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from faircil.report import Cell, Table

    return Table(title, tuple(header), tuple(tuple(map(Cell, row)) for row in rows))


def _sentences(report: Report) -> list[str]:
    """Say in plain words what was found."""
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
                f"{about}: no difference is shown that chance would not explain; that is "
                "no proof of fairness, see how wide the intervals are"
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


def _levelling(one: LevelledDown) -> str:
    from faircil.report import format_value

    numbers = (one.gap_before, one.gap_after, one.better_before, one.better_after)
    gap, gap_now, better, better_now = map(format_value, numbers)
    worse, worse_now = map(format_value, (one.worse_before, one.worse_after))
    explains = "does not explain" if one.p_value <= UNSURE else "may explain"
    return (
        f"levelled down: in class {_name(one.label)} the gap by {_name(one.scope)} closed from "
        f"{gap} to {gap_now} because the better group {_name(one.better)} fell from {better} to "
        f"{better_now} ({_name(one.worse)}: {worse} to {worse_now}); chance {explains} the fall "
        f"(p {_probability(one.p_value)})"
    )


def _gate_lines(gate: Gate | None) -> list[str]:
    if gate is None:
        return []
    told = [f"{check.verdict.words}: {check.sentence}" for check in gate.checks]
    return [*told, f"the gate {gate.decision.words}"]


def _interval(low: float | None, high: float | None) -> str:
    from faircil.report import format_value

    return "–" if low is None else f"{format_value(low)} to {format_value(high)}"


def _chance(one: Finding) -> str:
    from faircil.report import format_value

    if one.floor is None:
        return "–"
    return f"{format_value(one.floor)} ({format_value(one.floor_high)})"


def _probability(value: float | None) -> str:
    if value is None:
        return "–"
    return "< .001" if value < LEAST_P else f"{value:.3f}".removeprefix("0")


def _widest(one: Finding) -> str:
    """Name the two that are furthest apart."""
    from faircil.report import format_value

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
    """Write a label, or the values of several attributes, on one line and not too long."""
    if isinstance(label, tuple):
        return " × ".join(map(_name, label))
    text = " ".join(str(label).split()) or "(empty)"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
