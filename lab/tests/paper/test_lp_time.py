from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faircil_lab.paper import lp_time
from faircil_lab.paper.exhibit import Results, Verdict
from faircil_lab.paper.lp_time import LpTime, LpTimes, SolveTime, SolveTimes, fit_power
from faircil_lab.paper.store import NOT_MADE, Measured

SIZES = (1000, 2000, 4000, 8000)
TINY = LpTimes("toy", sizes=(100, 200, 5000), draws=2, repeats=1)


def made_times(solver: str, exponent: float) -> list[SolveTime]:
    noise = np.random.default_rng(0).normal(1, 0.02, (len(SIZES), 2))
    return [
        SolveTime(solver, n, 1e-6 * n**exponent * float(factor))
        for n, row in zip(SIZES, noise, strict=True)
        for factor in row
    ]


def test_programs_are_parts_of_the_second_task_with_a_choice_to_make() -> None:
    programs = [named.program for named in TINY.programs()]
    assert [len(program) for program in programs] == [100, 100, 200, 200]  # 5,000 there are not
    assert not np.array_equal(programs[0].cost, programs[1].cost)
    # Alpha is 12/n: all columns together weigh the same, however many they are.
    totals = [program.cost.sum() for program in programs]
    assert totals == pytest.approx([totals[0]] * 4, rel=0.2)


def test_every_solver_is_timed_on_every_program_or_said_why_not() -> None:
    found = TINY.compute()
    for solver in ("exact", "highs"):
        assert [time.n for time in found.times if time.solver == solver] == [100, 100, 200, 200]
    assert all(time.seconds > 0 for time in found.times)
    timed = any(time.solver == "cplex" for time in found.times)
    assert timed or any(note.startswith("cplex: ") for note in found.notes)
    assert "cores" in found.machine


def test_a_power_is_found_again() -> None:
    fit = fit_power(made_times("highs", 1.5))
    low, high = fit.exponent.low, fit.exponent.high
    assert low is not None
    assert high is not None
    assert low < 1.5 < high
    assert high - low < 0.1
    assert fit.at(3000) == pytest.approx(1e-6 * 3000**1.5, rel=0.05)


def test_the_page_draws_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [*made_times("exact", 1.0), *made_times("highs", 1.642)]
    values = SolveTimes(tuple(times), ("cplex: no such package",), "a machine")

    def found(measurement: LpTimes, _results: Results) -> Measured:  # type: ignore[type-arg]
        return Measured(measurement, values)

    monkeypatch.setattr(lp_time, "look_up", found)
    page = LpTime().page(Results({}, {}, tmp_path))
    assert page.verdicts == (Verdict.DIFFERENT, Verdict.SAME, Verdict.NOT_RUN)
    assert "ours (exact) n^1.01" in page.answer
    table, section = page.sections[0].table, page.sections[1]
    assert table is not None
    assert table.rows[2][2] == "not run: no such package"
    assert section.text == "Machine: a machine."
    assert section.picture is not None
    section.picture.draw(tmp_path / "times.png")
    assert (tmp_path / "times.png").stat().st_size > 10_000
    values = SolveTimes(
        (*made_times("cplex", 1.9), *made_times("highs", 1.0)[:2]), ("highs: too large",), "x"
    )
    verdicts = LpTime().page(Results({}, {}, tmp_path)).verdicts
    assert verdicts == (
        Verdict.NOT_RUN,
        Verdict.NOT_RUN,
        Verdict.DIFFERENT,
    )  # one size has no slope


def test_a_solver_without_times_at_a_size_has_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = [time for time in made_times("highs", 1.6) if time.n < SIZES[-1]]
    values = SolveTimes(
        (*made_times("exact", 1.0), *partly), ("cplex: no such package", "highs: no memory"), "x"
    )
    monkeypatch.setattr(lp_time, "look_up", lambda one, _: Measured(one, values))
    page = LpTime().page(Results({}, {}, tmp_path))
    assert "HiGHS n^1.6" in page.answer
    assert "at 4,000 samples" in page.answer
    table = page.sections[1].table
    assert table is not None
    assert table.rows[1][-1] == "–"
    assert page.sections[1].text == (
        "Machine: x. HiGHS was not measured on all programs: no memory."
    )


def test_without_times_there_is_no_slope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = SolveTimes(tuple(made_times("exact", 1.0)[:2]), ("highs: no", "cplex: no"), "x")
    monkeypatch.setattr(lp_time, "look_up", lambda one, _: Measured(one, values))
    page = LpTime().page(Results({}, {}, tmp_path))
    assert page.answer == "No solver has times at 3 sizes."
    assert page.verdicts == (Verdict.NOT_RUN,) * 3


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = LpTime().page(Results({}, {}, tmp_path, run_missing=False))
    assert page.verdicts == (Verdict.NOT_RUN,) * 3
    assert page.answer == f"{NOT_MADE.capitalize()}."
