"""Tables of the paper with rows of ours, as exhibits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from faircil.report import AMONG_BEST, TEST
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import (
    Column,
    Pair,
    claims_of,
    claims_section,
    control_counts,
    controls_section,
    findings_of,
    summaries_of,
    which_not_how_many,
)
from faircil_lab.paper.comparison import compare_values, count_verdicts, machines_section, ranks
from faircil_lab.paper.contenders import Contender, Entry, LineUp, Settings, notes_of
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Results, Section, Verdict
from faircil_lab.paper.metrics import DATASET_NAMES, METRICS
from faircil_lab.paper.published import METHODS, published
from faircil_lab.paper.table_parts import (
    Compared,
    Entries,
    chance_section,
    column_sections,
    is_time,
    settings_section,
    times_section,
)


@dataclass(frozen=True)
class TableRow:
    """A method in a table.

    Parameters
    ----------
    contender : Contender
    published : str or None
        Its name in the published data; None: the paper does not have it.
    measure : str or None
        What its weights are for; None: the measure of the column.
    settings : str or None
        Where its settings come from; None: as those of the table.
    apart : bool
        Whether it is of another kind: it is shown with the others and takes no part in the marks.
    """

    contender: Contender
    published: str | None = None
    measure: str | None = None
    settings: Settings | None = None
    apart: bool = False


@dataclass(frozen=True)
class ComparisonTable:
    """A table of the paper with rows of ours.

    Parameters
    ----------
    title : str
        In plain words.
    topic : str
        Name of the published data.
    rows, columns : tuple
    pairs : tuple of Pair
        Compared over common seeds.
    about : str
        What a reader should know, in Markdown.
    settings : str
        ``tuned``: chosen on validation data; ``shipped``: those of the table of settings.
    seeds : tuple of int
    held_out : int
        Samples of each group that are kept from training, for post-processing.
    """

    title: str
    topic: str
    rows: tuple[TableRow, ...]
    columns: tuple[Column, ...]
    pairs: tuple[Pair, ...] = ()
    about: str = ""
    settings: Settings = "shipped"
    seeds: tuple[int, ...] = SEEDS
    held_out: int = 0

    @property
    def paper(self) -> str:
        """Where it is in the paper."""
        return published(self.topic).paper

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        return list(
            dict.fromkeys(one for _, line_up in self._parts() for one in line_up.requests())
        )

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs, with the settings that were chosen."""
        return [work for _, line_up in self._parts() for work in line_up.works(tuned)]

    def entries(self, column: Column, results: Results) -> list[Entry]:
        """Return the results of each row in a column."""
        return [
            replace(
                line_up.entry(row.contender, line_up.targets[0], results),
                published=row.published,
                apart=row.apart,
            )
            for row, line_up in self._parts([column])
        ]

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        return table_page(self, {column: self.entries(column, results) for column in self.columns})

    def _parts(self, columns: Sequence[Column] | None = None) -> list[tuple[TableRow, LineUp]]:
        """Return each row of each column with its runs."""
        return [
            (row, LineUp((row.contender,), (target,), settings, self.seeds, self.held_out))
            for column in (self.columns if columns is None else columns)
            for row in self.rows
            if column.only is None or row.contender.name in column.only
            for settings in [row.settings or self.settings]
            for target in [replace(column.target, measure=row.measure or column.target.measure)]
        ]


IN_ANSWER = 3  # pairs that the answer sums up; the findings have all
MARKS = (
    "Ours is mean ± deviation over seeds. **Bold**: significantly better than all others, "
    f"{AMONG_BEST}: the best mean and the next ones, down to the first that is significantly worse "
    f"({TEST}; joint training and fine-tuning take no part, nor do methods with a diverged seed)."
)
VERDICTS = (
    "`same`: chance over the seeds of both sides (Welch, 95 %) and the rounding of the printed "
    "value explain the difference; otherwise ours is `better` or `worse`. `diverged`: one of our "
    "seeds did, which counts against the method."
)
TIMES = (
    "Times depend on the machine, so they have no verdict and are not counted among the published "
    "values: both are shown below, with our time as a share of theirs."
)
NOISE = (
    "{names}: the test data is too small to rank methods. Its rows have no marks, and its "
    "comparisons are shown but not counted."
)
APART = (
    "{names} is a different kind of method from the paper's and takes no part in the marks: it "
    "trains no net and keeps no samples, only sums over all samples of each group; see [its "
    "page](moments.md)."
)


def table_page(table: ComparisonTable, entries: Entries) -> Page:
    """Put the page of a comparison table together from the results of its rows."""
    columns = list(entries)
    compared = {column: _compare(table, column, entries[column]) for column in columns}
    claims = [claim for c in columns for claim in claims_of(c, entries[c], table.pairs)]
    counts = [count for c in columns for count in control_counts(c, entries[c])]
    sections = [Section("How to read it", "\n\n".join(_legend(table, columns)))]
    for column in columns:
        sections += column_sections(column, entries[column], compared[column], len(table.seeds))
    if claims:
        sections.append(claims_section(claims))
    if counts:
        sections.append(controls_section(counts))
    sections += [chance for column in columns for chance in chance_section(column, entries[column])]
    timed = [time for c in columns for time in times_section(c, compared[c], len(table.seeds))]
    if timed:
        sections += timed
        runs = [run for some in entries.values() for entry in some for run in entry.runs]
        sections += [machines_section(runs)] if runs else []
    sections.append(settings_section(table.settings, entries))
    if any(row.published for row in table.rows):
        sections.append(_reasons(table))
    run = any(entry.runs for some in entries.values() for entry in some)
    verdicts = [pair for part in compared.values() for pair in _verdicts(part)]
    return Page(
        _answer(verdicts, summaries_of(claims, table.pairs[:IN_ANSWER]), run),
        tuple(sections),
        tuple(verdict for _, verdict in verdicts),
        (*findings_of(claims, table.pairs), *which_not_how_many(claims, counts)),
        _by_method(verdicts),
    )


def _legend(table: ComparisonTable, columns: Sequence[Column]) -> list[str]:
    noisy = dict.fromkeys(
        DATASET_NAMES[column.target.dataset] for column in columns if not ranks(column.target)
    )
    has_published = bool(published(table.topic).values)
    parts = [
        table.about,
        f"{MARKS} {VERDICTS}" if has_published else MARKS,
        TIMES if any(is_time(metric) for _, _, metric in published(table.topic).values) else "",
        NOISE.format(names=", ".join(noisy)) if noisy and table.pairs else "",
        APART.format(names=_quoted(row for row in table.rows if row.apart))
        if any(row.apart for row in table.rows)
        else "",
        *notes_of(row.contender for row in table.rows),
    ]
    return [part for part in parts if part]


def _quoted(rows: Iterable[TableRow]) -> str:
    return ", ".join(f"`{row.contender.name}`" for row in rows)


def _compare(table: ComparisonTable, column: Column, entries: Sequence[Entry]) -> Compared:
    values = published(table.topic)
    return {
        name: [
            (
                entry,
                compare_values(
                    METRICS[name],
                    values.value(column.published_key, entry.published or "", name),
                    METRICS[name].by_seed(entry.runs),
                    diverged=bool(entry.diverged),
                    is_time=is_time(name),
                ),
            )
            for entry in entries
        ]
        for name in (*column.metrics, *column.besides)
    }


def _verdicts(compared: Compared) -> list[tuple[Entry, Verdict]]:
    return [
        (entry, found.verdict)
        for pairs in compared.values()
        for entry, found in pairs
        if found.verdict is not None
    ]


def _reasons(table: ComparisonTable) -> Section:
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


def _by_method(verdicts: Sequence[tuple[Entry, Verdict]]) -> dict[str, tuple[Verdict, ...]]:
    found: dict[str, tuple[Verdict, ...]] = {}
    for entry, verdict in verdicts:
        for key in (entry.published or "").split():
            if key in METHODS:
                found[key] = (*found.get(key, ()), verdict)
    return found


def _answer(verdicts: Sequence[tuple[Entry, Verdict]], summaries: Sequence[str], run: bool) -> str:
    """Sum up the results in a few sentences; the counts of all verdicts are next to it."""
    if not verdicts:
        return " ".join(summaries) or (ONLY_TIMES if run else "Not run yet.")
    if all(verdict is Verdict.NOT_RUN for _, verdict in verdicts):
        return f"Not run yet: {len(verdicts)} published values have no value of ours yet."
    own = [verdict for entry, verdict in verdicts if (entry.published or "").startswith("fsw")]
    counted = [f"Published values of FSW: {count_verdicts(own)}."] if own else []
    return " ".join([*counted, *summaries])


ONLY_TIMES = "Times alone, which have no verdict: the tables show ours next to the published ones."
