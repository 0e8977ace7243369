"""What every benchmark leaves behind besides what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """How, and on what machine, a benchmark was made.

    Parameters
    ----------
    command : str
        To measure again, as the page shows it.
    environment : mapping
        The machine, see :func:`faircil.results.environment.environment`.
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
