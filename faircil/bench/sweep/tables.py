"""A benchmark of sweeps as tables."""

from __future__ import annotations

from collections.abc import Sequence

from faircil.bench.sweep.record import PARTS
from faircil.bench.sweep.summary import CaseSummary
from faircil.bench.timing import written
from faircil.report import Cell, Table

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
        Table("Speed", speed, tuple(_speed_cells(row) for row in rows)),
        Table("Shares of the time", shares, tuple(_share_cells(row) for row in rows)),
    ]


def part_name(part: str) -> str:
    """Return what people call a part of the time."""
    return WORDS.get(part, part)


def percent(share: float) -> str:
    """Write a share.

    Examples
    --------
    >>> percent(0.0712)
    '7.1 %'
    """
    return f"{100 * share:z.1f} %"


def digits(value: float) -> str:
    """Write a rate with three digits.

    Examples
    --------
    >>> digits(0.01234), digits(1.234), digits(123.4)
    ('0.0123', '1.23', '123')
    """
    return f"{value:#.3g}".rstrip(".")


def _speed_cells(row: CaseSummary) -> tuple[Cell, ...]:
    texts = (row.case.name, str(row.runs), written(row.wall), digits(row.rate))
    return tuple(map(Cell, (*texts, f"{row.speedup:.2f}", f"{row.cores:.2f}")))


def _share_cells(row: CaseSummary) -> tuple[Cell, ...]:
    texts = (percent(getattr(row.shares, part)) for part in PARTS)
    return tuple(map(Cell, (row.case.name, *texts)))
