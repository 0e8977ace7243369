"""A comparison table as a page: the paper's values beside ours, claims, settings, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faircil.report import AMONG_BEST, BOUNDS, TEST
from faircil.report.statistics import PairedComparison, Ranking, best_of, holm, paired
from faircil_lab.paper.comparison import (
    Comparison,
    compare_values,
    count_verdicts,
    machines_section,
)
from faircil_lab.paper.contenders import FILES_ABSENT
from faircil_lab.paper.exhibit import Results
from faircil_lab.paper.metrics import METRICS, Metric
from faircil_lab.paper.page import Grid, Page, Section, Verdict
from faircil_lab.paper.published import METHODS, published
from faircil_lab.paper.table import Column, Line, Pair, Table, settings_section

LEVEL = 0.05
BETTER, WORSE, OPEN = "better", "worse", "not told apart"
HEADER = ("claim", "on", "metric", "difference", "95 % interval", "p (Holm)", "reading")
ABOUT = (
    "The left one less the right one, over common seeds (paired t-test; p-values corrected by Holm "
    "for the comparisons of a dataset and metric)."
)


@dataclass(frozen=True)
class Claim:
    """A pair in a column by a metric, with the p-value after Holm."""

    pair: Pair
    column: Column
    metric: str
    comparison: PairedComparison
    p_value: float

    @property
    def reading(self) -> str:
        """How the left one stands to the right one."""
        if self.p_value > LEVEL:
            return OPEN
        higher = (self.comparison.difference or 0.0) > 0
        return BETTER if higher == METRICS[self.metric].higher_is_better else WORSE


def claims_of(column: Column, lines: Sequence[Line], pairs: Sequence[Pair]) -> list[Claim]:
    """Test all pairs of a column that have at least two common seeds, metric by metric."""
    by_name = {line.row.contender.name: line for line in lines}
    pairs = [pair for pair in pairs if {pair.left, pair.right} <= by_name.keys()]
    found: list[Claim] = []
    for name in column.metrics:
        metric = METRICS[name]
        if not metric.ranked:
            continue
        tested = {pair: _paired(pair, by_name, metric) for pair in pairs}
        raw = {pair: c.p_value for pair, c in tested.items() if c.p_value is not None}
        found += [
            Claim(pair, column, name, tested[pair], float(p_value))
            for pair, p_value in zip(raw, holm(list(raw.values())), strict=True)
        ]
    return found


def _paired(pair: Pair, lines: Mapping[str, Line], metric: Metric) -> PairedComparison:
    left, right = (metric.by_seed(lines[name].runs) for name in (pair.left, pair.right))
    return paired(left, right)


def claim_grid(claims: Sequence[Claim]) -> Grid:
    """Write claims as a table."""
    return Grid(HEADER, tuple(_row(claim) for claim in claims))


def _row(claim: Claim) -> tuple[str, ...]:
    metric, found = METRICS[claim.metric], claim.comparison
    bounds = "–"
    if found.low is not None and found.high is not None:
        bounds = f"{metric.difference_text(found.low)} … {metric.difference_text(found.high)}"
    return (
        f"{claim.pair.left} − {claim.pair.right}",
        claim.column.title,
        claim.metric,
        metric.difference_text(found.difference or 0.0),
        bounds,
        f"{claim.p_value:.3f}".removeprefix("0"),
        claim.reading,
    )


def summaries_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Count for each pair on how many datasets and measures it is better, and worse."""
    sentences = []
    for pair in pairs:
        own = [claim for claim in claims if claim.pair == pair]
        parts = []
        for words, some in _by_kind(own):
            counts = Counter(claim.reading for claim in some)
            parts.append(
                f"{words} better on {counts[BETTER]} of {len(some)}, worse on {counts[WORSE]}"
            )
        if own:
            sentences.append(f"{pair.left} against {pair.right}: {'; '.join(parts)}.")
    return sentences


def _by_kind(claims: Sequence[Claim]) -> list[tuple[str, list[Claim]]]:
    """Part claims into those on disparities and those on accuracy."""
    kinds = (("disparity", False), ("accuracy", True))
    return [(word, [c for c in claims if (c.metric == "accuracy") == same]) for word, same in kinds]


def findings_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Say of each pair where it is better, worse and not told apart, in accuracy and disparity."""
    sentences = []
    for pair in pairs:
        own = [claim for claim in claims if claim.pair == pair]
        parts = [f"{word} is {_places(some)}" for word, some in _by_kind(own)]
        if own:
            sentences.append(f"**{pair.left} against {pair.right}**: {'; '.join(parts)}.")
    return sentences


def _places(claims: Sequence[Claim]) -> str:
    texts = []
    for reading in (BETTER, WORSE, OPEN):
        places = dict.fromkeys(
            _place(claim, claims) for claim in claims if claim.reading == reading
        )
        if places:
            texts.append(f"{reading} on {', '.join(places)}")
    return ", ".join(texts) or "not compared"


def _place(claim: Claim, others: Sequence[Claim]) -> str:
    """Name the column, and the metric where a column has several."""
    several = sum(other.column == claim.column for other in others) > 1
    return f"{claim.column.title} by `{claim.metric}`" if several else claim.column.title


Compared = Mapping[str, Sequence[tuple[Line, Comparison]]]  # by metric


def comparison_grid(lines: Sequence[Line], compared: Compared, seeds: int) -> Grid:
    """Write some metrics of a column side by side.

    Parameters
    ----------
    lines : sequence of Line
    compared : mapping
        By metric, what came of each line.
    seeds : int
        How many were asked for; where there are fewer, a value says so.
    """
    header, columns = ["method"], [[line.row.contender.name for line in lines]]
    beside = any(found.published for pairs in compared.values() for _, found in pairs)
    for name, pairs in compared.items():
        ranking = _rank(name, pairs)
        header.append(f"{name}: ours" if beside else name)
        columns.append([_ours(line, found, ranking, seeds) for line, found in pairs])
        if any(found.published for _, found in pairs):
            header[-1:] = [f"{name}: paper", "ours", "difference", "verdict"]
            columns[-1:-1] = [[str(found.published or "–") for _, found in pairs]]
            columns.append([_difference(found) for _, found in pairs])
            columns.append([found.verdict.value if found.verdict else "–" for _, found in pairs])
    return Grid(tuple(header), tuple(zip(*columns, strict=True)))


def _rank(name: str, pairs: Sequence[tuple[Line, Comparison]]) -> Ranking:
    metric = METRICS[name]
    values = {
        line.row.contender.name: found.values
        for line, found in pairs
        if found.values and line.row.contender.method not in BOUNDS
    }
    if not metric.ranked or metric.higher_is_better is None or len(values) < 2:
        return Ranking(None, frozenset())
    return best_of(values, metric.higher_is_better)


def _ours(line: Line, found: Comparison, ranking: Ranking, seeds: int) -> str:
    name, n = line.row.contender.name, len(found.values)
    if not line.runs:
        return f"not run: {FILES_ABSENT}" if line.problem == FILES_ABSENT else "not run"
    text = found.metric.text(list(found.values.values()))
    text += f" ({n} of {seeds} seeds)" if 0 < n < seeds else ""
    if name == ranking.best:
        return f"**{text}**"
    return f"{text} {AMONG_BEST}" if name in ranking.among_best else text


def _difference(found: Comparison) -> str:
    difference = found.difference
    return "–" if difference is None else found.metric.difference_text(difference)


def missing(lines: Sequence[Line]) -> str:
    """Say in Markdown which runs are missing and why, each reason once; empty if none is."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.problem is not None:
            reasons.setdefault(line.problem, []).append(line.row.contender.name)
    return "\n\n".join(
        f"Not run: {reason.removeprefix('not run: ').rstrip('.')}"
        f" ({'all' if len(names) == len(lines) else '; '.join(names)})."
        for reason, names in reasons.items()
    )


IN_ANSWER = 3  # pairs that the answer sums up; the findings have all
SIDE_BY_SIDE = 2  # metrics with published values in one table
MARKS = (
    "Ours is mean ± deviation over seeds. **Bold**: significantly better than all others, "
    f"{AMONG_BEST}: the best mean and the next ones, down to the first that is significantly worse "
    f"({TEST}; lower is better except for accuracies; joint training and fine-tuning take no part)."
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
