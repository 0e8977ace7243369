"""Results as tables: one row per configuration, mean ± deviation over seeds, the best marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from faircil.results.summary import RunSummary, over_seeds

HIGHER_IS_BETTER = {"accuracy"}
BOUNDS = {"joint", "finetune"}  # references, never the best of a comparison
COLUMNS = ("accuracy", "eer", "eer_task", "eo", "eo_gap", "dp", "forgetting")


@dataclass(frozen=True)
class Row:
    """A configuration with its runs."""

    name: str
    runs: tuple[RunSummary, ...]


@dataclass(frozen=True)
class Cell:
    """Text of a value, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A comparison on one dataset: header, and cells row by row."""

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


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
    """Name a configuration so that it differs from all others on the same dataset."""
    twins = [
        _options(other)
        for other in others
        if (other.label, other.config["dataset"]) == (run.label, run.config["dataset"])
    ]
    differing = {
        key: value
        for key, value in _options(run).items()
        if any(twin.get(key) != value for twin in twins)
    }
    return " ".join([run.label, *(_written(key, value) for key, value in differing.items())])


def _options(run: RunSummary) -> dict[str, Any]:
    """All that can differ between two configurations of one method, in reading order."""
    own = run.config.get("own") or {}
    digest = run.config.get("data_sha256")
    content = {"content": digest[:8]} if digest else {}
    settings = run.config["settings"]
    after = {name: run.config.get(name) for name in ("epsilon", "held_out")}
    measure = run.config["measure"]
    return {"measure": measure, **settings, **after, **own, **content, "code": run.code}


def _written(key: str, value: Any) -> str:
    """Write an option as people write it on the command line; a measure speaks for itself."""
    if key == "measure":
        return str(value)
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text.lower() if isinstance(value, bool) else text}"


def compare(runs: Iterable[RunSummary]) -> list[Table]:
    """Make one table per dataset, columns without any value left out."""
    by_dataset: dict[str, list[Row]] = {}
    for row in group_runs(runs):
        by_dataset.setdefault(str(row.runs[0].config["dataset"]), []).append(row)
    tables = []
    for dataset, rows in by_dataset.items():
        columns, values = _values(rows, mark_best=True)
        cells = [
            (Cell(row.name), Cell(str(len(row.runs))), *line)
            for row, line in zip(rows, values, strict=True)
        ]
        tables.append(Table(dataset, ("method", "seeds", *columns), tuple(cells)))
    return tables


def seed_table(runs: Sequence[RunSummary]) -> Table:
    """Make a table of one configuration: a row per seed, then mean ± deviation."""
    rows = [Row(str(run.seed), (run,)) for run in runs]
    if len(runs) > 1:
        rows.append(Row("mean ± std", tuple(runs)))
    columns, values = _values(rows, mark_best=False)
    cells = [(Cell(row.name), *line) for row, line in zip(rows, values, strict=True)]
    title = f"{runs[0].config['dataset']}, {runs[0].label}, measure {runs[0].config['measure']}"
    return Table(title, ("seed", *columns), tuple(cells))


def _values(rows: Sequence[Row], mark_best: bool) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return the names of the metrics that have a value in some row, and the cells row by row."""
    statistics = [over_seeds(row.runs) for row in rows]
    names = [name for name in COLUMNS if any(means[name] is not None for means, _ in statistics)]
    best = {
        name: _best(name, rows, [means[name] for means, _ in statistics]) if mark_best else set()
        for name in names
    }
    cells = [
        (
            *(Cell(format_value(means[n], deviations[n]), position in best[n]) for n in names),
            Cell(f"{means['steps']:,.0f}"),
            Cell(f"{means['seconds']['total']:.1f}"),
        )
        for position, (means, deviations) in enumerate(statistics)
    ]
    return (*names, "steps", "seconds"), cells


def _best(name: str, rows: Sequence[Row], values: Sequence[float | None]) -> set[int]:
    """Positions of the best mean among methods that are no mere bounds; ties share it."""
    known = {
        position: value
        for position, (row, value) in enumerate(zip(rows, values, strict=True))
        if value is not None and row.runs[0].label not in BOUNDS
    }
    if len(known) < 2:
        return set()
    target = (max if name in HIGHER_IS_BETTER else min)(known.values())
    return {position for position, value in known.items() if value == target}


def format_value(mean: float | None, deviation: float | None = None) -> str:
    """Write a metric as in papers, ``.925 ± .004``; a dash where there is none.

    Examples
    --------
    >>> format_value(0.92512, 0.0041), format_value(-0.05), format_value(None)
    ('.925 ± .004', '−.050', '–')
    """
    if mean is None:
        return "–"
    text = _short(mean)
    return text if deviation is None else f"{text} ± {_short(deviation)}"


def _short(value: float) -> str:
    text = f"{value:z.3f}".replace("-", "−")
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def as_markdown(table: Table) -> str:
    """Write a table in Markdown, the best values in bold."""
    lines = ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
    for row in table.cells:
        texts = [cell.text.replace("|", r"\|") for cell in row]
        marked = [f"**{t}**" if cell.best else t for t, cell in zip(texts, row, strict=True)]
        lines.append("| " + " | ".join(marked) + " |")
    return "\n".join(lines) + "\n"
