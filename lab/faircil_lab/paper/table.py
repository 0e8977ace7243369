"""Tables of the paper with rows of ours, as exhibits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from faircil.report import AMONG_BEST, TEST, format_value
from faircil.report.statistics import Ranking, best_of
from faircil.results.record import spread
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
from faircil_lab.paper.comparison import (
    Comparison,
    compare_values,
    count_verdicts,
    machines_section,
    ranks,
    run_gap_by_chance,
)
from faircil_lab.paper.contenders import (
    FILES_ABSENT,
    Contender,
    Entry,
    LineUp,
    commands,
    missing,
    notes_of,
    seeds_diverged,
)
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Results, Section, Verdict
from faircil_lab.paper.metrics import DATASET_NAMES, METRICS, PEOPLE
from faircil_lab.paper.published import METHODS, published

Settings = Literal["tuned", "shipped"]


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
        Whether it is of another kind: it stands beside the others and takes no part in the marks.
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
SIDE_BY_SIDE = 2  # metrics with published values in one table
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
Entries = Mapping[Column, Sequence[Entry]]
Compared = Mapping[str, Sequence[tuple[Entry, Comparison]]]  # by metric


def is_time(metric: str) -> bool:
    """Whether a metric is a time, which says more of a machine than of a method."""
    return metric.startswith("seconds")


def table_page(table: ComparisonTable, entries: Entries) -> Page:
    """Put the page of a comparison table together from the results of its rows."""
    columns = list(entries)
    compared = {column: _compare(table, column, entries[column]) for column in columns}
    claims = [claim for c in columns for claim in claims_of(c, entries[c], table.pairs)]
    counts = [count for c in columns for count in control_counts(c, entries[c])]
    sections = [Section("How to read it", "\n\n".join(_legend(table, columns)))]
    for column in columns:
        sections += _column_sections(column, entries[column], compared[column], len(table.seeds))
    if claims:
        sections.append(claims_section(claims))
    if counts:
        sections.append(controls_section(counts))
    sections += [chance for column in columns for chance in _chance(column, entries[column])]
    timed = [time for c in columns for time in _times_section(c, compared[c])]
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


def _column_sections(
    column: Column, entries: Sequence[Entry], compared: Compared, seeds: int
) -> list[Section]:
    """Write the results of a column, at most so many metrics in a table; times stand apart."""
    sections = []
    parts = _side_by_side({name: some for name, some in compared.items() if not is_time(name)})
    for number, names in enumerate(parts):
        heading = column.title + (f": {', '.join(names)}" if len(parts) > 1 else "")
        shown = {name: compared[name] for name in names}
        grid = comparison_grid(entries, shown, seeds, ranked=ranks(column.target))
        text = "" if number else missing(entries)
        lines = () if number else commands(entries)
        sections.append(Section(heading, text, grid if names else None, commands=lines))
    return sections


def _side_by_side(compared: Compared) -> list[list[str]]:
    """Part metrics between tables; those without a published value take little room."""
    parts: list[list[str]] = [[]]
    wide = 0
    for name, pairs in compared.items():
        has_published = any(found.published for _, found in pairs)
        if has_published and wide == SIDE_BY_SIDE:
            parts.append([])
            wide = 0
        parts[-1].append(name)
        wide += has_published
    return parts


def comparison_grid(
    entries: Sequence[Entry], compared: Compared, seeds: int, *, ranked: bool = True
) -> Grid:
    """Write some metrics of a column side by side.

    Parameters
    ----------
    entries : sequence of Entry
    compared : mapping
        By metric, the comparison of each entry.
    seeds : int
        How many were asked for; where there are fewer, a value says so.
    ranked : bool
        Whether the best is marked.
    """
    header, columns = ["method"], [[entry.name for entry in entries]]
    beside = any(found.published for pairs in compared.values() for _, found in pairs)
    for name, pairs in compared.items():
        ranking = _rank(name, pairs) if ranked else Ranking(None, frozenset())
        header.append(f"{name}: ours" if beside else name)
        columns.append([_ours(entry, found, ranking, seeds) for entry, found in pairs])
        if any(found.published for _, found in pairs):
            header[-1:] = [f"{name}: paper", "ours", "difference", "verdict"]
            columns[-1:-1] = [[str(found.published or "–") for _, found in pairs]]
            columns.append([_difference(found) for _, found in pairs])
            columns.append([found.verdict.value if found.verdict else "–" for _, found in pairs])
    return Grid(tuple(header), tuple(zip(*columns, strict=True)))


def _rank(name: str, pairs: Sequence[tuple[Entry, Comparison]]) -> Ranking:
    metric = METRICS[name]
    values = {
        entry.name: found.values
        for entry, found in pairs
        if found.values and not (entry.is_bound or entry.apart or entry.diverged)
    }
    if not metric.ranked or metric.higher_is_better is None or len(values) < 2:
        return Ranking(None, frozenset())
    return best_of(values, metric.higher_is_better)


def _ours(entry: Entry, found: Comparison, ranking: Ranking, seeds: int) -> str:
    n = len(found.values)
    if not entry.runs:
        if entry.diverged:
            return seeds_diverged(entry)
        return f"not run: {FILES_ABSENT}" if entry.problem == FILES_ABSENT else "not run"
    text = found.metric.text(list(found.values.values()))
    if entry.diverged:
        return f"{text} ({seeds_diverged(entry)})"
    text += f" ({n} of {seeds} seeds)" if 0 < n < seeds else ""
    if entry.name == ranking.best:
        return f"**{text}**"
    return f"{text} {AMONG_BEST}" if entry.name in ranking.among_best else text


def _difference(found: Comparison) -> str:
    difference = found.difference
    return "–" if difference is None else found.metric.difference_text(difference)


def _times_section(column: Column, compared: Compared) -> list[Section]:
    """Show the times of a column, ours as a share of the published ones."""
    times = {name: some for name, some in compared.items() if is_time(name)}
    if not times:
        return []
    header, columns = ["method"], [[entry.name for entry, _ in next(iter(times.values()))]]
    for name, pairs in times.items():
        header.append(name)
        columns.append(
            [f.metric.text([*f.values.values()]) if f.values else "not run" for _, f in pairs]
        )
        if any(found.published for _, found in pairs):
            header[-1:] = [f"{name}: paper", "ours", "share"]
            columns[-1:-1] = [[str(found.published or "–") for _, found in pairs]]
            columns.append([_share(found) for _, found in pairs])
    grid = Grid(tuple(header), tuple(zip(*columns, strict=True)))
    return [Section(f"Times on {column.title}", table=grid)]


def _share(found: Comparison) -> str:
    if found.published is None or not found.values:
        return "–"
    return f"{fmean(found.values.values()) / found.published.mean:.3g}"


CHANCE = (
    "What `eo_gap` would be if the correctly predicted samples were spread over the attribute "
    "values of their class at random: small groups show that much even where they are treated "
    "alike. Computed from the predictions of the runs above; mean ± deviation over seeds."
)


def _chance(column: Column, entries: Sequence[Entry]) -> list[Section]:
    """Show the gap that chance alone gives on a dataset that ranks nothing."""
    if ranks(column.target) or "eo_gap" not in (*column.metrics, *column.besides):
        return []
    rows = []
    for entry in entries:
        gaps = [run_gap_by_chance(run) for run in entry.runs]
        if gaps and None not in gaps:
            ours = METRICS["eo_gap"].text([*METRICS["eo_gap"].by_seed(entry.runs).values()])
            rows.append((entry.name, ours, format_value(*spread(gaps))))
    if not rows:
        return []
    grid = Grid(("method", "eo_gap", "eo_gap by chance"), tuple(rows))
    return [Section(f"{column.title}: what chance alone gives", CHANCE, grid)]


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


def _answer(verdicts: Sequence[tuple[Entry, Verdict]], told: Sequence[str], run: bool) -> str:
    """Sum up the results in a few sentences; the counts of all verdicts stand beside it."""
    if not verdicts:
        return " ".join(told) or (ONLY_TIMES if run else "Not run yet.")
    if all(verdict is Verdict.NOT_RUN for _, verdict in verdicts):
        return f"Not run yet: {len(verdicts)} published values have no value of ours yet."
    own = [verdict for entry, verdict in verdicts if (entry.published or "").startswith("fsw")]
    counted = [f"Published values of FSW: {count_verdicts(own)}."] if own else []
    return " ".join([*counted, *told])


ONLY_TIMES = "Times alone, which have no verdict: the tables show ours next to the published ones."
SHIPPED = (
    "Those shipped with faircil (`faircil/runs/settings.toml`): the paper's where it gives them, "
    "otherwise chosen on held-out training data. None was chosen here."
)
SPLIT_BY_SEED = ("drug", "biasbios-sample", *PEOPLE)
ACROSS_SEEDS = (
    "{} split by the seed: rows that were trained on and held out there are test rows under "
    "other seeds. Within a seed nothing leaks."
)
SETTINGS_HEADER = ("on", "method", "chosen", "objective", "score", "tried")


def settings_section(settings: Settings, entries: Entries) -> Section:
    """Say which settings were used, and where they come from."""
    if settings == "shipped":
        return Section("Settings", SHIPPED)
    chosen = [
        (column, entry, entry.tuned)
        for column, some in entries.items()
        for entry in some
        if entry.tuned is not None
    ]
    if not chosen:
        return Section("Settings", "None were chosen yet.")
    rows = tuple(_settings_row(column, entry, tuned) for column, entry, tuned in chosen)
    datasets = {column.target.dataset for column, _, _ in chosen}
    split = [DATASET_NAMES[name] for name in SPLIT_BY_SEED if name in datasets]
    verb = "is" if len(split) == 1 else "are"
    notes = [ACROSS_SEEDS.format(f"{', '.join(split)} {verb}")] if split else []
    text = " ".join([_how_chosen(chosen[0][2].request), *notes])
    return Section("Settings", text, Grid(SETTINGS_HEADER, rows), on_terminal=False)


def _how_chosen(request: TuneRequest) -> str:
    seeds = ", ".join(map(str, request.seeds))
    data = (
        "a held-out part of the training data of the tasks seen so far; test data was not used"
        if request.select_on == "validation"
        else "**test data**, as the paper does: these figures are too optimistic"
    )
    return (
        f"Chosen on {data}. Every method has the same budget: at most {request.budget} "
        f"configurations ({request.strategy}) on seed {seeds}, which no table shows. The best "
        "score wins; its accuracy is averaged over groups. Controls have the settings of FSW."
    )


def _settings_row(column: Column, entry: Entry, tuned: Tuned) -> tuple[str, ...]:
    scored = sum(trial.score is not None for trial in tuned.trials)
    failed = len(tuned.trials) - scored
    source = entry.contender.settings_of
    return (
        column.title,
        entry.name + (f" (settings of {source.name})" if source else ""),
        f"`{' '.join(tuned.best.overrides) or 'shipped'}`",
        tuned.request.objective or f"accuracy - {tuned.request.measure}",
        format_value(tuned.best.score),
        f"{len(tuned.trials)}" + (f", {failed} without a result" if failed else ""),
    )
