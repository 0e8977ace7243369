"""ε-fair post-processing of continual learners: the paper's table, and what parity costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from faircil.reproduction.contenders import CONTENDERS, FSW, REPLAY
from faircil.reproduction.exhibit import SEEDS, Results
from faircil.reproduction.exhibits.cost_curves import Curve, curve_section
from faircil.reproduction.exhibits.tables import DP_NOTE, columns
from faircil.reproduction.layout import Column, Line, Pair, Row
from faircil.reproduction.measurements.store import measured
from faircil.reproduction.page import Page
from faircil.reproduction.processing import processing_of
from faircil.reproduction.table import Table
from faircil.reproduction.table_page import table_page
from faircil.results.summary import RunSummary, Values
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest

EPSILONS = (0.0, 0.01, 0.05, 0.1)
HELD_OUT = 32
PUBLISHED = ("icarl", "wa", "clad", "gss", "ocs", "fsw")
CURVES = ("er", "fsw", "icarl", "wa", "der++")
AFTER, ON_BUFFER = "{}, ε-fair", "{}, ε-fair fitted on the buffer"
ABOUT = (
    f"{DP_NOTE} The paper does not say its ε; beside its rows stand ours with ε = 0, the "
    f"strictest. The rule is fitted on {HELD_OUT} samples of each group that are kept from "
    "training, and once on the buffer, of which the net is too sure. It needs the attribute of "
    "every test sample, which on Biased MNIST is made from the label."
)
METHODS = tuple(
    Row(contender, contender.method if contender.method in PUBLISHED else None)
    for contender in CONTENDERS
    if contender.method in (*PUBLISHED, *CURVES) and not contender.fixed and not contender.weighting
)
BASE = Table(
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
class EpsilonFair:
    """The paper's table of post-processing, and curves of accuracy against disparity."""

    settings: Literal["tuned", "shipped"] = "shipped"
    seeds: tuple[int, ...] = SEEDS
    title: str = BASE.title

    @property
    def paper(self) -> str:
        """Where it is in the paper."""
        return BASE.paper

    @property
    def _tables(self) -> tuple[Table, Table]:
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
        lines: dict[Column, list[Line]] = {}
        curves: dict[Column, list[Curve]] = {}
        for column in base.columns:
            lines[column], curves[column] = [], []
            for line in base.lines(column, results):
                before, *after = _processed(line, results)
                lines[column] += [replace(line, runs=before), _after(line, after[0], AFTER)]
                if line.row.contender.method in CURVES and before:
                    curves[column].append(Curve(line.row.contender.name, (before, *after)))
            for line in buffer.lines(column, results):
                lines[column].append(_after(line, _processed(line, results)[1], ON_BUFFER))
        rows = tuple(line.row for line in lines[base.columns[0]])
        page = table_page(replace(base, rows=rows), lines)
        drawn = tuple(
            curve_section(column.target, some, EPSILONS) for column, some in curves.items() if some
        )
        return replace(page, sections=(*page.sections, *drawn))


def _after(line: Line, runs: tuple[RunSummary, ...], name: str) -> Line:
    """Return the line after post-processing with ε = 0, and its command."""
    row, contender = line.row, line.row.contender
    published = f"{row.published} eps-fair" if row.published and name == AFTER else None
    renamed = Row(replace(contender, name=name.format(contender.name)), published)
    command = f"{line.command} --postprocess eps-fair --epsilon 0"
    return replace(line, row=renamed, runs=runs, command=command)


def _processed(line: Line, results: Results) -> ByEpsilon:
    """Return the runs of a line as each ε makes them; a run without probabilities has none."""
    found = [(run, _metrics(run, results)) for run in line.runs]
    return [
        tuple(replace(run, metrics=metrics[position]) for run, metrics in found if metrics)
        for position in range(len(EPSILONS) + 1)
    ]


def _metrics(run: RunSummary, results: Results) -> Sequence[Values]:
    """Return the metrics without post-processing, then with each ε; nothing where that fails."""
    values = measured(processing_of(run, EPSILONS), results.root, any_code=results.any_code).values
    return values.metrics if values else ()
