from __future__ import annotations

from pathlib import Path

import pytest

from bench_results import ENVIRONMENT
from faircil_lab.bench import measuring


@pytest.mark.parametrize(
    ("content", "name"), [("model name\t: Fast 9000\n", "Fast 9000"), ("other\n", "x86")]
)
def test_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, name: str
) -> None:
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(measuring, "CPU_INFO", tmp_path / "cpuinfo")
    assert measuring.described(ENVIRONMENT).startswith(f"{name}, ")


def test_gpu_is_named_and_a_system_without_cpuinfo_is_fine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measuring, "CPU_INFO", tmp_path / "absent")
    text = measuring.described(ENVIRONMENT | {"gpu": "H200"})
    assert text.startswith("x86, ")
    assert text.endswith("H200; Python 3.11, numpy 2, highspy 1, torch 3")


@pytest.mark.parametrize(("load", "notes"), [(0.1, 0), (100.0, 1)])
def test_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch, load: float, notes: int) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    found = measuring.busy()
    assert len(found) == notes
    assert all("load 100.0 on 2 cores" in note for note in found)
