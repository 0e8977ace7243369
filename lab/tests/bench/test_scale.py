from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench_results import ENVIRONMENT
from faircil.cli import main
from faircil_lab.bench import scale
from faircil_lab.bench.scale import (
    ALONE,
    ONE_THREAD,
    SCALE,
    ScaleCost,
    ScaleResults,
    ScaleWork,
    measure_scale,
    write_table,
)

WORK = ScaleWork(rows=600, inputs=3, width=20, workers=(), rival=200)


def results(*costs: ScaleCost) -> ScaleResults:
    return ScaleResults(
        costs,
        WORK,
        command="faircil bench scale",
        environment=ENVIRONMENT,
    )


def test_the_table_does_not_depend_on_how_many_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "FILE_ROWS", 250)
    found = {}
    for cores in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        folder = tmp_path / str(cores)
        folder.mkdir()
        size = write_table(WORK, folder)
        assert size == sum(path.stat().st_size for path in folder.iterdir())
        found[cores] = pd.read_parquet(folder)
    assert len(found[1]) == WORK.rows
    pd.testing.assert_frame_equal(found[1], found[2])


def test_whole_commands_are_measured_and_one_has_a_single_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {}

    def here(
        command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], float]:
        if "faircil" in command:
            assert not main(command[3:])
            seen[command[command.index("-o") + 1]] = dict(variables or {})
        return {}, 1.0

    monkeypatch.setattr(scale, "outcome_of", here)
    monkeypatch.setattr(scale, "_ways", lambda _: [(ALONE, ()), (ONE_THREAD, ())])
    costs = {cost.way: cost for cost in measure_scale(WORK)}
    assert costs[ALONE].tensors == costs[ONE_THREAD].tensors
    assert list(seen.values()) == [{}, {"OMP_NUM_THREADS": "1"}]
    assert costs["pandas and RidgeClassifier"].rows == WORK.rival
    assert (costs["merging 20 sites"].error or 1) < 1e-12


def test_the_page_compares_workers_with_one_of_them_and_dask_with_processes() -> None:
    found = results(
        ScaleCost(ALONE, 600, 3.0, 0.5, "tensors-abc"),
        ScaleCost(ONE_THREAD, 600, 12.0, 0.5, "tensors-abc"),
        ScaleCost("4 processes", 600, 4.0, 0.5, "tensors-abc"),
        ScaleCost("Dask, 4 workers", 600, 5.0, 0.5, "tensors-abc"),
    )
    findings = SCALE.findings(found)
    assert len(json.loads(json.dumps(findings.document))["ways"]) == 4
    text = findings.page({})
    assert "All 4 ways of faircil give the same tensors, to the bit." in text
    assert "4 processes, one thread each: 3.00 times as fast as one of them." in text
    assert "Dask, 4 workers: +25% of the time of 4 processes" in text
    other = SCALE.findings(results(*found.outcomes[:3], ScaleCost("x", 600, 1.0, 1.0, "tensors-d")))
    assert "**The ways give 2 different tensors.**" in other.page({})
    rival = ScaleCost("pandas and RidgeClassifier", 300, 3.0)  # on a system that hides memory
    against = SCALE.findings(results(found.outcomes[0], rival)).page({})
    assert "2.00 times as many rows a second" in against
    assert "which holds 300 rows.\n" in against
    alone = SCALE.findings(results(found.outcomes[0])).page({})
    assert "same tensors" not in alone  # there is nothing to compare it with
