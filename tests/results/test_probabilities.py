from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faircil.errors import DataError
from faircil.files import write_checksums
from faircil.metrics import evaluate
from faircil.postprocess.tasks import TaskProbabilities, measured_gap
from faircil.results.folder import write_run
from faircil.results.processed import process_run
from faircil.results.record import RunResult, RunSummary
from faircil.results.run_files import PARTS, read_probabilities
from run_results import make_result


def with_probabilities(result: RunResult) -> RunResult:
    """Add probabilities whose largest gives the predictions of the result."""
    kept = []
    for predictions in result.predictions:
        classes = np.unique(predictions.y_true)
        test = np.ones((len(predictions.y_true), len(classes)))
        test[np.arange(len(test)), np.searchsorted(classes, predictions.y_pred)] = 1.1
        test /= test.sum(axis=1, keepdims=True)
        pool = np.random.default_rng(0).dirichlet(np.arange(len(classes)) + 1.0, 40)
        pool[::2] = pool[
            ::2, ::-1
        ]  # the last class is frequent in one group, the first in the other
        z, counts = np.arange(40) % 2, np.array([20, 20])
        p_test, p_pool = test.astype(np.float32), pool.astype(np.float32)
        kept.append(TaskProbabilities(classes, p_test, p_pool, z, np.ones(40), z[:2], counts))
    return replace(result, probabilities=tuple(kept))


@pytest.fixture
def saved(tmp_path: Path) -> tuple[RunResult, RunSummary]:
    result = with_probabilities(make_result())
    return result, write_run(tmp_path / "seed-0", result, {})


def test_what_is_written_is_read_back(saved: tuple[RunResult, RunSummary]) -> None:
    result, run = saved
    tasks = read_probabilities(run)
    assert len(tasks) == 2
    for number, task in enumerate(tasks):
        for name in PARTS:
            mine = getattr(task.probabilities, name)
            other = getattr(result.probabilities[number], name)
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
        predictions = result.predictions[number]
        assert task.y_true.tolist() == predictions.y_true.tolist()
        assert predictions.sensitive is not None
        assert task.sensitive.tolist() == predictions.sensitive.tolist()
        assert task.task.tolist() == predictions.task.tolist()


def test_a_run_is_processed_as_its_metrics_were_made(
    saved: tuple[RunResult, RunSummary],
) -> None:
    result, run = saved
    plain, free, equal = process_run(run, [1.0, 0.0])
    assert plain.metrics == free.metrics == result.averages()
    assert [part.epsilon for part in (plain, free, equal)] == [None, 1.0, 0.0]
    gaps = [
        measured_gap(p.y_pred, p.sensitive) for p in result.predictions if p.sensitive is not None
    ]
    assert plain.largest_gap == pytest.approx(np.mean(gaps))
    assert equal.metrics != plain.metrics
    assert [note for note in equal.notes if "sampling error" in note] == [equal.notes[-1]]


def test_favoured_classes_are_known_again_by_name(tmp_path: Path) -> None:
    result = with_probabilities(make_result())
    name = result.names.classes[0]
    per_task = [
        evaluate(p.y_true, p.y_pred, task=p.task, sensitive=p.sensitive, favoured=[0])
        for p in result.predictions
    ]
    config = {**result.config, "favoured": [name]}
    run = write_run(tmp_path / "seed-0", replace(result, config=config), {})
    (plain,) = process_run(run, [])
    assert plain.metrics["eopp_gap"] == pytest.approx(np.mean([t.eopp_gap for t in per_task]))


def test_runs_without_probabilities_say_why(tmp_path: Path) -> None:
    run = write_run(tmp_path / "seed-0", make_result(), {})
    with pytest.raises(DataError, match="method 'er' keeps no buffer to fit on"):
        read_probabilities(run)
    trial = write_run(tmp_path / "seed-2", make_result(2, evaluate_on="validation"), {})
    with pytest.raises(DataError, match="evaluated on validation data"):
        read_probabilities(trial)
    alone = write_run(tmp_path / "seed-1", make_result(attribute=False), {})
    with pytest.raises(DataError, match="no sensitive attribute with two values"):
        read_probabilities(alone)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"some text"])
def test_a_damaged_file(saved: tuple[RunResult, RunSummary], content: bytes) -> None:
    _, run = saved
    (Path(run.dir) / "probabilities.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"was altered after it was written: probabilities.npz"):
        read_probabilities(run)
    (Path(run.dir) / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match="has no readable SHA256SUMS"):
        read_probabilities(run)
    write_checksums(Path(run.dir))
    with pytest.raises(DataError, match="is damaged"):
        read_probabilities(run)


def test_a_file_that_was_removed_is_named(saved: tuple[RunResult, RunSummary]) -> None:
    _, run = saved
    (Path(run.dir) / "probabilities.npz").unlink()
    with pytest.raises(DataError, match=r"lacks probabilities\.npz"):
        read_probabilities(run)


def test_averages_do_not_depend_on_the_folder(saved: tuple[RunResult, RunSummary]) -> None:
    result, run = saved
    last = result.predictions[-1]
    expected = evaluate(last.y_true, last.y_pred, task=last.task, sensitive=last.sensitive)
    assert run.per_task[-1]["dp"] == expected.dp
