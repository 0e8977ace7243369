from __future__ import annotations

from pathlib import Path

import pytest

from cli_outcome import Cli
from faircil_lab.bench import models
from faircil_lab.bench.models import ModelCost, TableWorkload


def test_tables_are_measured_and_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TableWorkload] = []

    def measure(workloads: list[TableWorkload]) -> list[ModelCost]:
        asked.extend(workloads)
        return [ModelCost(one, "`fit`", one.rows, 0.5) for one in workloads]

    monkeypatch.setattr(models, "measure_models", measure)
    out = str(tmp_path / "bench")
    outcome = cli("bench", "models", "--tables", "200x4", "300x6:er", "--out", out)
    assert outcome.code == 0, outcome.err
    assert asked == [TableWorkload(200, 4), TableWorkload(300, 6, method="er")]
    assert "300 rows of 6 columns, method er" in (tmp_path / "bench" / "page.md").read_text()


def test_sizes_that_are_none_are_named_at_once(cli: Cli) -> None:
    outcome = cli("bench", "models", "--tables", "50x3", "many", "--later", "0")
    assert outcome.code == 2
    assert outcome.err.count("expected rows and columns such as 50000x14") == 2
    assert "--later is 0" in outcome.err
