from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli_outcome import Cli
from faircil_lab.bench.audits import System, counts_of, measure_coverage

SMALL = ("bench", "audit", "--audits", "2", "--sizes", "15", "--groups", "3", "--draws", "100")


def test_command(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*SMALL, "--page", "page.md")
    assert outcome.code == 0
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "faircil bench audit --audits 2 --sizes 15 --groups 3 --draws 100" in page
    for title in ("Coverage, 3 groups, evenly spread", "Gate errors", "False alarms"):
        assert title in page
    assert "3 groups of 15, gap 0.2, shift: mean coverage" in outcome.err


def test_sizes_that_make_no_sense_are_told_together(cli: Cli) -> None:
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
