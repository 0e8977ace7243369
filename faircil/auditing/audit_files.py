"""Audits on disk: the ``audit.json`` written by ``faircil audit -o DIR``, and reading it.

Files are validated when read, since they may come from anywhere.
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
    """A stored condition of a gate, with its decision."""

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
    """A stored gate."""

    decision: str
    exit_code: int
    checks: tuple[KeptCheck, ...]


@dataclass(frozen=True)
class KeptReport:
    """Stored findings of an audit."""

    file: str
    n: int
    draws: int
    findings: tuple[Finding, ...]
    groups: tuple[Rate, ...]
    notes: tuple[str, ...]

    @property
    def report(self) -> Report:
        """The report with these findings."""
        return Report(self.n, self.draws, self.findings, self.groups, self.notes)


@dataclass(frozen=True)
class KeptBefore(KeptReport):
    """An earlier audit, with the gaps levelled down since then."""

    levelled_down: tuple[LevelledDown, ...]


@dataclass(frozen=True)
class KeptAudit(KeptReport):
    """The content of an ``audit.json``.

    Parameters
    ----------
    file : str
        The audited file.
    gate : KeptGate or None
    against : KeptBefore or None
    command : str
        The command that produced it.
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
    """Return an audit as a JSON document.

    Parameters
    ----------
    file : object
        The audited file; stored as text.
    command : str
        The command that produced it.
    report : Report
    gate : Gate, optional
    before : tuple of file, Report and the gaps levelled down since then, optional
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
    """Return whether a path refers to an audit: a JSON file, or a folder with one."""
    return path.suffix.lower() == ".json" or (path / KEPT).is_file()


def read_audit(path: Path) -> KeptAudit:
    """Read an audit written by ``faircil audit``.

    Raises
    ------
    DataError
        If it does not exist or is not an audit.
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
    """Describe the first invalid place in a document."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _tuples(value: Any) -> Any:
    """Convert lists to tuples: labels of intersections are tuples, which JSON does not support."""
    if isinstance(value, dict):
        return {key: _tuples(one) for key, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
