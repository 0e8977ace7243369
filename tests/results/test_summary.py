from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.results.record import RunSummary, as_document, over_seeds, spread, summarise_run
from run_results import make_result


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
