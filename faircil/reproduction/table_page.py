"""A comparison table as a page: the paper's values beside ours, claims, settings, reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faircil.report import AMONG_BEST, TEST
from faircil.reproduction.claims import ABOUT, claim_grid, claims_of, findings_of, summaries_of
from faircil.reproduction.comparison import compare_values, count_verdicts
from faircil.reproduction.comparison_grid import Compared, comparison_grid, missing
from faircil.reproduction.exhibit import Results
from faircil.reproduction.layout import Column, Line
from faircil.reproduction.machines import machines_section
from faircil.reproduction.metrics import METRICS
from faircil.reproduction.page import Grid, Page, Section, Verdict
from faircil.reproduction.published import METHODS, published
from faircil.reproduction.settings_section import settings_section
from faircil.reproduction.table import Table

IN_ANSWER = 3  # pairs that the answer sums up; the findings have all
SIDE_BY_SIDE = 2  # metrics with published values in one table
MARKS = (
    f"Ours is mean ± deviation over seeds. **Bold**: better than all others, {AMONG_BEST}: not "
    f"told apart from the best mean ({TEST}; joint training and fine-tuning take no part)."
)
VERDICTS = (
    "`same`: chance over the seeds of both sides (Welch, 95 %) and the rounding of the print "
    "explain the difference; else ours is `better` or `worse`."
)


@dataclass(frozen=True)
class ComparisonTable(Table):
    """A table of the paper with rows of ours, as an exhibit."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        return table_page(self, {column: self.lines(column, results) for column in self.columns})


def table_page(table: Table, lines: Mapping[Column, Sequence[Line]]) -> Page:
    """Put the page of a comparison table together from what came of its rows."""
    compared = {column: _compare(table, column, lines[column]) for column in table.columns}
    claims = [
        claim for column in table.columns for claim in claims_of(column, lines[column], table.pairs)
    ]
    legend = f"{MARKS} {VERDICTS}" if published(table.topic).values else MARKS
    sections = [Section("How to read it", "\n\n".join(filter(None, (table.about, legend))))]
    for column in table.columns:
        sections += _column_sections(column, lines[column], compared[column], len(table.seeds))
    if claims:
        sections.append(Section("What is told apart", ABOUT, claim_grid(claims)))
    sections.append(settings_section(table, lines))
    runs = [run for some in lines.values() for line in some for run in line.runs]
    shown = {name for column in table.columns for name in (*column.metrics, *column.besides)}
    if runs and any(name.startswith("seconds") for name in shown):
        sections.append(machines_section(runs))
    if any(row.published for row in table.rows):
        sections.append(_reasons(table))
    verdicts = [pair for part in compared.values() for pair in _verdicts(part)]
    return Page(
        _answer(verdicts, summaries_of(claims, table.pairs[:IN_ANSWER])),
        tuple(sections),
        tuple(verdict for _, verdict in verdicts),
        tuple(findings_of(claims, table.pairs)),
        _by_method(verdicts),
    )


def _compare(table: Table, column: Column, lines: Sequence[Line]) -> Compared:
    values = published(table.topic)
    return {
        name: [
            (line, compare_values(METRICS[name], theirs, METRICS[name].by_seed(line.runs)))
            for line in lines
            for theirs in [values.value(column.published_key, line.row.published or "", name)]
        ]
        for name in (*column.metrics, *column.besides)
    }


def _column_sections(
    column: Column, lines: Sequence[Line], compared: Compared, seeds: int
) -> list[Section]:
    """Write a column, at most so many metrics in a table."""
    sections = []
    parts = _side_by_side(compared)
    for number, names in enumerate(parts):
        heading = column.title + (f": {', '.join(names)}" if len(parts) > 1 else "")
        grid = comparison_grid(lines, {name: compared[name] for name in names}, seeds)
        text = "" if number else missing(lines)
        commands = () if number else tuple(dict.fromkeys(line.command for line in lines))
        sections.append(Section(heading, text, grid, commands=commands))
    return sections


def _side_by_side(compared: Compared) -> list[list[str]]:
    """Part metrics between tables; those without a published value take little room."""
    parts: list[list[str]] = [[]]
    wide = 0
    for name, pairs in compared.items():
        published = any(found.published for _, found in pairs)
        if published and wide == SIDE_BY_SIDE:
            parts.append([])
            wide = 0
        parts[-1].append(name)
        wide += published
    return parts


def _verdicts(compared: Compared) -> list[tuple[Line, Verdict]]:
    return [
        (line, found.verdict)
        for pairs in compared.values()
        for line, found in pairs
        if found.verdict is not None
    ]


def _reasons(table: Table) -> Section:
    """Say what separates the published rows from ours."""
    keys = dict.fromkeys(
        key for row in table.rows if row.published for key in row.published.split()
    )
    rows = tuple(
        (METHODS[key].name, "yes" if METHODS[key].defect else "no", METHODS[key].why)
        for key in keys
        if key in METHODS
    )
    grid = Grid(("method", "rests on a defect", "why"), rows)
    return Section("Why published rows may differ", table=grid, on_terminal=False)


def _by_method(verdicts: Sequence[tuple[Line, Verdict]]) -> dict[str, tuple[Verdict, ...]]:
    found: dict[str, tuple[Verdict, ...]] = {}
    for line, verdict in verdicts:
        for key in (line.row.published or "").split():
            if key in METHODS:
                found[key] = (*found.get(key, ()), verdict)
    return found


def _answer(verdicts: Sequence[tuple[Line, Verdict]], told: Sequence[str]) -> str:
    """Say in a few sentences what came out; the counts of all verdicts stand beside it."""
    if not verdicts:
        return " ".join(told) or "Not run yet."
    if all(verdict is Verdict.NOT_RUN for _, verdict in verdicts):
        return f"Not run yet: {len(verdicts)} published values stand without one of ours."
    own = [verdict for line, verdict in verdicts if (line.row.published or "").startswith("fsw")]
    return " ".join([f"Published values of FSW: {count_verdicts(own)}.", *told])
