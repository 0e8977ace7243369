"""Time things side by side: the machine, the clock, and what every benchmark leaves behind."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from faircil.errors import FaircilError

Case = TypeVar("Case")
Found = TypeVar("Found")

CPU_INFO = Path("/proc/cpuinfo")
BUSY = 0.75  # of the cores


def described(environment: Mapping[str, Any]) -> str:
    """Name processor, cores, versions and, where there is one, the GPU."""
    packages = environment["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in ("numpy", "highspy", "torch"))
    parts = [_processor() or str(environment["processor"]), f"{os.cpu_count()} cores"]
    if environment["gpu"]:
        parts.append(str(environment["gpu"]))
    return f"{', '.join(parts)}; Python {environment['python']}, {versions}"


def busy() -> list[str]:
    """Return a note if other programs take the processor, so that times would be too long."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= BUSY * cores:
        return []
    return [
        f"Other programs were running at the start (load {load:.1f} on {cores} cores): the times "
        "are too long; measure again on an idle machine"
    ]


def _processor() -> str | None:
    """Return the name of the processor where Linux reports it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", CPU_INFO.read_text("utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None


def seconds_of(function: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def medians(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Time functions in turns, so that whatever else the machine does meets all of them alike.

    Parameters
    ----------
    functions : mapping
        By name; each is called once to warm up and then ``repeats`` times.
    repeats : int

    Returns
    -------
    dict
        Median of the seconds, by name.
    """
    rounds = [
        {name: seconds_of(function) for name, function in functions.items()}
        for _ in range(repeats + 1)
    ]
    return {name: median(seconds[name] for seconds in rounds[1:]) for name in functions}


def in_processes(
    measured: Callable[[Case], Found], cases: Sequence[Case], jobs: int
) -> Iterator[Found]:
    """Measure cases that have nothing in common, ``jobs`` at a time, in their order.

    A case has its own seed, so that the number of processes changes no figure.
    """
    workers = min(jobs, len(cases))
    if workers < 2:
        yield from map(measured, cases)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        try:
            yield from pool.map(measured, cases)
        except BrokenProcessPool:
            raise FaircilError(
                "a process died before it had measured its case; if memory ran out, use fewer "
                "`jobs`"
            ) from None


@dataclass(frozen=True)
class Growth:
    """Seconds as a power of the size: ``seconds · (n / size) ** exponent``."""

    size: float
    seconds: float
    exponent: float

    def at(self, n: float) -> float:
        """Return the seconds at size ``n``."""
        return self.seconds * math.pow(n / self.size, self.exponent)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Fit ``seconds ~ size ** exponent`` by least squares of logarithms; None for one size.

    Examples
    --------
    >>> round(exponent([10, 100, 1000], [0.1, 1.0, 10.0]), 6)
    1.0
    """
    if len(set(sizes)) < 2:
        return None
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """How, and on what machine, a benchmark was made.

    Parameters
    ----------
    command : str
        To measure again, as the page shows it.
    environment : mapping
        The machine, see :func:`faircil.results.record.environment`.
    notes : tuple of str
        What a reader should know.
    complete : bool
        Whether nothing interrupted it.
    """

    command: str
    environment: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    complete: bool = True

    def described(self) -> dict[str, Any]:
        """Return this as the head of ``results.json``."""
        return {
            "command": self.command,
            "complete": self.complete,
            "environment": dict(self.environment),
            "notes": list(self.notes),
        }
