from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a command leaves: its exit code and what it printed."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
Person = dict[str, object]
WriteTable = Callable[..., str]
