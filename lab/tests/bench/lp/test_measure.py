from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_results import small_program
from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram, solve
from faircil_lab.bench import lp
from faircil_lab.bench.lp import LpOptions, Skipped, SolverTiming, measure
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
