from __future__ import annotations

from pathlib import Path

import pytest

import faircil
from faircil.results.identity import code_digest, environment


def test_environment_says_what_is_needed_to_run_again() -> None:
    found = environment("faircil run --dataset toy", "cpu")
    assert found["command"] == "faircil run --dataset toy"
    assert found["faircil"] == faircil.__version__
    assert found["device"] == "cpu"
    assert found["gpu"] is None
    assert all(found["packages"].values())


def test_digest_depends_on_code_that_computes_not_on_code_that_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faircil, "__file__", str(tmp_path / "__init__.py"))

    def digest(name: str, content: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        code_digest.cache_clear()
        return code_digest()

    first = digest("experiment.py", "1")
    assert digest("cli/run.py", "2") == digest("report/table.py", "3") == first
    settings = digest("settings.toml", "4")
    assert settings != first
    assert digest("experiment.py", "5") not in (first, settings)
    code_digest.cache_clear()
