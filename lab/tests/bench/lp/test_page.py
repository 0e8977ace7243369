from __future__ import annotations

import pytest

from bench_results import lp_results, measured
from faircil_lab.bench.lp import Skipped
from faircil_lab.bench.lp_page import (
    CPLEX,
    SOLVER_TIMES,
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
