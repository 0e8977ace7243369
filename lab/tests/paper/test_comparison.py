from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from scipy.stats import spearmanr

from faircil_lab.paper.comparison import (
    UNDEFINED,
    compare_values,
    count_verdicts,
    machines_section,
    rank_correlation,
    trend_of,
)
from faircil_lab.paper.exhibit import Verdict
from faircil_lab.paper.metrics import METRICS
from faircil_lab.paper.published import parse_value
from run_summaries import make_run

ACCURACY, GAP, KEPT = METRICS["accuracy"], METRICS["eo_gap"], METRICS["samples kept"]


def by_seed(center: float, step: float = 0.002) -> dict[int, float]:
    return {seed: center + step * (seed - 2) for seed in range(5)}


@pytest.mark.parametrize(
    ("metric", "center", "verdict"),
    [
        (ACCURACY, 0.501, Verdict.SAME),
        (ACCURACY, 0.520, Verdict.BETTER),
        (ACCURACY, 0.480, Verdict.WORSE),
        (GAP, 0.480, Verdict.BETTER),
        (GAP, 0.520, Verdict.WORSE),
        (KEPT, 0.520, Verdict.DIFFERENT),
    ],
)
def test_verdict_goes_by_chance_and_by_the_direction_of_the_metric(metric, center, verdict):
    found = compare_values(metric, parse_value(".500 ± .004"), by_seed(center))
    assert found.verdict is verdict
    assert found.difference == pytest.approx(center - 0.5)


def test_rounding_alone_is_no_difference():
    exact = {seed: 0.3264 + 1e-7 * seed for seed in range(5)}
    assert compare_values(GAP, parse_value(".326 ± .000"), exact).verdict is Verdict.SAME
    off = {seed: 0.3274 + 1e-7 * seed for seed in range(5)}
    assert compare_values(GAP, parse_value(".326 ± .000"), off).verdict is Verdict.WORSE


def test_a_number_without_deviation_is_held_against_our_interval():
    values = {0: 2800.0, 1: 2900.0, 2: 2850.0}
    assert compare_values(KEPT, parse_value("2863.4"), values).verdict is Verdict.SAME
    assert compare_values(KEPT, parse_value("4280.5"), values).verdict is Verdict.DIFFERENT


def test_what_is_missing_is_not_run_and_what_the_paper_lacks_has_no_verdict():
    found = compare_values(GAP, parse_value(".100 ± .010"), {})
    assert (found.verdict, found.difference) == (Verdict.NOT_RUN, None)
    assert compare_values(GAP, None, by_seed(0.1)).verdict is None


def test_counts_are_in_the_order_of_verdicts():
    verdicts = [Verdict.NOT_RUN, Verdict.BETTER, Verdict.SAME, Verdict.SAME]
    assert count_verdicts(verdicts) == "2 same, 1 better, 1 not run"
    assert count_verdicts([]) == ""


def test_machines_are_counted(tmp_path: Path):
    runs = []
    for seed, gpu in enumerate((None, None, "NVIDIA H200")):
        folder = tmp_path / str(seed)
        folder.mkdir()
        content = {"processor": "x86", "gpu": gpu, "threads": 1, "packages": {"torch": "2.13"}}
        (folder / "environment.json").write_text(json.dumps(content | {"code": "abc"}))
        runs.append(replace(make_run("er", seed=seed), dir=str(folder)))
    table = machines_section([*runs, runs[0]]).table
    assert table is not None
    assert table.rows == (
        ("1", "x86", "NVIDIA H200", "1", "2.13", "abc"),
        ("2", "x86", "–", "1", "2.13", "abc"),
    )


def test_a_run_without_its_file_is_on_no_known_machine(tmp_path: Path):
    table = machines_section([replace(make_run("er"), dir=str(tmp_path))]).table
    assert table is not None
    assert table.rows == (("1", *["not known"] * 5),)


@given(st.lists(st.integers(0, 5), min_size=3, max_size=6).filter(lambda v: len(set(v)) > 1))
def test_rank_correlation_is_spearmans(values: list[float]) -> None:
    expected = spearmanr(range(len(values)), values).statistic
    assert rank_correlation(values) == pytest.approx(expected)


def seeds_of_places(*rows: Sequence[float]) -> list[dict[int, float]]:
    """Turn a row of values for each seed into a mapping for each place."""
    return [dict(enumerate(place)) for place in zip(*rows, strict=True)]


GROWS = seeds_of_places([1, 2, 3, 4], [1, 3, 2, 4], [0, 2, 3, 5])
FALLS = seeds_of_places([4, 3, 2, 1], [4, 2, 3, 1], [5, 3, 2, 0])
NEITHER = seeds_of_places([1, 2, 3, 4], [4, 3, 2, 1], [1, 3, 1, 3])


@pytest.mark.parametrize(
    ("values", "grows", "verdict"),
    [
        (GROWS, True, Verdict.SAME),
        (GROWS, False, Verdict.DIFFERENT),
        (GROWS, None, Verdict.DIFFERENT),
        (FALLS, False, Verdict.SAME),
        (NEITHER, None, Verdict.SAME),
        (NEITHER, True, Verdict.DIFFERENT),
    ],
)
def test_a_claim_holds_where_the_interval_agrees(
    values: list[dict[int, float]], grows: bool | None, verdict: Verdict
) -> None:
    trend = trend_of(("x",), values, grows, claimed=True)
    assert trend.verdict is verdict
    assert trend.texts[-1] == verdict.value


def test_what_is_not_claimed_is_only_read() -> None:
    trend = trend_of(("x",), FALLS, True, claimed=False)
    assert (trend.verdict, trend.reading) == (None, "falls")


def test_one_seed_cannot_tell() -> None:
    trend = trend_of(("x",), seeds_of_places([1, 2, 3, 4]), True, claimed=True)
    assert (trend.verdict, trend.reading) == (None, UNDEFINED)


def test_seeds_that_are_not_everywhere_take_no_part() -> None:
    values = [*GROWS[:-1], {0: 4.0}]
    assert trend_of(("x",), values, True, claimed=True).reading == UNDEFINED
    assert trend_of(("x",), [*values, {}], True, claimed=True).verdict is Verdict.NOT_RUN
