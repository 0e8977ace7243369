from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cli_outcome import Cli
from faircil_lab.bench import moments
from faircil_lab.bench.moments import LearningCost, MomentsWorkload

LEARNED = LearningCost(MomentsWorkload(3, 2, 20, 12), 0.5, 1.5, 7, 0.25, 0.5)


def test_command(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "measure_learning", lambda _: iter([LEARNED]))
    outcome = cli(
        "bench", "moments", "--classes", "3", "--width", "12", "--learned", "100",
        "--removed", "10", "--repeats", "1",
    )  # fmt: skip
    assert outcome.code == 0
    assert "Removal" in outcome.out
    assert "10 of 100 rows at width 12: removal " in outcome.err
    assert (tmp_path / "bench" / "moments" / "page.md").is_file()


def test_sizes_that_make_no_sense_are_told_together(cli: Cli) -> None:
    outcome = cli("bench", "moments", "--classes", "1", "--width", "0", "--removed", "40000")
    assert outcome.code == 2
    assert "--classes is 1, expected at least 2" in outcome.err
    assert "--width is 0, expected at least 1" in outcome.err
    assert (
        "--removed is 40000, 3 times and once to warm up: expected less than 60,000" in outcome.err
    )


def test_a_gpu_that_is_not_there_and_sizes_are_told_together(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    outcome = cli(
        "bench", "moments-gpu", "--widths", "1", "--rows", "10", "--embeddings", "-1",
    )  # fmt: skip
    assert outcome.code == 2
    assert "--widths is 1, expected at least 2" in outcome.err
    assert "--rows is 10, expected at least 200" in outcome.err
    assert "--embeddings is -1, expected at least 200" in outcome.err
    assert "device 'cuda' is not there" in outcome.err


def test_the_command_for_a_gpu_writes_its_page(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(
        "bench", "moments-gpu", "--widths", "30", "--rows", "400", "--embeddings", "300",
        "--inputs", "6", "--device", "cpu",
    )  # fmt: skip
    assert outcome.code == 0
    assert "400 rows, 30 features: fitting " in outcome.err
    assert "Embeddings from the host's memory" in outcome.out
    assert (tmp_path / "bench" / "moments-gpu" / "page.md").is_file()
