from __future__ import annotations

import pytest

from faircil_lab.paper.comparison import compare_values, count_verdicts
from faircil_lab.paper.exhibit import Verdict
from faircil_lab.paper.metrics import METRICS
from faircil_lab.paper.published import parse_value

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
