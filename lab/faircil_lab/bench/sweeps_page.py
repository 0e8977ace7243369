"""The benchmark of sweeps: tables, sentences, picture and page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from matplotlib.figure import Figure

from faircil.report import Table
from faircil.report.plots import COLOURS
from faircil_lab.bench.benchmark import (
    BarPart,
    Benchmark,
    items,
    sections,
    split_bars,
    table_of,
)
from faircil_lab.bench.sweeps import PARTS, Processes, SweepCost, SweepResults, TimeParts, summed
from faircil_lab.wording import percent, seconds_text, three_digits


@dataclass(frozen=True)
class CaseSummary:
    """A number of processes, over repeats.

    Parameters
    ----------
    case : Processes
    repeats, runs, processes : int
    wall : float
        Median of the seconds.
    rate : float
        Runs per second.
    speedup : float
        Rate against that of the first case.
    shares : TimeParts
        Of the time of all processes, mean over repeats; together 1.
    cores : float
        That a process had while it worked, mean over repeats.
    """

    case: Processes
    repeats: int
    runs: int
    processes: int
    wall: float
    rate: float
    speedup: float
    shares: TimeParts
    cores: float

    @property
    def per_run(self) -> TimeParts:
        """Seconds that a process has for a run: shorter is better, however many there are."""
        return self.shares.times(self.processes * self.wall / self.runs)


def summarise_sweeps(costs: Sequence[SweepCost]) -> list[CaseSummary]:
    """Return a row per case, in the order measured."""
    parts: dict[Processes, list[SweepCost]] = {}
    for cost in costs:
        parts.setdefault(cost.case, []).append(cost)
    rates = {case: part[0].runs / _wall(part) for case, part in parts.items()}
    return [
        CaseSummary(
            case,
            len(part),
            part[0].runs,
            part[0].processes,
            _wall(part),
            rates[case],
            rates[case] / rates[costs[0].case],
            _shares(part),
            mean(cost.cores for cost in part),
        )
        for case, part in parts.items()
    ]


def _wall(costs: Sequence[SweepCost]) -> float:
    return median(cost.wall for cost in costs)


def _shares(costs: Sequence[SweepCost]) -> TimeParts:
    return summed([cost.parts.times(1 / cost.parts.total / len(costs)) for cost in costs])


# Where the name of a part is too short.
WORDS = {"load": "load data", "rest": "all else", "idle": "idle at the end"}


def sweep_tables(rows: Sequence[CaseSummary]) -> list[Table]:
    """Make a table of speed and one of shares, a row per case."""
    speed = (
        "processes",
        "runs",
        "time",
        "runs per second",
        "against the first",
        "cores per process",
    )
    shares = ("processes", *(part_name(part) for part in PARTS))
    return [
        table_of("Speed", speed, map(_speed_texts, rows)),
        table_of("Shares of the time", shares, map(_share_texts, rows)),
    ]


def part_name(part: str) -> str:
    """Return what people call a part of the time."""
    return WORDS.get(part, part)


def _speed_texts(row: CaseSummary) -> tuple[str, ...]:
    texts = (row.case.name, str(row.runs), seconds_text(row.wall), three_digits(row.rate))
    return (*texts, f"{row.speedup:.2f}", f"{row.cores:.2f}")


def _share_texts(row: CaseSummary) -> tuple[str, ...]:
    return (row.case.name, *(percent(getattr(row.shares, part), 1) for part in PARTS))


IDLE = "#BBBBBB"  # nothing is done


def time_per_run(rows: Sequence[CaseSummary]) -> Figure:
    """Draw a bar per case: the time of a process for a run, split.

    Bars of equal length mean that twice as many processes finish twice as many runs.
    """
    layers = [
        BarPart(part_name(part), colour, [getattr(row.per_run, part) for row in rows])
        for part, colour in zip(PARTS, (*COLOURS, IDLE), strict=True)
    ]
    names = [row.case.name.replace(" and ", "\nand ") for row in rows]
    words = [f"{three_digits(row.rate)} runs per second" for row in rows]
    return split_bars(names, layers, words, "seconds of a process, per run")


AROUND = ("start", "load", "write", "rest", "idle")  # what is not the runs themselves
MENTIONED = 2
ENOUGH = 0.9  # of a core; a process that has less was disturbed


def sentences(rows: Sequence[CaseSummary]) -> Iterator[str]:
    """Say how fast each case is and what its time goes to, the fastest, and what was disturbed."""
    for row in rows:
        yield f"With {row.case.name}: {_speed(row, rows[0])} {_time(row)}"
    for row in rows[1:]:
        if row.processes > rows[0].processes:
            ratio = row.per_run.runs / rows[0].per_run.runs
            yield (
                f"With {row.case.name} a run itself (weights, training, evaluation) takes "
                f"{ratio:.2f} times as long as with {rows[0].case.name}."
            )
    if len(rows) > 1:
        yield f"The fastest: {max(rows, key=lambda row: row.rate).case.name}."
    for row in rows:
        if _is_disturbed(row):
            yield (
                f"**With {row.case.name} a process had {row.cores:.2f} of a core: other programs "
                "were running. Measure again on an idle machine.**"
            )


def _speed(row: CaseSummary, first: CaseSummary) -> str:
    text = f"{row.runs} runs in {seconds_text(row.wall)}, {three_digits(row.rate)} runs per second"
    if row is first:
        return f"{text}."
    return f"{text}, {row.speedup:.2f} times as many as with {first.case.name}."


def _is_disturbed(row: CaseSummary) -> bool:
    """Whether processes lacked cores though there were enough; one with a GPU waits for that."""
    enough = row.processes <= (os.cpu_count() or 1)
    return enough and not row.case.gpu_jobs and row.cores < ENOUGH


def _time(row: CaseSummary) -> str:
    shares = row.shares
    most = sorted(AROUND, key=lambda part: getattr(shares, part), reverse=True)[:MENTIONED]
    around = ", ".join(f"{percent(getattr(shares, part), 1)} {part_name(part)}" for part in most)
    return (
        f"{percent(shares.runs, 1)} of the time is the runs themselves, {around}; with nothing but "
        f"the runs it would be {shares.total / shares.runs:.2f} times as fast."
    )


PICTURE = "time"  # its name
FOUND = """
The same {runs} runs, on validation data, with each number of processes, in turns, in a new folder
each time; median of {repeats}.

{sentences}

![where the time of a process is spent, per run]({picture})

Bars of equal length mean that twice as many processes finish twice as many runs. *Cores per
process* is the processor time of a process while it worked: less than 1 where others competed,
or where it waited for a GPU.
"""
PARTS_TEXT = """
*Start* is the time until a process is ready for its first run: Python, imports, what torch loads
at first use, the context of a GPU. A single process on the CPU is that of the command, which has
already done most of this. *Load data* counts what is not in memory yet; a process keeps the data of
its last runs and prefers runs on it. *Weights* are the statistics of the groups and the linear
program. *Write* is the files of the runs, *idle at the end* the time from the last run of a process
to the end of the sweep, *all else* nets, buffers, locks and waiting for work.
"""


def _text(results: SweepResults, pictures: Mapping[str, str]) -> str:
    rows = summarise_sweeps(results.costs)
    text = FOUND.format(
        runs=len(results.works),
        repeats=max(row.repeats for row in rows),
        sentences=items(sentences(rows)),
        picture=pictures[PICTURE],
    )
    return text + sections(sweep_tables(rows)) + PARTS_TEXT


def _document(results: SweepResults) -> dict[str, Any]:
    rows = summarise_sweeps(results.costs)
    return {
        "runs": list(results.works),
        "summary": [{"name": row.case.name} | asdict(row) for row in rows],
        "sweeps": [asdict(cost) for cost in results.costs],
    }


def _rows(results: SweepResults) -> Iterator[dict[str, Any]]:
    """Yield wall time, runs, processes, and the parts of the time of all processes."""
    for cost in results.costs:
        values = {"wall": cost.wall, "runs": cost.runs, "processes": cost.processes}
        for quantity, value in (values | asdict(cost.parts)).items():
            case = {"case": cost.case.name, "repeat": cost.repeat}
            yield case | {"quantity": quantity, "value": value}


def _line(cost: SweepCost) -> str:
    time = seconds_text(cost.wall)
    return f"{cost.case.name}, round {cost.repeat}: {cost.runs} runs in {time}"


SWEEP_TIMES = Benchmark[SweepResults](
    title="Time of a sweep",
    line=_line,
    document=_document,
    rows=_rows,
    tables=lambda results: sweep_tables(summarise_sweeps(results.costs)),
    figures=lambda results: {PICTURE: time_per_run(summarise_sweeps(results.costs))},
    text=_text,
    sentences=lambda results: sentences(summarise_sweeps(results.costs)),
)
