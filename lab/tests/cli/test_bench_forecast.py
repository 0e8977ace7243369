from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cli_outcome import Cli


def test_forecasts_are_scored_and_written(cli: Cli, tmp_path: Path) -> None:
    words = ("--dataset", "toy", "--methods", "er", "finetune", "--seeds", "0")
    settings = ("--set", "epochs=1", "hidden=8", "--out", str(tmp_path / "bench"))
    outcome = cli("bench", "forecast", *words, *settings)
    assert outcome.code == 0, outcome.err
    with (tmp_path / "bench" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    # Two old groups: they are ranked rightly or the other way round.
    assert all(abs(float(row["end"])) == pytest.approx(1) for row in rows)
    assert "| toy | rehearsal |" in (tmp_path / "bench" / "page.md").read_text()


def test_unknown_names_are_told_at_once(cli: Cli) -> None:
    outcome = cli("bench", "forecast", "--dataset", "toyy", "--methods", "err", "--seeds", "x")
    assert outcome.code == 2
    for part in ("did you mean 'toy'", "unknown method 'err'", "--seeds 'x'"):
        assert part in outcome.err
