from __future__ import annotations

from pathlib import Path

import pytest
import torch

from faircil import compute
from faircil.compute import free_memory

CPU = torch.device("cpu")


def test_free_memory_is_known_on_this_machine() -> None:
    free = free_memory(CPU)
    assert free is None or free > 2**20


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 3 * 1024), ("2048", 2048), ("1000000", 3 * 1024)]
)
def test_a_container_may_have_less_than_the_machine(
    limit: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"MEMINFO": "MemTotal:   9 kB\nMemAvailable:    3 kB\n", "LIMIT": f"{limit}\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(compute, name, tmp_path / name)
    assert free_memory(CPU) == expected


def test_without_these_files_the_whole_memory_counts_or_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMINFO", "LIMIT"):
        monkeypatch.setattr(compute, name, tmp_path / name)
    monkeypatch.setattr(compute.os, "sysconf_names", {})
    assert free_memory(CPU) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_free_memory_of_a_gpu() -> None:
    assert (free_memory(torch.device("cuda")) or 0) > 2**20
