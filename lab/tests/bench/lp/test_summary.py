from __future__ import annotations

import pytest

from bench_results import lp_results, measured
from faircil_lab.bench.lp_page import exponents, summarise


def test_rows_are_geometric_means_of_medians_and_the_worst_of_the_rest() -> None:
    results = lp_results(
        measured("highs", 100, 8.0),
        measured("highs", 100, 2.0, program="b"),
        measured("fast", 100, 9.0, 1.0, 1.0, passes=2, bound=0.5, violation=1e-3),
        measured("fast", 100, 4.0, program="b", passes=7, fractional=5),
    )
    highs, fast = summarise(results)
    assert (highs.solver, highs.seconds, highs.ratio, highs.passes) == ("highs", 4.0, 1.0, None)
    assert fast.seconds == pytest.approx(2.0)
    assert fast.ratio == pytest.approx((8 / 1 * 2 / 4) ** 0.5)
    assert (fast.gap, fast.violation, fast.passes, fast.fractional) == (0.25, 1e-3, 7, 5)
    assert (fast.programs, fast.label) == (2, "n = 100")


def test_ratio_is_over_programs_that_both_solved() -> None:
    results = lp_results(
        measured("highs", 100, 8.0, program="b"),
        measured("fast", 100, 1.0),
        measured("fast", 100, 2.0, program="b"),
        measured("alone", 100, 2.0),
    )
    ratios = {row.solver: row.ratio for row in summarise(results)}
    assert ratios == {"highs": 1.0, "fast": 4.0, "alone": None}


def test_own_sizes_are_one_row_and_have_no_exponent() -> None:
    results = lp_results(
        measured("a", None, 1.0, n=10), measured("a", None, 1.0, n=20, program="b")
    )
    (row,) = summarise(results)
    assert row.label == "n = 10 to 20"
    assert exponents([row]) == {}


def test_exponent_of_each_solver_with_several_sizes() -> None:
    results = lp_results(measured("a", 1000, 100.0), measured("a", 10, 1.0), measured("b", 10, 1.0))
    rows = summarise(results)
    assert [(row.size, row.solver) for row in rows] == [(10, "a"), (10, "b"), (1000, "a")]
    assert exponents(rows) == {"a": pytest.approx(1.0)}
