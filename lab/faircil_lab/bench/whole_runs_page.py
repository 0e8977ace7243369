"""The benchmark of whole runs: tables, pictures and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from statistics import mean, median
from typing import Any

from matplotlib.figure import Figure

from faircil.report import Table, as_markdown
from faircil.report.plots import COLOURS, MARKERS
from faircil.results.record import Seconds
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.epoch_costs import FORWARD, LABELS
from faircil_lab.bench.measuring import exponent
from faircil_lab.bench.whole_runs import (
    REFERENCE,
    EpochCost,
    EpochWorkload,
    RunCost,
    RunOutcome,
    RunResults,
    ScalePoint,
)
from faircil_lab.wording import percent, seconds_text


@dataclass(frozen=True)
class MethodCost:
    """A method on a dataset, medians over repeats.

    Parameters
    ----------
    dataset, method : str
    repeats : int
    seconds : Seconds
    ratio : float or None
        Total time against the reference, where that was measured.
    lp_share : float
        Of the total time.
    memory : float or None
        Peak in GiB.
    """

    dataset: str
    method: str
    repeats: int
    seconds: Seconds
    ratio: float | None
    lp_share: float
    memory: float | None


def summarise_runs(runs: Sequence[RunCost]) -> list[MethodCost]:
    """Return a row per dataset and method, in the order measured."""
    parts: dict[tuple[str, str], list[RunCost]] = {}
    for run in runs:
        parts.setdefault((run.dataset, run.method), []).append(run)
    seconds = {key: _medians([run.seconds for run in part]) for key, part in parts.items()}
    rows = []
    for (dataset, method), part in parts.items():
        own, reference = seconds[dataset, method], seconds.get((dataset, REFERENCE))
        memory = [run.memory for run in part if run.memory is not None]
        rows.append(
            MethodCost(
                dataset,
                method,
                len(part),
                own,
                own.total / reference.total if reference else None,
                own.lp / own.total,
                median(memory) if memory else None,
            )
        )
    return rows


def _medians(parts: Sequence[Seconds]) -> Seconds:
    columns = [asdict(part) for part in parts]
    return Seconds(**{name: median(column[name] for column in columns) for name in columns[0]})


def run_tables(runs: Sequence[RunCost]) -> list[Table]:
    """Make a table of whole runs per dataset, a row per method."""
    rows = summarise_runs(runs)
    split = tuple(f"{field.name}, s" for field in fields(Seconds))
    header = ("method", *split, f"against {REFERENCE}", "LP share", "peak memory")
    return [
        table_of(dataset, header, (_run_texts(row) for row in rows if row.dataset == dataset))
        for dataset in dict.fromkeys(row.dataset for row in rows)
    ]


def _run_texts(row: MethodCost) -> tuple[str, ...]:
    return (
        row.method,
        *(f"{seconds:.2f}" for seconds in astuple(row.seconds)),
        "–" if row.ratio is None else f"{row.ratio:.2f}",
        percent(row.lp_share, 1),
        "–" if row.memory is None else f"{row.memory:.2f} GiB",
    )


def epoch_table(epochs: Sequence[EpochCost]) -> Table:
    """Make a table of statistics against a forward pass, a row per dataset: means over tasks."""
    kinds = tuple(epochs[0].statistics)
    first = kinds[0]
    header = ["dataset", "tasks", "samples", "groups", FORWARD]
    for kind in kinds:
        header += [kind, f"against {FORWARD if kind == first else first}"]
    rows = []
    for dataset in dict.fromkeys(epoch.dataset for epoch in epochs):
        part = [epoch for epoch in epochs if epoch.dataset == dataset]
        texts = [
            dataset,
            _span([epoch.task for epoch in part]),
            f"{mean(epoch.samples for epoch in part):,.0f}",
            _span([epoch.groups for epoch in part]),
            seconds_text(mean(epoch.forward for epoch in part)),
        ]
        for kind in kinds:
            base = [e.forward if kind == first else e.statistics[first] for e in part]
            own = [epoch.statistics[kind] for epoch in part]
            ratios = [after / before for after, before in zip(own, base, strict=True)]
            texts += [seconds_text(mean(own)), f"{mean(ratios):.2f}"]
        rows.append(texts)
    return table_of("Statistics of an epoch", header, rows)


def scale_tables(points: Sequence[ScalePoint]) -> list[Table]:
    """Make a table of growth per factor, with exponents in its last row."""
    tables = []
    for factor in dict.fromkeys(point.factor for point in points):
        part = [point for point in points if point.factor == factor]
        rows = [
            (f"{point.value:,}", *(seconds_text(seconds) for seconds in _times(point)))
            for point in part
        ]
        values = [point.value for point in part]
        fits = [exponent(values, column) for column in zip(*map(_times, part), strict=True)]
        if None not in fits:
            rows.append(("exponent", *(f"{fit:.2f}".replace("-", "−") for fit in fits)))
        header = (LABELS.get(factor, factor), "statistics", "LP", "both")
        tables.append(table_of(f"Growth with {factor}", header, rows))
    return tables


def _times(point: ScalePoint) -> tuple[float, float, float]:
    return point.statistics, point.lp, point.statistics + point.lp


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


PARTS = tuple(field.name for field in fields(Seconds) if field.name != "total")


def time_split(rows: Sequence[MethodCost]) -> Figure:
    """Draw a bar per method, split into what the time went to, one panel per dataset."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    height = 1.0 + sum(0.4 + 0.35 * sum(row.dataset == name for row in rows) for name in datasets)
    figure = Figure(figsize=(7.2, height), layout="constrained")
    panels = figure.subplots(len(datasets), 1, squeeze=False)[:, 0]
    for axes, dataset in zip(panels, datasets, strict=True):
        part = [row for row in rows if row.dataset == dataset]
        left = [0.0] * len(part)
        for name, colour in zip(PARTS, COLOURS, strict=False):
            widths = [getattr(row.seconds, name) for row in part]
            axes.barh([row.method for row in part], widths, left=left, color=colour, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_title(dataset, fontsize=11, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    panels[-1].set_xlabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def growth(points: Sequence[ScalePoint]) -> Figure:
    """Draw the time of an epoch's weights against each factor, both logarithmic."""
    factors = list(dict.fromkeys(point.factor for point in points))
    figure = Figure(figsize=(1.2 + 3.0 * len(factors), 3.6), layout="constrained")
    figure.suptitle("weights of one epoch, generated data")
    panels = figure.subplots(1, len(factors), squeeze=False, sharey=True)[0]
    for axes, factor in zip(panels, factors, strict=True):
        part = [point for point in points if point.factor == factor]
        values = [point.value for point in part]
        for position, (name, label) in enumerate((("statistics", "statistics"), ("lp", "LP"))):
            axes.plot(
                values,
                [getattr(point, name) for point in part],
                label=label,
                color=COLOURS[position],
                marker=MARKERS[position],
                lw=1.8,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
        axes.set_xlabel(LABELS.get(factor, factor))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


SPLIT, GROWTH = "split", "growth"  # names of the pictures
RUNS = """
## Whole runs

Settings are the shipped ones except for those in the command; seed 0, each run in its own process,
methods in turns; median of {repeats}. *Gradient* is the statistics of the groups, *LP share* the
part of the linear program in the total. Peak memory is of the whole process.

![where the time goes]({picture})
"""
EPOCHS = """
## Statistics of an epoch

Group losses, group gradients and the alignment of all samples of a task, against one forward pass
without gradients over the same samples; medians, in turns; means over tasks, on a fresh net.

{table}"""
SCALE = """
## Growth, on generated data

The weights of one epoch, statistics and linear program, by sample, measure `eo`. The data is drawn
from normal clusters: {base.samples:,} samples of two new classes, {base.classes} classes in all,
{base.groups} groups per class, {base.features} features, and one of these varied at a time. The net
is an MLP 256-256 that was briefly trained on the buffer.

![growth]({picture})
"""


def _text(results: RunResults, pictures: Mapping[str, str]) -> str:
    text = ""
    if results.runs:
        text += RUNS.format(repeats=results.repeats, picture=pictures[SPLIT])
        text += sections(run_tables(results.runs), level=3)
    if results.epochs:
        text += EPOCHS.format(table=as_markdown(epoch_table(results.epochs)))
    if results.points:
        text += SCALE.format(base=EpochWorkload(), picture=pictures[GROWTH])
        text += sections(scale_tables(results.points), level=3)
    return text


def _document(results: RunResults) -> dict[str, Any]:
    return {
        "repeats": results.repeats,
        "summary": [asdict(row) for row in summarise_runs(results.runs)],
        "runs": [asdict(run) for run in results.runs],
        "epochs": [asdict(epoch) for epoch in results.epochs],
        "growth": [asdict(point) for point in results.points],
    }


def _figures(results: RunResults) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    if results.runs:
        figures[SPLIT] = time_split(summarise_runs(results.runs))
    if results.points:
        figures[GROWTH] = growth(results.points)
    return figures


def _tables(results: RunResults) -> list[Table]:
    epochs = [epoch_table(results.epochs)] if results.epochs else []
    return [*run_tables(results.runs), *epochs, *scale_tables(results.points)]


COLUMNS = ("part", "name", "case", "number", "quantity", "value")  # of results.csv


def _rows(results: RunResults) -> Iterator[dict[str, Any]]:
    """Yield the values: the part, a dataset or factor, a method or kind of statistics, …."""

    def row(*values: Any) -> dict[str, Any]:
        return dict(zip(COLUMNS, values, strict=True))

    for run in results.runs:
        values = asdict(run.seconds) | {"memory_gib": run.memory, "accuracy": run.accuracy}
        for quantity, value in values.items():
            yield row("run", run.dataset, run.method, run.repeat, quantity, value)
    for epoch in results.epochs:
        for case, value in {FORWARD: epoch.forward, **epoch.statistics}.items():
            yield row("statistics", epoch.dataset, case, epoch.task, "seconds", value)
    for point in results.points:
        for quantity in ("statistics", "lp"):
            value = getattr(point, quantity)
            yield row("growth", point.factor, "generated", point.value, quantity, value)


def _line(outcome: RunOutcome) -> str:
    if isinstance(outcome, RunCost):
        total, lp = seconds_text(outcome.seconds.total), seconds_text(outcome.seconds.lp)
        return f"{outcome.dataset} {outcome.method}, run {outcome.repeat}: {total}, LP {lp}"
    if isinstance(outcome, EpochCost):
        kinds = (f"{name} {seconds_text(value)}" for name, value in outcome.statistics.items())
        return (
            f"{outcome.dataset} task {outcome.task}: forward {seconds_text(outcome.forward)}, "
            f"statistics by {', '.join(kinds)}"
        )
    return (
        f"{outcome.value:,} {outcome.factor}: statistics {seconds_text(outcome.statistics)}, "
        f"LP {seconds_text(outcome.lp)}"
    )


RUN_TIMES = Benchmark[RunResults](
    title="Time of a run",
    line=_line,
    document=_document,
    rows=_rows,
    tables=_tables,
    figures=_figures,
    text=_text,
    besides=lambda results: f"; {results.environment['threads']} threads",
)
