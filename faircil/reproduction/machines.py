"""On what machines runs were made, as their ``environment.json`` says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faircil.errors import DataError
from faircil.reproduction.page import Grid, Section
from faircil.results.files import read_json
from faircil.results.summary import RunSummary

HEADER = ("runs", "processor", "GPU", "threads", "torch", "code")


def machines_section(runs: Sequence[RunSummary]) -> Section:
    """Say where runs were made, and how many of them."""
    counts: dict[tuple[str, ...], int] = {}
    for folder in dict.fromkeys(run.dir for run in runs):
        machine = _machine(Path(folder))
        counts[machine] = counts.get(machine, 0) + 1
    rows = tuple((str(count), *machine) for machine, count in sorted(counts.items()))
    return Section("Machines", table=Grid(HEADER, rows), on_terminal=False)


def _machine(folder: Path) -> tuple[str, ...]:
    try:
        found: dict[str, Any] = read_json(folder / "environment.json")
    except DataError:
        return ("not known",) * (len(HEADER) - 1)
    names = ("processor", "gpu", "threads")
    versions = found.get("packages", {}).get("torch"), found.get("code")
    return tuple(str(v or "–") for v in (*(found.get(name) for name in names), *versions))
