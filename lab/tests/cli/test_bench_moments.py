from __future__ import annotations

from pathlib import Path

import pytest

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
