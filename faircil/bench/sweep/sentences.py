"""What a benchmark of sweeps found, in sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from faircil.bench.sweep.summary import CaseSummary
from faircil.bench.sweep.tables import digits, part_name, percent
from faircil.bench.timing import written

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
                "were busy. Measure again on a quiet machine.**"
            )


def _speed(row: CaseSummary, first: CaseSummary) -> str:
    text = f"{row.runs} runs in {written(row.wall)}, {digits(row.rate)} runs per second"
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
    around = ", ".join(f"{percent(getattr(shares, part))} {part_name(part)}" for part in most)
    return (
        f"{percent(shares.runs)} of the time is the runs themselves, {around}; with nothing but "
        f"the runs it would be {shares.total / shares.runs:.2f} times as fast."
    )
