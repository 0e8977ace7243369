from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from bench_results import ENVIRONMENT
from faircil_lab.bench.moments_gpu import (
    GPU_MOMENTS,
    GpuCost,
    GpuResults,
    GpuWorkload,
    measure_on_gpu,
    tf32_set,
    workloads_of,
)

CPU = torch.device("cpu")
WIDE = GpuCost(GpuWorkload(10**9, 64, 100), 0.5, 0.25, 2.0, 7, 1.5, 2e-8, 3e-6, 1e15)
LONG = GpuCost(GpuWorkload(10_000_000, 512, 513), 1.0, 2.0, 0.5, 6, None, None, None, 1e12)


def test_widths_once_one_with_tf32_and_embeddings() -> None:
    found = workloads_of([10, 30, 10, 20], rows=500, embeddings=900, inputs=8)
    assert [(one.width, one.tf32) for one in found] == [
        (10, False), (30, False), (20, False), (20, True), (9, False), (2000, False),
    ]  # fmt: skip
    assert [one.raw for one in found] == [False] * 4 + [True, False]
    assert len(workloads_of([10], rows=500, embeddings=0, inputs=8)) == 2


def test_operations_are_those_of_half_a_matrix_and_of_features() -> None:
    assert GpuWorkload(10, 4, 5).operations == 10 * 5 * 6
    assert GpuWorkload(10, 4, 7).operations == 10 * (2 * 4 * 7 + 7 * 8)


def test_samples_have_all_groups_and_the_second_more_noise() -> None:
    samples = GpuWorkload(4000, 6, 7).samples(CPU)
    assert samples.z is not None
    keys, counts = torch.unique(samples.keys(), dim=0, return_counts=True)
    assert len(keys) == 20
    assert counts.unique().tolist() == [200]
    first, second = (samples.x[(samples.y == 3) & (samples.z == z)].std() for z in (0, 1))
    assert second > 1.5 * first


def test_what_is_measured() -> None:
    (raw, relu) = measure_on_gpu([GpuWorkload(600, 8, 9), GpuWorkload(400, 64, 40, tf32=True)], CPU)
    for cost in (raw, relu):
        assert min(cost.fitting, cost.summing, cost.solving, cost.product) > 0
        assert cost.solved >= 1
        assert cost.memory is None
        assert cost.sums_off is not None
        assert cost.sums_off < 1e-6
        assert cost.losses_off is not None
        assert 0 < cost.losses_off < 1e-3


def test_tf32_is_as_it_was() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with tf32_set(not before):
        assert torch.backends.cuda.matmul.allow_tf32 != before
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_page_document_and_rows() -> None:
    results = GpuResults(
        (WIDE, replace(WIDE, workload=replace(WIDE.workload, tf32=True)), LONG),
        command="faircil bench moments-gpu",
        environment=ENVIRONMENT,
    )
    findings = GPU_MOMENTS.findings(results)
    document = json.loads(json.dumps(findings.document))
    assert document["costs"][0]["workload"]["width"] == 100
    assert len(findings.rows) == 3 * 8
    text = findings.page({})
    for words in (
        "| 100 | 1,000,000,000 | 250 ms | 4,000,000,000 | 91.6 | 9 % | 2.00 s | 7 | 1.5 GiB | "
        "2.0e-08 | 3.0e-06 |",
        "| 100, TF32 allowed | 1,000,000,000 |",
        "| 513, the inputs | 10,000,000 | 512 | 1.00 s | 2.00 s | 500 ms | 3.50 s | – | – |",
        "- 10,000,000 × 512 embeddings, 513, the inputs: 3.50 s; the goal of 20 s is reached.",
    ):
        assert words in text


@pytest.mark.parametrize("total", [19.0, 21.0])
def test_a_goal_that_is_missed_is_said(total: float) -> None:
    slow = replace(LONG, summing=total - LONG.fitting - LONG.solving)
    results = GpuResults((slow,), command="", environment=ENVIRONMENT)
    (said,) = GPU_MOMENTS.sentences(results)
    assert ("missed" in said) == (total > 20)
