from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench_results import ENVIRONMENT
from faircil.moments.sketch import MEMORY, Plan
from faircil_lab.bench.moments import (
    MOMENTS_COSTS,
    LearningCost,
    MomentsResults,
    MomentsWorkload,
    RemovalCost,
    learned,
    measure_learning,
    measure_removal,
    workloads_of,
)

SMALL = MomentsWorkload(classes=3, tasks=2, rows=20, width=12)
LEARNED = LearningCost(SMALL, 0.5, 1.5, 7, 0.25, 0.5)
REMOVED = RemovalCost(SMALL, 10, 0.1, 0.4)
RESULTS = MomentsResults(
    (LEARNED, replace(LEARNED, workload=replace(SMALL, rank="8"), memory=None), REMOVED),
    command="faircil bench moments",
    environment=ENVIRONMENT,
)


def test_exact_sums_are_measured_where_they_fit() -> None:
    found = workloads_of([50, 1000, 50], tasks=10, rows=100, width=2000)
    assert [(one.classes, one.rank) for one in found] == [(50, "full"), (50, "100"), (1000, "100")]
    assert Plan(2000, 100).second <= MEMORY < Plan(2000, 2000).second


def test_streams_have_all_classes_once_and_two_groups_each() -> None:
    tasks = list(replace(SMALL, classes=5).stream())
    assert [sorted(set(task.y.tolist())) for task in tasks] == [[0, 1, 2], [3, 4]]
    assert all(int(task.z.sum()) * 2 == len(task) for task in tasks if task.z is not None)


def test_a_stream_is_learned_in_a_process_of_its_own() -> None:
    workload = replace(SMALL, rank="8")
    (cost,) = measure_learning([workload])
    here = learned(workload)
    assert (cost.solved, cost.objective) == (here["solved"], pytest.approx(here["objective"]))
    assert cost.summing > 0 < cost.solving
    assert cost.memory is None or 0.05 < cost.memory < 20


def test_removal_takes_other_rows_each_time() -> None:
    cost = measure_removal(replace(SMALL, tasks=1), 10, repeats=2)
    assert cost.removal > 0 < cost.refit


def test_page_document_and_rows() -> None:
    findings = MOMENTS_COSTS.findings(RESULTS)
    document = json.loads(json.dumps(findings.document))
    assert document["learned"][0]["workload"]["width"] == 12
    assert document["removals"][0]["removed"] == 10
    assert len(findings.rows) == 5 + 5 + 3
    text = findings.page({})
    for words in (
        "| 3 | 6 | exact | 2 | 500 ms | 1.50 s | 7 | 0.250 | 0.50 GiB |",
        "| 3 | 6 | 8 directions | 2 | 500 ms | 1.50 s | 7 | 0.250 | – |",
        "| 120 | 10 | 100 ms | 400 ms | 0.25 |",
    ):
        assert words in text
