from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import faircil
from faircil.results.record import (
    RunSummary,
    as_document,
    environment,
    over_seeds,
    spread,
    summarise_run,
)
from run_results import make_result


def test_accuracy_matrix_has_no_value_for_tasks_to_come() -> None:
    np.testing.assert_array_equal(make_result().accuracy_matrix, [[1, np.nan], [0.75, 1]])


def test_metrics_after_each_task() -> None:
    first, second = (make_result().after_task(position) for position in range(2))
    assert first["forgetting"] is None
    assert second["forgetting"] == 0.25
    assert second["eo_gap"] == pytest.approx(1 / 3)


def test_averages_are_over_tasks_but_forgetting_is_at_the_end() -> None:
    averages = make_result().averages()
    assert averages["accuracy"] == pytest.approx((1 + 0.875) / 2)
    assert averages["eo_gap"] == pytest.approx(1 / 6)
    assert averages["forgetting"] == 0.25


def test_metric_that_never_applies_has_no_average() -> None:
    assert make_result(attribute=False).averages()["eo"] is None


def test_environment_says_what_is_needed_to_run_again() -> None:
    found = environment("faircil run --dataset toy", "cpu")
    assert found["command"] == "faircil run --dataset toy"
    assert found["faircil"] == faircil.__version__
    assert found["device"] == "cpu"
    assert found["gpu"] is None
    assert all(found["packages"].values())


def summary(seed: int, accuracy: float, eo: float | None = None) -> RunSummary:
    made = summarise_run(make_result(seed), Path("somewhere"), code="code")
    return replace(made, metrics={**made.metrics, "accuracy": accuracy, "eo": eo})


def test_spread() -> None:
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert spread([1.0]) == (1.0, None)
    assert spread([1.0, None]) == (None, None)
    assert spread([]) == (None, None)


def test_over_seeds() -> None:
    means, deviations = over_seeds([summary(0, 0.5, eo=0.1), summary(1, 0.7)])
    assert means["accuracy"] == pytest.approx(0.6)
    assert deviations["accuracy"] == pytest.approx(0.02**0.5)
    assert (means["eo"], deviations["eo"]) == (None, None)
    assert means["seconds"]["total"] == pytest.approx(1.1)
    assert deviations["seconds"]["total"] == pytest.approx(0)


def test_groups_have_names_sizes_and_whether_they_are_too_small() -> None:
    (run,) = as_document([summary(0, 0.5)])["runs"]
    assert run["groups"][1] == {
        "label": "a", "attribute": "M", "n": 1, "accuracy": 0.0, "too_small": True,
    }  # fmt: skip
    without = summarise_run(make_result(attribute=False), Path("somewhere"), code="code")
    assert without.groups is not None
    assert [(group.label, group.attribute, group.n) for group in without.groups] == [
        ("a", None, 2), ("b", None, 2), ("c", None, 2),
    ]  # fmt: skip


def test_final_accuracy_is_that_after_the_last_task() -> None:
    made = summarise_run(make_result(), Path("somewhere"), code="code")
    assert made.metrics["accuracy"] == pytest.approx((1 + 0.875) / 2)
    assert made.value("final_accuracy") == made.metrics["final_accuracy"] == 0.875
    earlier = replace(made, metrics={"accuracy": 0.9375})
    assert earlier.value("final_accuracy") == 0.875
    assert earlier.value("worst_group") is None


def test_document_has_runs_mean_and_std() -> None:
    document = as_document([summary(0, 0.5)])
    assert document["runs"][0]["dir"] == "somewhere"
    assert document["mean"]["accuracy"] == 0.5
    assert document["std"]["accuracy"] is None
    assert "config" not in document["runs"][0]
