from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_results import small_program
from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram, solve
from faircil_lab.bench import lp
from faircil_lab.bench.lp import ASSUMED, LpOptions, Pace, Skipped, SolverTiming, measure
from faircil_lab.bench.lp_programs import NamedProgram, SolverCase, all_cases

PROGRAMS = [NamedProgram(name, small_program(seed=seed)) for seed, name in enumerate("xy")]


class Fakes:
    """Solvers that note their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.prepared: list[str] = []

    def case(self, name: str, largest: int = 10**9) -> SolverCase:
        def prepare(program: WeightProgram) -> tuple[WeightProgram]:
            self.prepared.append(name)
            return (program,)

        def answer(prepared: tuple[WeightProgram]) -> Solution:
            (program,) = prepared
            self.calls.append((name, len(program)))
            if len(program) > largest:
                raise SolverError("too large for me")
            return solve(program, "highs")

        return SolverCase(name, prepare, answer)


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


def test_one_warm_up_then_turns(fakes: Fakes) -> None:
    cases = [fakes.case("a"), fakes.case("b")]
    outcomes = list(measure(PROGRAMS[:1], cases, LpOptions(repeats=3)))
    assert fakes.calls == [("a", 40), ("b", 40)] * 4
    assert fakes.prepared == ["a", "b"]
    assert [(o.solver, o.size, o.program) for o in outcomes] == [("a", None, "x"), ("b", None, "x")]
    for outcome in outcomes:
        assert isinstance(outcome, SolverTiming)
        assert len(outcome.seconds) == 3


def test_sizes_rise_and_each_is_measured_once(fakes: Fakes) -> None:
    outcomes = list(measure(PROGRAMS, [fakes.case("a")], LpOptions((60, 20, 60), repeats=1)))
    assert [n for _, n in fakes.calls] == [20] * 4 + [60] * 4
    assert [(o.size, o.program) for o in outcomes] == [(20, "x"), (20, "y"), (60, "x"), (60, "y")]


def test_program_at_its_own_size_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WeightProgram] = []

    def answer(program: WeightProgram) -> Solution:
        seen.append(program)
        return solve(program)

    case = SolverCase("a", lambda program: program, answer)
    list(measure(PROGRAMS[:1], [case], LpOptions((40,), repeats=1)))
    assert all(program is PROGRAMS[0].program for program in seen)


def test_failure_leaves_the_other_solvers_and_sizes(fakes: Fakes) -> None:
    cases = [fakes.case("a", largest=30), fakes.case("b")]
    outcomes = list(measure(PROGRAMS[:1], cases, LpOptions((20, 60), repeats=1)))
    failed = [o for o in outcomes if isinstance(o, Skipped)]
    assert failed == [Skipped(60, "x", "a", "too large for me")]
    assert [(o.solver, o.size) for o in outcomes if isinstance(o, SolverTiming)] == [
        ("a", 20), ("b", 20), ("b", 60),
    ]  # fmt: skip


def test_long_first_solve_counts(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp, "SLOW", 0.0)
    (outcome,) = measure(PROGRAMS[:1], [fakes.case("a")], LpOptions(repeats=3))
    assert len(fakes.calls) == 3
    assert isinstance(outcome, SolverTiming)
    assert len(outcome.seconds) == 3


def test_solve_over_the_limit_is_not_repeated_and_larger_sizes_are_left_out(fakes: Fakes) -> None:
    options = LpOptions((20, 60), repeats=3, limit=1e-9)
    outcomes = list(measure(PROGRAMS, [fakes.case("a")], options))
    assert fakes.calls == [("a", 20)] * 2
    first, second, skipped = outcomes
    assert isinstance(first, SolverTiming)
    assert len(first.seconds) == 1
    assert isinstance(second, SolverTiming)
    assert isinstance(skipped, Skipped)
    assert (skipped.size, skipped.program, skipped.solver) == (60, None, "a")
    assert "more than the limit" in skipped.why


def test_gap_is_not_taken_on_trust() -> None:
    def boast(program: WeightProgram) -> Solution:
        true = solve(program, "highs")
        return replace(true, weights=np.zeros(len(program)), objective=true.bound)

    (outcome,) = measure(
        PROGRAMS[:1], [SolverCase("boast", lambda program: program, boast)], LpOptions(repeats=1)
    )
    assert isinstance(outcome, SolverTiming)
    assert outcome.gap > 0.01
    assert outcome.objective == PROGRAMS[0].program.objective(np.zeros(40))


@pytest.mark.parametrize("solver", ["exact", "highs"])
def test_exact_solvers_prove_their_vertex(solver: str) -> None:
    for outcome in measure(PROGRAMS, [all_cases()[solver]], LpOptions((500,), repeats=1)):
        assert isinstance(outcome, SolverTiming)
        assert abs(outcome.gap) <= 1e-9
        assert outcome.violation <= 1e-9
        assert outcome.fractional <= outcome.gap_rows + outcome.floor_rows == 5
        assert outcome.n == 500


def paced(*known: tuple[int, float], limit: float = 10.0) -> Pace:
    pace = Pace(limit)
    for n, seconds in known:
        pace.note("a", n, seconds)
    return pace


def test_nothing_known_means_go() -> None:
    assert paced().too_slow("a", 10**8) is None
    assert paced((10, 100.0)).too_slow("b", 10**8) is None


def test_one_size_is_taken_to_grow_like_the_simplex_method() -> None:
    pace = paced((1000, 0.1))
    assert pace.too_slow("a", 10_000) is None
    reason = pace.too_slow("a", 100_000)
    assert reason is not None
    assert f"from 100 ms at n = 1,000 and growth n^{ASSUMED:.2f} (assumed)" in reason
    assert "more than the limit of 10 s" in reason


def test_growth_is_that_between_the_two_largest_sizes() -> None:
    pace = paced((10, 5.0), (1000, 0.01), (2000, 0.04))
    reason = pace.too_slow("a", 200_000)
    assert reason is not None
    assert "predicted 400 s" in reason
    assert reason.endswith("growth n^2.00")


def test_no_solver_is_taken_to_grow_slower_than_its_input() -> None:
    assert paced((1000, 0.5), (2000, 0.5)).too_slow("a", 40_000) is None
    assert paced((1000, 0.5), (2000, 0.5)).too_slow("a", 50_000) is not None


@pytest.mark.parametrize("seconds", [(1.0, 9.0), (9.0, 1.0)])
def test_slowest_program_counts(seconds: tuple[float, float]) -> None:
    pace = paced(*((1000, value) for value in seconds))
    assert pace.too_slow("a", 1200) is not None
