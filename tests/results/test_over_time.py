from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faircil.errors import DataError
from faircil.metrics import METRICS, evaluate, forgetting
from faircil.results.folder import read_run, write_run
from faircil.results.over_time import (
    Timeline,
    advantages,
    bias_transfers,
    group_accuracies,
    lost_since_best,
    metric_matrix,
    read_timeline,
    timeline_of,
)
from run_results import make_result

TASKS = (("a", "b"), ("c",), ("d", "e", "f"))
VALUES = ("x", "y", None)
nan = np.nan


def made(attribute: bool = True, seed: int = 0) -> list[dict[str, Any]]:
    """Predictions after each of three tasks; some values are unknown, one group is absent."""
    draw = np.random.default_rng(seed)
    after = []
    for tasks in range(1, 4):
        rows = [(name, place) for place in range(tasks) for name in TASKS[place] for _ in range(12)]
        seen = [name for task in TASKS[:tasks] for name in task]
        truth = [name for name, _ in rows]
        guessed = [name if draw.random() < 0.6 else str(draw.choice(seen)) for name in truth]
        part: dict[str, Any] = {
            "y_true": truth,
            "y_pred": guessed,
            "task": [t + 1 for _, t in rows],
        }
        if attribute:
            values = draw.integers(0, 3, len(rows))
            part["sensitive"] = [
                "x" if name == "f" else VALUES[v] for name, v in zip(truth, values, strict=True)
            ]
        after.append(part)
    return after


@pytest.mark.parametrize("attribute", [True, False])
@pytest.mark.parametrize("metric", [name for name in METRICS if name != "forgetting"])
def test_matrix_is_the_metric_of_the_rows_of_a_task(metric: str, attribute: bool) -> None:
    after = made(attribute)
    favoured = ["a", "d"]
    matrix = metric_matrix(timeline_of(after, favoured), metric)
    for row, part in enumerate(after):
        for column in range(3):
            own = [place for place, task in enumerate(part["task"]) if task == column + 1]
            expected = nan
            if own:
                columns = {name: [values[place] for place in own] for name, values in part.items()}
                value = evaluate(**columns, favoured=favoured).values[metric]
                expected = nan if value is None else value
            np.testing.assert_allclose(matrix[row, column], expected, rtol=1e-15)


def test_mean_loss_of_accuracy_is_forgetting() -> None:
    matrix = metric_matrix(timeline_of(made()), "accuracy")
    lost = lost_since_best(matrix)
    assert np.isnan(lost[-1])
    assert np.nanmean(lost) == pytest.approx(forgetting(matrix), rel=1e-15)


def test_fairness_forgetting_is_the_rise_over_the_smallest_disparity() -> None:
    gaps = [[0.3, nan, nan], [0.1, 0.2, nan], [0.4, 0.05, 0.0]]
    lost = lost_since_best(gaps, higher_is_better=False)
    np.testing.assert_allclose(lost, [0.3, -0.15, nan], rtol=1e-12)


def test_a_single_evaluation_has_lost_nothing_that_can_be_told() -> None:
    assert np.isnan(lost_since_best([[0.5, 0.6]])).all()


def test_groups_by_a_loop() -> None:
    after = made()
    timeline = timeline_of(after)
    found = group_accuracies(timeline)
    assert found.shape == (3, 6, 2)
    for row, part in enumerate(after):
        columns = (part["y_true"], part["y_pred"], part["sensitive"])
        for place, label in enumerate(timeline.classes):
            for number, value in enumerate(("x", "y")):
                own = [
                    guess == truth
                    for truth, guess, z in zip(*columns, strict=True)
                    if (truth, z) == (label, value)
                ]
                expected = np.mean(own) if own else nan
                np.testing.assert_allclose(found[row, place, number], expected, rtol=1e-15)


def test_classes_are_in_the_order_of_their_tasks() -> None:
    after = [
        {"y_true": ["z"], "y_pred": ["z"], "task": [1]},
        {"y_true": ["z", "b"], "y_pred": ["z", "other"], "task": [1, 2]},
    ]
    timeline = timeline_of(after)
    assert list(timeline.classes) == ["z", "b", "other"]
    assert timeline.task_of.tolist() == [0, 1, -1]
    assert not timeline.by_attribute


def test_a_class_in_two_tasks_is_named() -> None:
    part = {"y_true": ["a", "a"], "y_pred": ["a", "a"], "task": [1, 2]}
    with pytest.raises(DataError, match="class a is in tasks 1, 2; put it in one"):
        timeline_of([part])


def test_bias_that_carries_over_deepens_and_turns() -> None:
    # Value 0 is ahead by .1 in the first class; learning the second makes it .2, and there it is
    # ahead by .05. In the third, the value that is then ahead in both old classes is behind.
    accuracies = np.full((3, 3, 2), nan)
    accuracies[0, 0] = [0.9, 0.7]
    accuracies[1, :2] = [[0.8, 0.4], [0.7, 0.6]]
    accuracies[2] = [[0.8, 0.4], [0.7, 0.6], [0.3, 0.5]]
    second, third = bias_transfers(accuracies, np.array([0, 1, 2]))
    assert (second.task, second.value) == (1, 0)
    np.testing.assert_allclose([second.before, second.old, second.new], [0.1, 0.2, 0.05])
    np.testing.assert_allclose([third.before, third.old, third.new], [0.125, 0.125, -0.1])


def test_no_bias_to_follow_without_two_values() -> None:
    accuracies = np.array([[[0.9], [nan]], [[0.8], [0.7]]])
    assert bias_transfers(accuracies, np.array([0, 1])) == []
    assert np.isnan(advantages(accuracies[0])).all()


def test_predictions_of_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(), {})
    timeline: Timeline = read_timeline(read_run(tmp_path / "seed-0"))
    assert list(timeline.classes) == ["a", "b", "c"]
    matrix = metric_matrix(timeline, "accuracy")
    np.testing.assert_allclose(matrix, make_result().accuracy_matrix)


def test_altered_predictions_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(), {})
    run = read_run(tmp_path / "seed-0")
    with (tmp_path / "seed-0/predictions.csv").open("a") as file:
        file.write("2,2,c,c,0.5,F\n")
    with pytest.raises(DataError, match="was altered after it was written: predictions"):
        read_timeline(run)


def test_a_run_on_validation_data_keeps_no_predictions(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(evaluate_on="validation"), {})
    with pytest.raises(DataError, match="keeps no predictions"):
        read_timeline(read_run(tmp_path / "seed-0"))
