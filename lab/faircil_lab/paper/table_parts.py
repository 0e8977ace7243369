"""Parts of the page of a table: its results side by side, its times, chance, and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from faircil.report import AMONG_BEST, format_value
from faircil.report.statistics import Ranking, best_of
from faircil.results.record import spread
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import Column
from faircil_lab.paper.comparison import Comparison, ranks, run_gap_by_chance
from faircil_lab.paper.contenders import (
    FILES_ABSENT,
    Entry,
    Settings,
    commands,
    missing,
    seeds_diverged,
)
from faircil_lab.paper.exhibit import Grid, Section
from faircil_lab.paper.metrics import DATASET_NAMES, METRICS, PEOPLE

UNRANKED = Ranking(None, frozenset())  # nothing is marked
SIDE_BY_SIDE = 2  # metrics with published values in one table
Entries = Mapping[Column, Sequence[Entry]]
Compared = Mapping[str, Sequence[tuple[Entry, Comparison]]]  # by metric


def is_time(metric: str) -> bool:
    """Whether a metric is a time, which says more of a machine than of a method."""
    return metric.startswith("seconds")


def column_sections(
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
    has_paper = any(found.published for pairs in compared.values() for _, found in pairs)
    for name, pairs in compared.items():
        ranking = _rank(name, pairs) if ranked else UNRANKED
        header.append(f"{name}: ours" if has_paper else name)
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
        return UNRANKED
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


def times_section(column: Column, compared: Compared, seeds: int) -> list[Section]:
    """Show the times of a column, ours as a share of the published ones."""
    times = {name: some for name, some in compared.items() if is_time(name)}
    if not times:
        return []
    header, columns = ["method"], [[entry.name for entry, _ in next(iter(times.values()))]]
    for name, pairs in times.items():
        header.append(name)
        columns.append([_ours(entry, found, UNRANKED, seeds) for entry, found in pairs])
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


def chance_section(column: Column, entries: Sequence[Entry]) -> list[Section]:
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
