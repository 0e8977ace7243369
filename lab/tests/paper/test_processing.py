from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.folder import write_run
from faircil.results.processed import process_run
from faircil.results.record import RunResult, RunSummary
from faircil_lab.paper import epsilon_fair
from faircil_lab.paper.epsilon_fair import processing_of
from faircil_lab.paper.store import file_of, measured
from run_results import make_result


def with_probabilities() -> RunResult:
    result, kept = make_result(), []
    generator = np.random.default_rng(0)
    for predictions in result.predictions:
        classes = np.unique(predictions.y_true)
        test, pool = (
            generator.dirichlet(np.ones(len(classes)), size).astype(np.float32)
            for size in (len(predictions.y_true), 40)
        )
        z, counts = np.arange(40) % 2, np.array([20, 20])
        kept.append(TaskProbabilities(classes, test, pool, z, np.ones(40), z[:2], counts))
    return replace(result, probabilities=tuple(kept))


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    return write_run(tmp_path / "run" / "seed-0", with_probabilities(), {})


def test_it_is_what_post_processing_gives_and_kept(run: RunSummary, tmp_path: Path, monkeypatch):
    values = measured(processing_of(run, (0.0, 0.1)), tmp_path).values
    expected = [dict(one.metrics) for one in process_run(run, (0.0, 0.1))]
    assert values is not None
    assert list(values.metrics) == expected
    monkeypatch.setattr(epsilon_fair, "process_run", None)  # would fail if it were called
    again = measured(processing_of(run, (0.0, 0.1)), tmp_path).values
    assert again == values


def test_other_epsilons_or_another_run_are_another_measurement(run: RunSummary, tmp_path: Path):
    first = file_of(processing_of(run, (0.0,)), tmp_path)
    assert first != file_of(processing_of(run, (0.1,)), tmp_path)
    other = write_run(tmp_path / "other" / "seed-0", make_result(), {})
    assert first != file_of(processing_of(other, (0.0,)), tmp_path)


def test_a_run_that_is_moved_without_its_probabilities_keeps_what_was_measured(
    run: RunSummary, tmp_path: Path
):
    values = measured(processing_of(run, (0.0,)), tmp_path).values
    moved = Path(run.dir).rename(tmp_path / "moved")
    (moved / "probabilities.npz").unlink()
    again = measured(processing_of(replace(run, dir=str(moved)), (0.0,)), tmp_path).values
    assert again == values is not None


def test_altered_probabilities_are_not_measured(run: RunSummary, tmp_path: Path):
    (Path(run.dir) / "probabilities.npz").write_bytes(b"other")
    found = measured(processing_of(run, (0.0,)), tmp_path)
    assert found.values is None
    assert "altered" in (found.problem or "")


def test_a_run_without_probabilities_has_a_problem(tmp_path: Path):
    run = write_run(tmp_path / "run" / "seed-0", make_result(), {})
    found = measured(processing_of(run, (0.0,)), tmp_path)
    assert found.values is None
    assert "cannot be post-processed" in (found.problem or "")
