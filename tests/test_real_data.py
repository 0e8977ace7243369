"""The method on real files, `pytest -m data`; skipped where there are none."""

from __future__ import annotations

import pytest

from faircil.data.datasets import load_dataset
from faircil.runs.config import resolve
from faircil.runs.experiment import run


@pytest.mark.data("mnist")
def test_mnist_with_the_shipped_settings_reaches_the_papers_figures() -> None:
    figures = run(resolve(dataset="mnist", method="fsw", measure="eer"), seed=0).averages()
    assert figures["accuracy"] is not None
    assert figures["accuracy"] >= 0.91
    assert figures["eer_task"] is not None
    assert figures["eer_task"] <= 0.05


@pytest.mark.data("mnist")
def test_mnist_has_its_own_split() -> None:
    tasks = load_dataset("mnist", 0).tasks
    assert sum(len(task.train) for task in tasks) == 60_000
    assert sum(len(task.test) for task in tasks) == 10_000


@pytest.mark.data("drug")
def test_drug_runs_with_the_shipped_settings() -> None:
    stream = load_dataset("drug", 0)
    assert sum(len(task.train) for task in stream.tasks) == 1319
    assert sum(len(task.test) for task in stream.tasks) == 566
    result = run(resolve(dataset="drug", method="fsw", measure="dp"), 0, stream=stream)
    figures = result.averages()
    assert all(figures[name] is not None for name in ("accuracy", "eer", "eo", "dp"))
    assert figures["accuracy"] is not None
    assert figures["accuracy"] > 0.3
