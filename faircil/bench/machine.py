"""The machine, in a line for people, and whether others are busy on it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        f"Other programs were busy when this began (load {load:.1f} on {cores} cores): times are "
        "too long, measure again on a quiet machine"
    ]


def _processor() -> str | None:
    """Return the name of the processor where Linux tells it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", CPU_INFO.read_text("utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None
