from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from cli_outcome import Cli
from faircil_lab.bench import models, moments
from faircil_lab.bench.audits import System, counts_of, measure_coverage
from faircil_lab.bench.models import ModelCost, TableWorkload
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
    assert "device 'cuda' is not available" in outcome.err


def test_the_command_for_a_gpu_writes_its_page(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(
        "bench", "moments-gpu", "--widths", "30", "--rows", "400", "--embeddings", "300",
        "--inputs", "6", "--device", "cpu",
    )  # fmt: skip
    assert outcome.code == 0
    assert "400 rows, 30 features: fitting " in outcome.err
    assert "Embeddings from the host's memory" in outcome.out
    assert (tmp_path / "bench" / "moments-gpu" / "page.md").is_file()


SMALL = ("bench", "audit", "--audits", "2", "--sizes", "15", "--groups", "3", "--draws", "100")


def test_audit_command(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*SMALL, "--page", "page.md")
    assert outcome.code == 0
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "faircil bench audit --audits 2 --sizes 15 --groups 3 --draws 100" in page
    for title in ("Coverage, 3 groups, evenly spread", "Gate errors", "False alarms"):
        assert title in page
    assert "3 groups of 15, gap 0.2, shift: mean coverage" in outcome.err


def test_sizes_of_audits_that_make_no_sense_are_told_together(cli: Cli) -> None:
    outcome = cli("bench", "audit", "--audits", "0", "--groups", "1", "--classes", "1")
    assert outcome.code == 2
    assert len(outcome.err.strip().splitlines()) == 4


def test_processes_change_no_figure() -> None:
    audited = [System(2, 2, 15, 0.2)]  # one, as every process takes a second to start
    alone, apart = (list(measure_coverage(audited, 2, 100, 0, jobs)) for jobs in (1, 2))
    assert alone == apart


@pytest.mark.parametrize("pattern", ["one", "shift", "spread"])
def test_true_values_are_known(pattern: str) -> None:
    system = System(3, 4, 30, 0.2, pattern)
    assert system.shares.sum(axis=(1, 2)) == pytest.approx(np.ones(4))
    truth = system.truth()
    assert truth["eo_gap"] == pytest.approx(0.2, abs=1e-6)
    fair = System(3, 4, 30, 0.0, pattern).truth()
    assert all(fair[name] < 1e-6 for name in ("eo", "eo_worst", "dp", "eer", "accuracy_gap"))
    counts = system.sample(np.random.default_rng(0))
    assert counts.samples.sum() == 3 * 4 * 30
    assert counts_of(np.array([[[3, 1], [0, 2]]])).hits.tolist() == [[3], [2]]


def test_forecasts_are_scored_and_written(cli: Cli, tmp_path: Path) -> None:
    words = ("--dataset", "toy", "--methods", "er", "finetune", "--seeds", "0")
    settings = ("--set", "epochs=1", "hidden=8", "--out", str(tmp_path / "bench"))
    outcome = cli("bench", "forecast", *words, *settings)
    assert outcome.code == 0, outcome.err
    with (tmp_path / "bench" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    # Two old groups: they are ranked rightly or the other way round.
    assert all(abs(float(row["end"])) == pytest.approx(1) for row in rows)
    assert "| toy | the same training again |" in (tmp_path / "bench" / "page.md").read_text()
    page = (tmp_path / "bench" / "page.md").read_text()
    assert "| toy | rehearsal |" in page
    assert "±" not in page.partition("## Method")[2]  # a single seed has no deviation


def test_unknown_names_are_told_at_once(cli: Cli) -> None:
    outcome = cli("bench", "forecast", "--dataset", "toyy", "--methods", "err", "--seeds", "x")
    assert outcome.code == 2
    for part in ("did you mean 'toy'", "unknown method 'err'", "--seeds 'x'"):
        assert part in outcome.err


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
