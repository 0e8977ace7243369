"""Methods side by side, mean ± deviation over seeds.

A value is marked as the best of its column only where a test over seeds says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faircil.report.statistics import Ranking, best_of
from faircil.report.table import Cell, Table, format_value
from faircil.results.record import RunSummary, over_seeds

CONTENT = "encoder content"
ENCODER = ("encoder", "finetune", CONTENT)


@dataclass(frozen=True)
class Row:
    """A configuration with its runs."""

    name: str
    runs: tuple[RunSummary, ...]


def group_runs(runs: Iterable[RunSummary]) -> list[Row]:
    """Put runs that differ only in their seed together; a copy of a run does not count twice.

    Where a method occurs with several settings, the name says which settings differ.
    """
    by_config: dict[str, dict[int, RunSummary]] = {}
    for run in runs:
        key = json.dumps([run.config, run.code], sort_keys=True)
        by_config.setdefault(key, {}).setdefault(run.seed, run)
    groups = [tuple(by_seed[seed] for seed in sorted(by_seed)) for by_seed in by_config.values()]
    return [Row(_name(group[0], [g[0] for g in groups]), group) for group in groups]


def _name(run: RunSummary, others: Sequence[RunSummary]) -> str:
    """Name a configuration so that it differs from all others on the same dataset.

    Between methods, only what they see of the data is named: an encoder of texts.
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
    """All that can differ between two configurations of one method, in reading order."""
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
    """Write an option as people write it on the command line; a measure speaks for itself."""
    if key == "measure":
        return str(value)
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text.lower() if isinstance(value, bool) else text}"


HIGHER_IS_BETTER = {"accuracy"}
BOUNDS = {"joint", "finetune"}  # references, never the best of a comparison
COLUMNS = ("accuracy", "eer", "eer_task", "eo", "eo_gap", "dp", "forgetting")
NOT_RANKED = Ranking(None, frozenset())


def compare(runs: Iterable[RunSummary]) -> list[Table]:
    """Make one table per dataset, columns without any value left out.

    Runs on other content of a file of the same name, and those on validation data, are not
    comparable: they have tables of their own.
    """
    by_data: dict[tuple[str, str | None, str], list[RunSummary]] = {}
    for run in runs:
        config = run.config
        part = config.get("evaluate_on") or "test"
        data = (str(config["dataset"]), config.get("data_sha256"), str(part))
        by_data.setdefault(data, []).append(run)
    tables = []
    for (dataset, content, part), members in by_data.items():
        versions = {data[1] for data in by_data if data[0] == dataset}
        title = [dataset]
        title += [f"content {content[:8]}"] if content and len(versions) > 1 else []
        title += [f"on {part} data"] if part != "test" else []
        tables.append(_compare(", ".join(title), group_runs(members)))
    return tables


def _compare(title: str, rows: Sequence[Row]) -> Table:
    columns, values = _values(rows, {metric: _ranking(metric, rows) for metric in COLUMNS})
    cells = [
        (Cell(row.name), Cell(str(len(row.runs))), *line)
        for row, line in zip(rows, values, strict=True)
    ]
    ranked = sum(not _is_bound(row) for row in rows) > 1
    return Table(title, ("method", "seeds", *columns), tuple(cells), ranked)


def seed_table(runs: Sequence[RunSummary]) -> Table:
    """Make a table of one configuration: a row per seed, then mean ± deviation."""
    rows = [Row(str(run.seed), (run,)) for run in runs]
    if len(runs) > 1:
        rows.append(Row("mean ± std", tuple(runs)))
    columns, values = _values(rows, {})
    cells = [(Cell(row.name), *line) for row, line in zip(rows, values, strict=True)]
    title = f"{runs[0].config['dataset']}, {runs[0].label}, measure {runs[0].config['measure']}"
    return Table(title, ("seed", *columns), tuple(cells))


def _values(
    rows: Sequence[Row], rankings: Mapping[str, Ranking]
) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return the names of the metrics that have a value in some row, and the cells row by row."""
    statistics = [over_seeds(row.runs) for row in rows]
    names = [name for name in COLUMNS if any(means[name] is not None for means, _ in statistics)]
    ranked = [(name, rankings.get(name, NOT_RANKED)) for name in names]
    cells = [
        (
            *(
                Cell(
                    format_value(means[name], deviations[name]),
                    best=row.name == ranking.best,
                    among_best=row.name in ranking.not_told_apart,
                )
                for name, ranking in ranked
            ),
            Cell(f"{means['steps']:,.0f}"),
            Cell(f"{means['seconds']['total']:.1f}"),
        )
        for row, (means, deviations) in zip(rows, statistics, strict=True)
    ]
    return (*names, "steps", "seconds"), cells


def _ranking(metric: str, rows: Sequence[Row]) -> Ranking:
    """Rank the rows that are no mere bounds and have a value for every seed."""
    columns = {row.name: _by_seed(metric, row) for row in rows if not _is_bound(row)}
    known = {name: values for name, values in columns.items() if values is not None}
    return best_of(known, metric in HIGHER_IS_BETTER)


def _by_seed(metric: str, row: Row) -> Mapping[int, float] | None:
    values = {run.seed: run.metrics[metric] for run in row.runs}
    known = {seed: value for seed, value in values.items() if value is not None}
    return known if len(known) == len(values) else None


def _is_bound(row: Row) -> bool:
    return row.runs[0].config["method"] in BOUNDS
