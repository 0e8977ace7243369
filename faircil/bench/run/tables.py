"""A benchmark of runs as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from statistics import mean

from faircil.bench.run.contenders import REFERENCE
from faircil.bench.run.epoch_cost import FORWARD
from faircil.bench.run.record import EpochCost, RunCost, ScalePoint
from faircil.bench.run.scaling import LABELS
from faircil.bench.run.summary import MethodCost, summarise_runs
from faircil.bench.timing import exponent, written
from faircil.report import Cell, Table
from faircil.results.record import Seconds


def run_tables(runs: Sequence[RunCost]) -> list[Table]:
    """Make a table of whole runs per dataset, a row per method."""
    rows = summarise_runs(runs)
    split = tuple(f"{field.name}, s" for field in fields(Seconds))
    header = ("method", *split, f"against {REFERENCE}", "LP share", "peak memory")
    return [
        Table(dataset, header, tuple(_run_cells(row) for row in rows if row.dataset == dataset))
        for dataset in dict.fromkeys(row.dataset for row in rows)
    ]


def _run_cells(row: MethodCost) -> tuple[Cell, ...]:
    texts = (
        row.method,
        *(f"{seconds:.2f}" for seconds in astuple(row.seconds)),
        "–" if row.ratio is None else f"{row.ratio:.2f}",
        f"{100 * row.lp_share:.1f} %",
        "–" if row.memory is None else f"{row.memory:.2f} GiB",
    )
    return tuple(map(Cell, texts))


def epoch_table(epochs: Sequence[EpochCost]) -> Table:
    """Make a table of statistics against a forward pass, a row per dataset: means over tasks."""
    kinds = tuple(epochs[0].statistics)
    first = kinds[0]
    header = ["dataset", "tasks", "samples", "groups", FORWARD]
    for kind in kinds:
        header += [kind, f"against {FORWARD if kind == first else first}"]
    cells = []
    for dataset in dict.fromkeys(epoch.dataset for epoch in epochs):
        part = [epoch for epoch in epochs if epoch.dataset == dataset]
        texts = [
            dataset,
            _span([epoch.task for epoch in part]),
            f"{mean(epoch.samples for epoch in part):,.0f}",
            _span([epoch.groups for epoch in part]),
            written(mean(epoch.forward for epoch in part)),
        ]
        for kind in kinds:
            base = [e.forward if kind == first else e.statistics[first] for e in part]
            own = [epoch.statistics[kind] for epoch in part]
            ratios = [after / before for after, before in zip(own, base, strict=True)]
            texts += [written(mean(own)), f"{mean(ratios):.2f}"]
        cells.append(tuple(map(Cell, texts)))
    return Table("Statistics of an epoch", tuple(header), tuple(cells))


def scale_tables(points: Sequence[ScalePoint]) -> list[Table]:
    """Make a table of growth per factor, with exponents in its last row."""
    tables = []
    for factor in dict.fromkeys(point.factor for point in points):
        part = [point for point in points if point.factor == factor]
        rows = [
            (f"{point.value:,}", *(written(seconds) for seconds in _times(point))) for point in part
        ]
        values = [point.value for point in part]
        fits = [exponent(values, column) for column in zip(*map(_times, part), strict=True)]
        if None not in fits:
            rows.append(("exponent", *(f"{fit:.2f}".replace("-", "−") for fit in fits)))
        cells = tuple(tuple(map(Cell, row)) for row in rows)
        header = (LABELS.get(factor, factor), "statistics", "LP", "both")
        tables.append(Table(f"Growth with {factor}", header, cells))
    return tables


def _times(point: ScalePoint) -> tuple[float, float, float]:
    return point.statistics, point.lp, point.statistics + point.lp


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
