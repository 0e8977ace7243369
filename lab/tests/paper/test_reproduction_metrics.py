from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import faircil.metrics
from faircil_lab.paper.metrics import METRICS
from run_results import make_result
from run_summaries import make_run


def test_values_come_from_metrics_and_seconds_and_unknown_ones_are_left_out():
    runs = [make_run("er", seed=0, eo_gap=0.25), make_run("er", seed=1, eo_gap=None)]
    assert METRICS["eo_gap"].by_seed(runs) == {0: 0.25}
    assert METRICS["seconds total"].by_seed(runs) == {0: 0.5, 1: 0.5}


def test_samples_kept_are_the_mean_over_weighted_epochs(tmp_path: Path):
    first, second = make_result().epochs
    assert second.weights is not None
    third = replace(second, weights=replace(second.weights, kept=5, partial=0))
    lines = [json.dumps(asdict(epoch)) for epoch in (first, second, third)]
    (tmp_path / "epochs.jsonl").write_text("\n".join(lines) + "\n")
    run = replace(make_run("fsw"), dir=str(tmp_path))
    assert METRICS["samples kept"].by_seed([run]) == {0: 4.0}  # mean of 2 + 1 and 5 + 0
    (tmp_path / "epochs.jsonl").write_text(lines[0] + "\n")
    assert METRICS["samples kept"].by_seed([run]) == {}


@pytest.mark.parametrize(
    ("name", "values", "text", "difference"),
    [
        ("accuracy", [0.9, 0.92], ".910 ± .014", "+.002"),
        ("seconds lp", [500.0, 520.0], "510.0 ± 14.1", "+0.0"),
        ("seconds lp", [1234.5], "1,234.5", "+0.0"),
        ("accuracy", [], "–", "+.002"),
    ],
)
def test_texts(name, values, text, difference):
    assert METRICS[name].text(values) == text
    assert METRICS[name].difference_text(0.002) == difference


def test_a_difference_below_zero_has_a_minus():
    assert METRICS["accuracy"].difference_text(-0.0123) == "−.012"
    assert METRICS["seconds lp"].difference_text(-1234.5) == "−1,234.5"


def test_metrics_of_predictions_are_those_of_runs():
    assert {name for name, metric in METRICS.items() if metric.ranked} <= set(
        faircil.metrics.METRICS
    )
