"""ε-fair post-processing of continual learners: the paper's table, and what parity costs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.files import SUMS
from faircil.report import format_value
from faircil.report.plots import COLOURS, MARKERS
from faircil.results.folder import read_run
from faircil.results.processed import process_run
from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import Column, Pair
from faircil_lab.paper.contenders import CONTENDERS, FSW, REPLAY, Entry, Settings
from faircil_lab.paper.drawing import write_png
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section
from faircil_lab.paper.metrics import METRICS, Target
from faircil_lab.paper.store import Measured, Measurement, measured, problem_of
from faircil_lab.paper.table import ComparisonTable, TableRow, table_page
from faircil_lab.paper.tables import DP_NOTE, columns


@dataclass(frozen=True)
class Processed:
    """All metrics of a run without post-processing, then with each ε."""

    metrics: tuple[dict[str, float | None], ...]


@dataclass(frozen=True)
class Processing(Measurement[Processed]):
    """A run and the ε to try.

    Parameters
    ----------
    folder : str
        Of the run; it may be moved.
    content : str
        SHA-256 of the run's list of checksums: other files, another measurement.
    epsilons : tuple of float
    """

    name: ClassVar[str] = "epsilon-fair"
    values: ClassVar[type[Processed]] = Processed

    folder: str
    content: str
    epsilons: tuple[float, ...]

    def identity(self) -> dict[str, Any]:
        """Return what was in the run and the ε, wherever the run is kept."""
        return {"content": self.content, "epsilons": self.epsilons}

    def compute(self) -> Processed:
        """Post-process the run; DataError where it has no probabilities."""
        found = process_run(read_run(Path(self.folder)), self.epsilons)
        return Processed(tuple(dict(one.metrics) for one in found))


def processing_of(run: RunSummary, epsilons: tuple[float, ...]) -> Processing:
    """Return the measurement of a finished run."""
    file = Path(run.dir) / SUMS
    content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return Processing(run.dir, content, epsilons)


@dataclass(frozen=True)
class CurveByEpsilon:
    """A method: its runs without post-processing, then with each ε."""

    name: str
    runs: tuple[tuple[RunSummary, ...], ...]

    def means(self, metric: str) -> list[float]:
        """Return the mean over seeds, point by point."""
        return [fmean(METRICS[metric].by_seed(runs).values()) for runs in self.runs]


def curve_section(
    target: Target, curves: Sequence[CurveByEpsilon], epsilons: Sequence[float]
) -> Section:
    """Show accuracy / dp of every ε as a table and as a picture."""
    names = ("none", *(f"ε = {epsilon:g}".replace("0.", ".") for epsilon in epsilons))
    rows = tuple(
        (
            curve.name,
            *(
                f"{format_value(accuracy)} / {format_value(disparity)}"
                for accuracy, disparity in zip(
                    curve.means("accuracy"), curve.means("dp"), strict=True
                )
            ),
        )
        for curve in curves
    )
    picture = Picture(
        f"epsilon-fair-{target.file}.png",
        "Accuracy against demographic-parity disparity (`dp`), means over seeds. Hollow: without "
        f"post-processing; then, along the line, {', '.join(reversed(names[1:]))}.",
        lambda path: _draw(target, curves, path),
    )
    heading = f"The cost of parity on {target.title}: accuracy / dp"
    return Section(heading, table=Grid(("method", *names), rows), picture=picture)


def _draw(target: Target, curves: Sequence[CurveByEpsilon], path: Path) -> None:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(curves):
        _line(axes, curve, number)
    axes.set_title(f"The cost of parity on {target.title}", fontsize=11)
    axes.set_xlabel("demographic-parity disparity, dp (0 = fair)")
    axes.set_ylabel("accuracy (1 = best)")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    write_png(figure, path)


def _line(axes: Axes, curve: CurveByEpsilon, number: int) -> None:
    """Draw a curve from its hollow beginning to the strictest ε."""
    accuracy, disparity = curve.means("accuracy"), curve.means("dp")
    order = [0, *range(len(accuracy) - 1, 0, -1)]  # the loosest ε is next to none
    xs, ys = [disparity[i] for i in order], [accuracy[i] for i in order]
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    axes.plot(xs, ys, color=colour, marker=marker, lw=1.6, ms=6, label=curve.name)
    axes.plot(xs[:1], ys[:1], color=colour, marker=marker, ms=8, mfc="white", mew=1.6)


EPSILONS = (0.0, 0.01, 0.05, 0.1)
HELD_OUT = 32
PUBLISHED = ("icarl", "wa", "clad", "gss", "ocs", "fsw")
CURVES = ("er", "fsw", "icarl", "wa", "der++")
AFTER, ON_BUFFER = "{}, ε-fair", "{}, ε-fair fitted on the buffer"
ABOUT = (
    f"{DP_NOTE} The paper does not state its ε; its rows are compared with ours at ε = 0, the "
    f"strictest. The rule is fitted on {HELD_OUT} samples of each group that are held out of "
    "training, and once on the buffer, on which the net is overconfident. It needs the attribute "
    "of every test sample, which on Biased MNIST is derived from the label."
)
METHODS = tuple(
    TableRow(contender, contender.method if contender.method in PUBLISHED else None)
    for contender in CONTENDERS
    if contender.method in (*PUBLISHED, *CURVES) and not contender.fixed and not contender.weighting
)
BASE = ComparisonTable(
    "Post-processing to demographic parity (ε-fair)",
    "epsilon-fair",
    METHODS,
    columns("dp"),
    tuple(
        Pair(AFTER.format(contender.name), contender.name)
        for contender in sorted((r.contender for r in METHODS), key=lambda c: c != FSW)
    ),
    ABOUT,
    held_out=HELD_OUT,
)
BUFFER = replace(
    BASE,
    rows=tuple(row for row in METHODS if row.contender in (FSW, REPLAY)),
    held_out=0,
)
ByEpsilon = Sequence[tuple[RunSummary, ...]]  # without post-processing, then with each ε


@dataclass(frozen=True)
class EpsilonFairTable:
    """The paper's table of post-processing, and curves of accuracy against disparity."""

    settings: Settings = "shipped"
    seeds: tuple[int, ...] = SEEDS
    title: str = BASE.title

    @property
    def paper(self) -> str:
        """Where it is in the paper."""
        return BASE.paper

    @property
    def _tables(self) -> tuple[ComparisonTable, ComparisonTable]:
        return (
            replace(BASE, settings=self.settings, seeds=self.seeds),
            replace(BUFFER, settings=self.settings, seeds=self.seeds),
        )

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        return self._tables[0].requests()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs whose probabilities are post-processed."""
        return [work for table in self._tables for work in table.works(tuned)]

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs, post-processed here."""
        base, buffer = self._tables
        entries: dict[Column, list[Entry]] = {}
        curves: dict[Column, list[CurveByEpsilon]] = {}
        for column in base.columns:
            entries[column], curves[column] = [], []
            for finished in base.entries(column, results):
                entry, (before, *after) = _processed(finished, results)
                entries[column] += [replace(entry, runs=before), _after(entry, after[0], AFTER)]
                if entry.contender.method in CURVES and before:
                    curves[column].append(CurveByEpsilon(entry.name, (before, *after)))
            for finished in buffer.entries(column, results):
                entry, (_, strictest, *_) = _processed(finished, results)
                entries[column].append(_after(entry, strictest, ON_BUFFER))
        rows = tuple(TableRow(one.contender, one.published) for one in entries[base.columns[0]])
        page = table_page(replace(base, rows=rows), entries)
        drawn = tuple(
            curve_section(column.target, some, EPSILONS) for column, some in curves.items() if some
        )
        return replace(page, sections=(*page.sections, *drawn))


def _after(entry: Entry, runs: tuple[RunSummary, ...], name: str) -> Entry:
    """Return the entry after post-processing with ε = 0, and its command."""
    published = f"{entry.published} eps-fair" if entry.published and name == AFTER else None
    return replace(
        entry,
        contender=replace(entry.contender, name=name.format(entry.name)),
        published=published,
        runs=runs,
        command=f"{entry.command} --postprocess eps-fair --epsilon 0",
    )


def _processed(entry: Entry, results: Results) -> tuple[Entry, ByEpsilon]:
    """Return the runs of an entry as each ε makes them, and the entry, which says what failed."""
    found = [(run, _measured(run, results)) for run in entry.runs]
    by_epsilon = [
        tuple(replace(run, metrics=one.values.metrics[place]) for run, one in found if one.values)
        for place in range(len(EPSILONS) + 1)
    ]
    problem = entry.problem or problem_of([one for _, one in found])
    return replace(entry, problem=problem), by_epsilon


def _measured(run: RunSummary, results: Results) -> Measured[Processed]:
    """Return the metrics without post-processing, then with each ε, or why there are none."""
    return measured(processing_of(run, EPSILONS), results.root, any_code=results.any_code)
