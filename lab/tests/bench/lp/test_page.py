from __future__ import annotations

import pytest

from bench_results import lp_results, measured
from faircil_lab.bench.lp import Skipped
from faircil_lab.bench.lp_page import (
    CPLEX,
    SOLVER_TIMES,
    exponents,
    not_measured,
    summarise,
    tables,
    time_against_n,
)

RESULTS = lp_results(
    measured("exact", 1000, 0.002, passes=2),
    measured("highs", 1000, 0.02),
    measured("exact", 10_000, 0.02, bound=0.9, violation=2e-7),
    Skipped(10_000, None, "highs", "predicted 100 s"),
    Skipped(10_000, "a", "cplex", "too large"),
    Skipped(10_000, "b", "cplex", "too large"),
    notes=("solver 'other' cannot be used here",),
)


def test_page_says_what_how_and_what_not() -> None:
    text = SOLVER_TIMES.page(RESULTS, {"time": "pictures/time.svg"})
    for words in (
        "faircil bench lp\n```",
        "![time against n](pictures/time.svg)",
        "## n = 1,000\n",
        "| exact | 1 | 2.00 ms | 10 | 0 | 2 | 3 |",
        "## n = 10,000\n",
        "| exact | 1 | 20.0 ms | – | 5e-02 | – | 3 |",
        "## Growth\n",
        "| exact | 1.00 |",
        "CPLEX as published",
        "kept to within 2e-07",
        "\nsolver 'other' cannot be used here.\n",
        "Not measured:\n\n- highs at n = 10,000: predicted 100 s\n",
        "- cplex at n = 10,000 on 2 program(s): too large\n",
        "| a | 4 | 2 |",
    ):
        assert words in text
    assert "interrupted" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_page_of_own_sizes_and_of_an_interrupted_benchmark() -> None:
    text = SOLVER_TIMES.page(
        lp_results(measured("a", None, 1.0), complete=False), {"time": "time.svg"}
    )
    assert "The programs have their own sizes." in text
    assert "Growth" not in text
    assert "The benchmark was interrupted here." in text


def test_everything_measured_needs_no_excuse() -> None:
    assert "Not measured" not in SOLVER_TIMES.page(
        lp_results(measured("a", None, 1.0)), {"time": "time.svg"}
    )
    assert not_measured([]) == []


def test_tables_are_one_per_size_and_growth() -> None:
    assert [table.title for table in tables(summarise(RESULTS))] == [
        "n = 1,000", "n = 10,000", "Growth",
    ]  # fmt: skip


def test_picture_has_a_line_per_solver_and_cplex_through_its_point() -> None:
    (axes,) = time_against_n(summarise(RESULTS)).axes
    exact, highs, cplex = axes.get_lines()
    assert list(exact.get_xdata()) == pytest.approx([1000, 10_000])
    assert list(exact.get_ydata()) == pytest.approx([0.002, 0.02])
    assert "exact" in str(exact.get_label())
    assert len(highs.get_xdata()) == 1
    assert "CPLEX as published" in str(cplex.get_label())
    assert dict(zip(cplex.get_xdata(), cplex.get_ydata(), strict=True))[12_000] == CPLEX.seconds


def test_published_point_is_507_seconds_over_60_programs() -> None:
    assert pytest.approx(8.45) == CPLEX.seconds
    assert (CPLEX.size, CPLEX.exponent) == (12_000, 1.642)


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
