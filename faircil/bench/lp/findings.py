"""A benchmark of solvers as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from faircil.bench.files import Findings
from faircil.bench.lp.page import page, tables
from faircil.bench.lp.plot import time_against_n
from faircil.bench.lp.published import CPLEX
from faircil.bench.lp.record import LpResults, Measurement
from faircil.bench.lp.summary import exponents, summarise

PICTURE = "time"


def lp_findings(results: LpResults) -> Findings:
    """Put document, rows, picture and page together; something must have been measured."""
    rows = summarise(results)
    document = {
        "command": results.command,
        "complete": results.complete,
        "options": asdict(results.options),
        "environment": dict(results.environment),
        "summary": [asdict(row) for row in rows],
        "exponents": exponents(rows),
        "measurements": [
            asdict(item) | {"median": item.median, "gap": item.gap} for item in results.measurements
        ],
        "skipped": [asdict(item) for item in results.skipped],
        "notes": list(results.notes),
        "published": {"cplex": asdict(CPLEX)},
    }
    return Findings(
        document,
        [_row(item) for item in results.measurements],
        tables(rows),
        {PICTURE: time_against_n(rows)},
        lambda pictures: page(results, pictures[PICTURE]),
    )


def _row(item: Measurement) -> dict[str, Any]:
    """One line of ``results.csv``."""
    values = asdict(item)
    seconds = values.pop("seconds")
    return values | {
        "gap": item.gap,
        "repeats": len(seconds),
        "median_seconds": item.median,
        "least_seconds": min(seconds),
        "most_seconds": max(seconds),
    }
