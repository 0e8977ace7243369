from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bench_results import ENVIRONMENT
from faircil.cli import main
from faircil_lab.bench import models
from faircil_lab.bench.models import (
    MODEL_COSTS,
    ModelCost,
    ModelResults,
    TableWorkload,
    measure_models,
)

SMALL = TableWorkload(rows=200, columns=4, later=20, predicted=30, method="moments")
RESULTS = ModelResults(
    (
        ModelCost(SMALL, "`fit`", 200, 0.5, 0.25),
        ModelCost(SMALL, "predictions of these inputs", 30, 0.0001),
    ),
    command="faircil bench models",
    environment=ENVIRONMENT,
)


def test_commands_and_calls_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(command: Sequence[str]) -> tuple[dict[str, Any], float]:
        assert not main(command[3:])
        return {}, 1.0

    monkeypatch.setattr(models, "outcome_of", here)
    costs = list(measure_models([SMALL]))
    assert [cost.rows for cost in costs] == [200, 30, 20, 20, 30, 30, 20]
    assert all(cost.seconds > 0 for cost in costs)
    assert [cost.memory is None for cost in costs] == [False] * 4 + [True] * 3


def test_the_later_class_is_new_and_columns_are_as_many_as_asked_for() -> None:
    table = SMALL.table(50, 1, "new")
    assert set(table["job"]) == {"new"}
    assert len(table.columns) == SMALL.columns + 2


def test_page_document_and_rows() -> None:
    findings = MODEL_COSTS.findings(RESULTS)
    assert json.loads(json.dumps(findings.document))["steps"][0]["workload"]["columns"] == 4
    assert [row["seconds"] for row in findings.rows] == [0.5, 0.0001]
    text = findings.page({})
    assert "## 200 rows of 4 columns, method moments" in text
    assert "| `fit` | 200 | 500 ms | 400 | 0.25 GiB |" in text
    assert "| predictions of these inputs | 30 | 0.100 ms | 300,000 | – |" in text
