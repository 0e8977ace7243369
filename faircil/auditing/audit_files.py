"""Audits on disk: what ``faircil audit -o DIR`` keeps as ``audit.json``, and reading it back.

What is read is checked: the file may have come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from faircil.auditing.findings import Finding, LevelledDown, Rate, Report, Scope
from faircil.auditing.gate import Gate
from faircil.errors import DataError

KEPT, KEPT_PAGE = "audit.json", "audit.md"


@dataclass(frozen=True)
class KeptCheck:
    """A condition of a gate and what became of it, as it was kept."""

    condition: str
    measure: str
    scope: Scope
    limit: float
    value: float | None
    low: float | None
    high: float | None
    decision: str
    verdict: str


@dataclass(frozen=True)
class KeptGate:
    """A gate as it was kept."""

    decision: str
    exit_code: int
    checks: tuple[KeptCheck, ...]


@dataclass(frozen=True)
class KeptReport:
    """The findings of an audit as they were kept."""

    file: str
    n: int
    draws: int
    findings: tuple[Finding, ...]
    groups: tuple[Rate, ...]
    notes: tuple[str, ...]

    @property
    def report(self) -> Report:
        """The report that they are of."""
        return Report(self.n, self.draws, self.findings, self.groups, self.notes)


@dataclass(frozen=True)
class KeptBefore(KeptReport):
    """An earlier audit, and what has been levelled down since."""

    levelled_down: tuple[LevelledDown, ...]


@dataclass(frozen=True)
class KeptAudit(KeptReport):
    """An audit as ``audit.json`` has it.

    Parameters
    ----------
    file : str
        What was audited.
    gate : KeptGate or None
    against : KeptBefore or None
    command : str
        That made it.
    """

    gate: KeptGate | None = None
    against: KeptBefore | None = None
    command: str = ""


_AUDIT = TypeAdapter(KeptAudit)


def audit_document(
    file: object,
    command: str,
    report: Report,
    gate: Gate | None = None,
    before: tuple[object, Report, Sequence[LevelledDown]] | None = None,
) -> dict[str, Any]:
    """Return an audit for JSON.

    Parameters
    ----------
    file : object
        What was audited, as text.
    command : str
        That made it.
    report : Report
    gate : Gate, optional
    before : tuple of file, Report and what was levelled down since, optional
        An earlier audit.
    """
    against = None
    if before is not None:
        old, found, levelled = before
        against = {"file": str(old), **found.as_dict()}
        against["levelled_down"] = [one.as_dict() for one in levelled]
    return {
        "file": str(file),
        "command": command,
        **report.as_dict(),
        "gate": None if gate is None else gate.as_dict(),
        "against": against,
    }


def is_audit(path: Path) -> bool:
    """Return whether a path is meant to be an audit: a JSON file, or a folder with one."""
    return path.suffix.lower() == ".json" or (path / KEPT).is_file()


def read_audit(path: Path) -> KeptAudit:
    """Read an audit that ``faircil audit`` has kept.

    Raises
    ------
    DataError
        If it is not there, or no audit.
    """
    file = path / KEPT if path.is_dir() else path
    try:
        content = json.loads(file.read_text("utf-8"))
        return _AUDIT.validate_python(_tuples(content))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        lines = _faults(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{file} is not an audit written by faircil ({lines}); make one with "
            "faircil audit TABLE -o DIR"
        ) from None


def _faults(error: ValidationError) -> str:
    """Say where a document is wrong, in the first place."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _tuples(value: Any) -> Any:
    """Make tuples of lists: labels of an intersection are tuples, which JSON has not."""
    if isinstance(value, dict):
        return {key: _tuples(one) for key, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
