"""Comparison tables of methods, mean ± standard deviation over seeds.

A value is marked as the best of its column only if it is significantly better than all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faircil.metrics import METRICS
from faircil.report.statistics import Ranking, best_of
from faircil.report.table import (
    Cell,
    Table,
    at_chance,
    chance_note,
    compares_too_small,
    direction_note,
    format_value,
    heading,
    levelling_note,
    small_note,
    summary_note,
)
from faircil.results.record import RunSummary, over_seeds

CONTENT = "encoder content"
ENCODER = ("encoder", "finetune", CONTENT)


@dataclass(frozen=True)
class Row:
    """A configuration with its runs."""

    name: str
    runs: tuple[RunSummary, ...]


def group_runs(runs: Iterable[RunSummary]) -> list[Row]:
    """Group runs that differ only in their seed; copies of a run count once.

    If a method occurs with several settings, its name states those that differ.
    """
    by_config: dict[str, dict[int, RunSummary]] = {}
    for run in runs:
        key = json.dumps([run.config, run.code], sort_keys=True)
        by_config.setdefault(key, {}).setdefault(run.seed, run)
    groups = [tuple(by_seed[seed] for seed in sorted(by_seed)) for by_seed in by_config.values()]
    return [Row(_name(group[0], [g[0] for g in groups]), group) for group in groups]


def _name(run: RunSummary, others: Sequence[RunSummary]) -> str:
    """Name a configuration so that it differs from all others on the same dataset.

    Between methods, only their view of the data is stated, such as a text encoder.
    """
    rivals = [
        (other.label, _options(other))
        for other in others
        if other.config["dataset"] == run.config["dataset"]
    ]
    differing = {
        key: value
        for key, value in _options(run).items()
        if any(
            options.get(key) != value
            for label, options in rivals
            if label == run.label or key in ENCODER
        )
    }
    if "encoder" in differing:
        differing.pop(CONTENT, None)
    return " ".join([run.label, *(_written(key, value) for key, value in differing.items())])


def _options(run: RunSummary) -> dict[str, Any]:
    """All options in which two configurations of a method can differ, in reading order."""
    own = run.config.get("own") or {}
    digest = run.config.get("data_sha256")
    content = {"content": digest[:8]} if digest else {}
    if encoder := run.config.get("encoder_sha256"):
        content[CONTENT] = encoder[:8]
    settings = run.config["settings"]
    after = {name: run.config.get(name) for name in ("epsilon", "held_out", "evaluate_on")}
    measure = run.config["measure"]
    return {"measure": measure, **settings, **after, **own, **content, "code": run.code}


def _written(key: str, value: Any) -> str:
    """Write an option as on the command line; a measure is written without its name."""
    if key == "measure":
        return str(value)
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text.lower() if isinstance(value, bool) else text}"


BOUNDS = {"joint", "finetune"}  # references, never the best of a comparison
NOT_RANKED = Ranking(None, frozenset())
ATTRIBUTE, CONTENT_OF_FILE, PART = "sensitive attribute", "content of the file", "evaluated part"


def evaluation_of(run: RunSummary) -> dict[str, str]:
    """Return what two comparable runs share: the test data, its classes and its groups."""
    config = run.config
    own = config.get("own") or {}
    split = own.get("test_column") or own.get("test_share")
    return {
        CONTENT_OF_FILE: str(config.get("data_sha256") or "")[:8],
        "label": str(own.get("label", "")),
        ATTRIBUTE: " × ".join(own.get("sensitive") or ()) or "none" if own else "",
        "tasks": str(own.get("tasks") or "two classes each") if own else "",
        "number of tasks": str(len(run.per_task)),
        "classes per task": _setting(config["settings"], "classes_per_task"),
        "order of classes": _setting(config["settings"], "class_order"),
        "test rows": str(split or ""),
        PART: str(config.get("evaluate_on") or "test"),
    }


def _setting(settings: Mapping[str, Any], name: str) -> str:
    """Return a setting, at any depth, as text; empty if there is none."""
    if name in settings:
        return str(settings[name])
    parts = (part for part in settings.values() if isinstance(part, Mapping))
    return next(filter(None, (_setting(part, name) for part in parts)), "")


@dataclass(frozen=True)
class Comparable:
    """Runs on the same test data.

    Parameters
    ----------
    title : str
        The dataset, and what distinguishes these runs from others on it.
    runs : tuple of RunSummary
    note : str
        Differences from other runs on the dataset; empty if there are no others.
    """

    title: str
    runs: tuple[RunSummary, ...]
    note: str


def comparable(runs: Iterable[RunSummary]) -> list[Comparable]:
    """Group runs that can be compared: those that share :func:`evaluation_of`."""
    by_data: dict[tuple[str, tuple[str, ...]], list[RunSummary]] = {}
    for run in runs:
        key = (str(run.config["dataset"]), tuple(evaluation_of(run).values()))
        by_data.setdefault(key, []).append(run)
    found = []
    for (dataset, _), members in by_data.items():
        mine = evaluation_of(members[0])
        others = [
            evaluation_of(some[0])
            for (name, _), some in by_data.items()
            if name == dataset and some is not members
        ]
        differing = [key for key in mine if any(other[key] != mine[key] for other in others)]
        title = [dataset, *(text for key in differing if (text := _titled(key, mine[key])))]
        if mine[PART] != "test" and PART not in differing:
            title.append(_titled(PART, mine[PART]))
        note = (
            f"not compared with other runs on {dataset}, shown in separate tables: other "
            f"{', '.join(differing)}"
        )
        found.append(Comparable(", ".join(title), tuple(members), note if differing else ""))
    return found


def compare(runs: Iterable[RunSummary]) -> list[Table]:
    """Make one table per dataset, omitting columns without any value.

    Runs that differ in :func:`evaluation_of` are not comparable: they have separate tables, with a
    note on the differences.
    """
    return [_compare(one.title, group_runs(one.runs), one.note) for one in comparable(runs)]


def _titled(key: str, value: str) -> str:
    """Describe in a title what only the runs of a table share; empty for the default."""
    if key == PART:
        return "" if value == "test" else f"on {value} data"
    if key == CONTENT_OF_FILE:
        return f"content {value}"
    return f"{value} tasks" if key == "number of tasks" else f"{key} {value}"


def _compare(title: str, rows: Sequence[Row], note: str) -> Table:
    names = _names(rows)
    cells = _cells(rows, names, {name: _ranking(name, rows) for name in names})
    lines = [
        (Cell(row.name), Cell(str(len(row.runs))), *line)
        for row, line in zip(rows, cells, strict=True)
    ]
    ranked = sum(not is_bound(row) for row in rows) > 1
    headings = map(heading, names)
    header = ("method", "seeds", *headings, "steps", "seconds")
    notes = (direction_note(names) if ranked else "", *_notes(rows, names), note)
    return Table(title, header, tuple(lines), ranked, tuple(filter(None, notes)))


def seed_table(runs: Sequence[RunSummary]) -> Table:
    """Make a table of one configuration: a row per seed, then mean ± deviation."""
    rows = [Row(str(run.seed), (run,)) for run in runs]
    if len(runs) > 1:
        rows.append(Row("mean ± std", tuple(runs)))
    names = _names(rows)
    cells = [
        (Cell(row.name), *line) for row, line in zip(rows, _cells(rows, names, {}), strict=True)
    ]
    title = f"{runs[0].config['dataset']}, {runs[0].label}, measure {runs[0].config['measure']}"
    header = ("seed", *map(heading, names), "steps", "seconds")
    notes = _notes([Row(runs[0].label, tuple(runs))], names)
    return Table(title, header, tuple(cells), notes=tuple(filter(None, notes)))


def _notes(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Return the notes on a table; some may be empty."""
    runs = [run for row in rows for run in row.runs]
    means = {row.name: over_seeds(row.runs)[0] for row in rows}
    bounds = frozenset(row.name for row in rows if is_bound(row))
    chance = [row.name for row in rows if at_chance(means[row.name], row.runs)]
    return (
        summary_note(names),
        small_note(runs, names),
        levelling_note(means, bounds),
        chance_note(means, chance),
    )


def _names(rows: Sequence[Row]) -> list[str]:
    """Return the metrics of a table: those that have a value in some row."""
    means = [over_seeds(row.runs)[0] for row in rows]
    return [
        name
        for name, metric in METRICS.items()
        if metric.in_tables and any(values[name] is not None for values in means)
    ]


def _cells(
    rows: Sequence[Row], names: Sequence[str], rankings: Mapping[str, Ranking]
) -> list[tuple[Cell, ...]]:
    """Return the cells of the metrics, steps and seconds, row by row."""
    runs = [run for row in rows for run in row.runs]
    small = {name for name in names if compares_too_small(METRICS[name], runs)}
    cells = []
    for row in rows:
        means, deviations = over_seeds(row.runs)
        line = []
        for name in names:
            ranking = rankings.get(name, NOT_RANKED)
            line.append(
                Cell(
                    format_value(means[name], deviations[name]),
                    best=row.name == ranking.best,
                    among_best=row.name in ranking.among_best,
                    too_small=name in small and means[name] is not None,
                )
            )
        spent = (f"{means['steps']:,.0f}", f"{means['seconds']['total']:.1f}")
        cells.append((*line, *map(Cell, spent)))
    return cells


def _ranking(metric: str, rows: Sequence[Row]) -> Ranking:
    """Rank the rows that are not references and have a value for every seed.

    A model at chance level treats all groups alike, so it is not ranked for disparities.
    """
    ranked = [row for row in rows if not is_bound(row)]
    if METRICS[metric].is_disparity:
        ranked = [r for r in ranked if not at_chance(over_seeds(r.runs)[0], r.runs)]
    columns = {row.name: _by_seed(metric, row) for row in ranked}
    known = {name: values for name, values in columns.items() if values is not None}
    return best_of(known, METRICS[metric].higher_is_better)


def _by_seed(metric: str, row: Row) -> Mapping[int, float] | None:
    values = {run.seed: run.value(metric) for run in row.runs}
    known = {seed: value for seed, value in values.items() if value is not None}
    return known if len(known) == len(values) else None


def is_bound(row: Row) -> bool:
    """Whether a configuration is a reference, which is not ranked."""
    return row.runs[0].config["method"] in BOUNDS
