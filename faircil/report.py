"""Results as tables: one row per configuration, mean ± deviation over seeds, the best marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faircil.results.summary import RunSummary, over_seeds

HIGHER_IS_BETTER = {"accuracy"}
BOUNDS = {"joint", "finetune"}  # references, never the best of a comparison
COLUMNS = ("accuracy", "eer", "eer_task", "eo", "eo_gap", "dp", "forgetting")


@dataclass(frozen=True)
class Row:
    """A configuration with its runs."""

    name: str
    runs: tuple[RunSummary, ...]

    @property
    def seeds(self) -> int:
        """Number of runs."""
        return len(self.runs)


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
    """Put runs that differ only in their seed together.

    Where a method occurs with several settings, the name says which settings differ.
    """
    by_config: dict[str, list[RunSummary]] = {}
    for run in runs:
        by_config.setdefault(json.dumps(run.config, sort_keys=True), []).append(run)
    groups = [tuple(sorted(group, key=lambda run: run.seed)) for group in by_config.values()]
    return [Row(_name(group[0], [g[0] for g in groups]), group) for group in groups]


def _name(run: RunSummary, others: Sequence[RunSummary]) -> str:
    """Name a configuration so that it differs from all others on the same dataset."""
    twins = [
        other
        for other in others
        if (other.label, other.config["dataset"]) == (run.label, run.config["dataset"])
    ]
    parts = [run.label]
    if len({twin.config["measure"] for twin in twins}) > 1:
        parts.append(str(run.config["measure"]))
    for key, value in run.config["settings"].items():
        if any(twin.config["settings"].get(key) != value for twin in twins):
            parts.append(f"{key}={value}")
    return " ".join(parts)


def compare(runs: Iterable[RunSummary]) -> list[Table]:
    """Make one table per dataset, columns without any value left out."""
    rows = group_runs(runs)
    datasets = dict.fromkeys(str(row.runs[0].config["dataset"]) for row in rows)
    return [
        _table(name, [row for row in rows if row.runs[0].config["dataset"] == name])
        for name in datasets
    ]


def seed_table(runs: Sequence[RunSummary]) -> Table:
    """Make a table of one configuration: a row per seed, then mean ± deviation."""
    rows = [Row(f"seed {run.seed}", (run,)) for run in runs]
    config = runs[0].config
    title = f"{config['dataset']}, {runs[0].label}, measure {config['measure']}"
    if len(runs) > 1:
        rows.append(Row("mean ± std", tuple(runs)))
    return _table(title, rows, mark_best=False)


def _table(title: str, rows: Sequence[Row], mark_best: bool = True) -> Table:
    statistics = [over_seeds(row.runs) for row in rows]
    columns = [name for name in COLUMNS if any(means[name] is not None for means, _ in statistics)]
    best = {
        name: _best(name, rows, [means[name] for means, _ in statistics]) if mark_best else set()
        for name in columns
    }
    cells = []
    for position, (row, (means, deviations)) in enumerate(zip(rows, statistics, strict=True)):
        values = [
            Cell(format_value(means[name], deviations[name]), position in best[name])
            for name in columns
        ]
        seconds = Cell(f"{means['seconds']['total']:.1f}")
        cells.append((Cell(row.name), Cell(str(row.seeds)), *values, seconds))
    return Table(title, ("method", "seeds", *columns, "seconds"), tuple(cells))


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
    text = f"{value:.3f}".replace("-", "−")
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def as_markdown(table: Table) -> str:
    """Write a table in Markdown, the best values in bold."""
    lines = ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
    lines += [
        "| " + " | ".join(f"**{c.text}**" if c.best else c.text for c in row) + " |"
        for row in table.cells
    ]
    return "\n".join(lines) + "\n"
