"""Accuracy and disparity after each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faircil.report import format_value
from faircil.report.statistics import holm, paired
from faircil.results.record import spread
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import LEVEL
from faircil_lab.paper.comparison import ranks
from faircil_lab.paper.contenders import (
    CONTENDERS,
    DARK,
    FSW,
    RANDOM,
    REPLAY,
    Entry,
    LineUp,
    Settings,
    commands,
    missing,
    notes_of,
)
from faircil_lab.paper.drawing import (
    EMPHASIS,
    REFERENCE,
    Line,
    LinePanel,
    Style,
    draw_lines,
    make_line,
    style_of,
    write_png,
)
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Picture, Results, Section
from faircil_lab.paper.metrics import METRICS, TARGETS, Target

WHEN = ("after the last task", "mean over tasks")
ABOUT = (
    "DRUG is shown but not counted in sentences: its test data is too small to rank methods. A "
    "method with a diverged seed is not compared."
)
RIVALS = (REPLAY.name, RANDOM.name, DARK.name)


@dataclass(frozen=True)
class Sequential:
    """The course of accuracy and disparity, method by method."""

    title: str = "Accuracy and disparity after each task"
    paper: str = "Figs. 13 to 20"
    settings: Settings = "tuned"
    seeds: tuple[int, ...] = SEEDS

    @property
    def line_up(self) -> LineUp:
        """The runs of the tables of accuracy and disparity."""
        return LineUp(CONTENDERS, TARGETS, self.settings, self.seeds)

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        return self.line_up.requests()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs, with the settings that were chosen."""
        return self.line_up.works(tuned)

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        found = {target: self.line_up.entries(target, results) for target in TARGETS}
        sections = [_section(target, entries) for target, entries in found.items()]
        findings = [_against(rival, found) for rival in RIVALS]
        notes = Section("How to read it", "\n\n".join([ABOUT, *notes_of(CONTENDERS)]))
        return Page(_answer(found), (notes, *sections), findings=tuple(filter(None, findings)))


def _section(target: Target, entries: Sequence[Entry]) -> Section:
    there = [entry for entry in entries if entry.runs]
    if not there:
        return Section(target.title, missing(entries), commands=commands(entries))
    picture = Picture(
        f"sequential-{target.file}.png",
        "Mean over seeds with its 95 % interval. Above: the methods of the paper, in grey its "
        "bounds. Below: FSW again, with replay alone, the controls, and ours.",
        lambda path: _draw(target, there, path),
    )
    header = ("method", *(f"{m}, {w}" for w in WHEN for m in ("accuracy", target.metric)))
    rows = [(entry.contender.name, *_values(entry, target.metric)) for entry in there]
    table = Grid(header, tuple(rows))
    return Section(target.title, missing(entries), table, picture, commands(there))


def _values(entry: Entry, metric: str) -> list[str]:
    last = [spread([run.per_task[-1][name] for run in entry.runs]) for name in ("accuracy", metric)]
    mean = [spread([run.metrics[name] for run in entry.runs]) for name in ("accuracy", metric)]
    return [format_value(*value) for value in (*last, *mean)]


def _draw(target: Target, entries: Sequence[Entry], path: Path) -> None:
    """Draw the paper's methods above, and below FSW with those that the paper lacks."""
    above = [entry for entry in entries if entry.contender.in_paper]
    below = [entry for entry in entries if not entry.contender.in_paper or entry.contender == FSW]
    metrics = ("accuracy", target.metric)
    rows = [
        [
            LinePanel(METRICS[metric].axis_title, "after task", _lines(part, metric))
            for metric in metrics
        ]
        for part in (above, below)
        if part
    ]
    write_png(draw_lines(rows, target.title), path)


def _lines(entries: Sequence[Entry], metric: str) -> tuple[Line, ...]:
    lines, number = [], 0
    for entry in entries:
        if entry.contender == FSW:
            style = Style(EMPHASIS, "o", width=2.6)
        elif entry.is_bound:
            style = Style(REFERENCE, "", "--" if entry.contender.method == "joint" else ":")
        else:
            style, number = style_of(number), number + 1
        tasks = tuple(float(task) for task in range(1, len(entry.runs[0].per_task) + 1))
        values = [
            [run.per_task[position][metric] for run in entry.runs] for position in range(len(tasks))
        ]
        lines.append(make_line(entry.contender.name, style, tasks, values))
    return tuple(lines)


def _answer(found: Mapping[Target, Sequence[Entry]]) -> str:
    """Say how often FSW ends significantly better than replay."""
    shown = [target for target, entries in found.items() if any(e.runs for e in entries)]
    if not shown:
        return "Not run yet."
    text = f"Shown for {len(shown)} of {len(found)} pairs of dataset and measure."
    return f"{text} {_against(REPLAY.name, found)}".strip()


def _against(rival: str, found: Mapping[Target, Sequence[Entry]]) -> str:
    differences: list[float] = []
    p_values: list[float] = []
    diverged = 0
    for target, entries in found.items():
        if not ranks(target):
            continue
        by_name = {entry.name: entry for entry in entries}
        ours, theirs = by_name[FSW.name], by_name[rival]
        if ours.diverged or theirs.diverged:
            diverged += 1
            continue
        compared = paired(_last(ours, target), _last(theirs, target))
        if compared.difference is not None and compared.p_value is not None:
            differences.append(compared.difference)
            p_values.append(compared.p_value)
    if not differences:
        return ""
    sure = [d for d, p in zip(differences, holm(p_values), strict=True) if p <= LEVEL]
    less, more, n = sum(d < 0 for d in sure), sum(d > 0 for d in sure), len(differences)
    lost = f"; not compared on {diverged}, where a seed diverged" if diverged else ""
    return (
        f"Against {rival}, the disparity of FSW after the last task is smaller on {less} of {n} "
        f"panels, larger on {more}, not significantly different on {n - len(sure)}{lost}."
    )


def _last(entry: Entry, target: Target) -> dict[int, float]:
    """Return the disparity after the last task by seed."""
    values = {run.seed: run.per_task[-1][target.metric] for run in entry.runs}
    return {seed: value for seed, value in values.items() if value is not None}
