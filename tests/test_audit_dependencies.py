"""An audit of dependencies that looked nothing up says so, and does not pass for one."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from scripts import script_module

FILE = Path(__file__).resolve().parent.parent / ".ci" / "audit_dependencies.py"
FINE = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}, {"id": "GHSA-2"}]}
UNKNOWN = {"name": "c", "skip_reason": "not found on PyPI"}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    return script_module(FILE)


@pytest.mark.parametrize(
    ("packages", "sentence", "code"),
    [
        ([FINE], "1 packages looked up, none with a known vulnerability", 0),
        ([FINE, UNKNOWN], "vulnerability; 1 could not be looked up", 0),
        ([FINE, BAD, UNKNOWN], "- b 2: PYSEC-1\n- b 2: GHSA-2", 1),
        ([UNKNOWN, UNKNOWN], "SKIPPED: the service knows none of the 2 packages", 0),
        ([], "SKIPPED", 0),
    ],
)
def test_outcomes(audit: ModuleType, packages: list[object], sentence: str, code: int) -> None:
    said, found = audit.told(json.dumps({"dependencies": packages}), "No known vulnerabilities")
    assert sentence in said
    assert found == code


def test_without_an_answer_it_is_skipped(audit: ModuleType) -> None:
    said, code = audit.told("", "Traceback …\nConnectionError: no route")
    assert said == "audit of dependencies SKIPPED: pip-audit failed: ConnectionError: no route"
    assert code == 0
    assert audit.PINNED.is_file()
