from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from faircil.errors import SolverError
from faircil.weighting import WeightProgram
from faircil.weighting.solver.cplex import solve_with_cplex
from faircil.weighting.solver.highs import solve_with_highs
from faircil.weighting.solver.standard_form import standard_form
from hard_programs import any_program, random_program
from oracles import naive_optimum


def infeasible() -> WeightProgram:
    floor = np.full((1, 3), -1 / 3)
    return WeightProgram(np.ones((1, 3)), np.ones(1), np.zeros(3), floor, np.array([-2.0]))


class TestWithCplex:
    """Where the package is installed."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("cplex")

    @settings(deadline=None, max_examples=100, derandomize=True)
    @any_program
    def test_random_programs(self, seed: int, k: int, m: int, n: int, scale: float) -> None:
        self.check(random_program(seed, k, m, n, scale))

    @pytest.mark.parametrize("k", [0, 1, 4])
    @pytest.mark.parametrize("m", [0, 2])
    @pytest.mark.parametrize("n", [1, 60])
    def test_degenerate_programs(self, k: int, m: int, n: int) -> None:
        program = random_program(0, k, m, n).columns(np.arange(n) // 3)
        program.gap_rows[:1] = 0
        program.floor_rows[:1] = 0
        self.check(program)

    def check(self, program: WeightProgram) -> None:
        solution, expected = solve_with_cplex(program), solve_with_highs(program)
        weights = solution.weights
        digits = 1 + abs(solution.objective)
        assert weights.min() >= 0
        assert weights.max() <= 1
        assert program.violation(weights) <= 1e-9
        assert solution.status == "optimal (CPLEX dual simplex)"
        assert solution.bound == program.bound(solution.dual)
        assert abs(solution.gap) <= 1e-9 * digits
        assert abs(solution.objective - expected.objective) <= 1e-9 * digits
        assert abs(solution.objective - naive_optimum(program)) <= 1e-8 * digits
        fractional = (weights > 1e-9) & (weights < 1 - 1e-9)
        assert fractional.sum() <= len(program.gap_rows) + len(program.floor_rows)

    def test_rows_of_very_different_size(self) -> None:
        for seed in range(50):
            program = random_program(seed, 4, 2, 40)
            size = 10.0 ** np.random.default_rng(seed).uniform(-9, 3, 4)
            program.gap_rows[:] *= size[:, None]
            program.gap_offsets[:] *= size
            solution = solve_with_cplex(program)
            assert abs(solution.gap) <= 1e-9 * (1 + abs(solution.objective))

    def test_floors_that_nothing_keeps_are_named(self) -> None:
        with pytest.raises(SolverError, match=r"CPLEX.*infeasible.*check floor_offsets\[0\] = -2"):
            solve_with_cplex(infeasible())

    def test_nothing_is_printed(self, capfd: pytest.CaptureFixture[str]) -> None:
        solve_with_cplex(random_program(0, 4, 2, 30))
        assert capfd.readouterr() == ("", "")


class CplexError(Exception):
    pass


class FakeCplex:
    """Takes what CPLEX takes, notes it, and ends as it is told."""

    def __init__(self, ending: str | Exception, values: list[float], duals: list[float]) -> None:
        self.ending = ending
        self.notes: dict[str, Any] = {}
        self.parameters = Recorder("parameters", self.notes)
        self.objective = SimpleNamespace(set_linear=lambda pairs: self.notes.update(costs=pairs))
        self.solution = SimpleNamespace(
            status=SimpleNamespace(optimal="optimal"),
            get_status=lambda: ending,
            get_status_string=lambda: ending,
            get_values=lambda: values,
            get_dual_values=lambda: duals,
        )
        for stream in ("log", "results", "warning", "error"):
            setattr(self, f"set_{stream}_stream", Recorder(stream, self.notes).set)

    def __enter__(self) -> FakeCplex:
        return self

    def __exit__(self, *_: object) -> None:
        self.notes["closed"] = True

    def copylp(self, columns: int, rows: int, **arrays: Any) -> None:
        self.notes.update(shape=(rows, columns), **arrays)

    def solve(self) -> None:
        if isinstance(self.ending, Exception):
            raise self.ending


class Recorder:
    """Any parameter by its dotted name, with a ``set`` that notes the value."""

    def __init__(self, name: str, notes: dict[str, Any]) -> None:
        self.name = name
        self.notes = notes

    def __getattr__(self, name: str) -> Recorder:
        return Recorder(f"{self.name}.{name}", self.notes)

    def set(self, value: object) -> None:
        self.notes[self.name] = value


def install(
    monkeypatch: pytest.MonkeyPatch,
    ending: str | Exception,
    values: list[float] | None = None,
    duals: list[float] | None = None,
) -> FakeCplex:
    fake = FakeCplex(ending, values or [], duals or [])
    module = SimpleNamespace(Cplex=lambda: fake, exceptions=SimpleNamespace(CplexError=CplexError))
    monkeypatch.setitem(sys.modules, "cplex", module)
    return fake


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cplex", None)
    with pytest.raises(SolverError, match=r"needs the cplex package.*pip install cplex.*=auto"):
        solve_with_cplex(random_program(0, 2, 1, 5))


def test_a_program_beyond_the_free_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, CplexError("CPLEX Error  1016: Community Edition.", None, 1016))
    message = (
        r"1200 weights has 1206 variables and 5 constraints .* free edition takes 1000 of each: "
        r"use `solver=auto`, or .* licence"
    )
    with pytest.raises(SolverError, match=message):
        solve_with_cplex(random_program(0, 3, 2, 1200))
    assert fake.notes["closed"]


def test_anything_else_that_cplex_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, CplexError("CPLEX Error  1001: Out of memory.", None, 1001))
    with pytest.raises(SolverError, match=r"refused a program of 5 weights.*Out of memory"):
        solve_with_cplex(random_program(0, 2, 1, 5))


def test_an_end_without_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "infeasible")
    message = r"CPLEX dual simplex ended with 'infeasible' on .*3 weights.*floor_offsets\[0\] = -2"
    with pytest.raises(SolverError, match=message):
        solve_with_cplex(infeasible())


def test_cplex_gets_the_standard_form(monkeypatch: pytest.MonkeyPatch) -> None:
    program = WeightProgram(
        np.array([[2.0, 1.0]]), np.array([2.0]), np.array([0.0, 0.5]), np.ones((1, 2)), np.ones(1)
    )
    fake = install(monkeypatch, "optimal", [1.0, 0.0, 0.0, 0.0], [0.0, 0.0])
    solution = solve_with_cplex(program)
    form, notes = standard_form(program), fake.notes
    assert solution.status == "optimal (CPLEX dual simplex)"
    assert solution.weights.tolist() == [1.0, 0.0]
    assert notes["shape"] == (2, 4)
    assert notes["senses"] == "EL"
    assert notes["costs"] == list(enumerate(notes["obj"]))
    assert notes["matcnt"] == [2, 2, 1, 1]
    for name, array in (
        ("obj", form.cost),
        ("rhs", form.offsets),
        ("ub", form.upper),
        ("matbeg", form.starts[:-1]),
        ("matind", form.index),
        ("matval", form.values),
    ):
        assert notes[name] == array.tolist()
    assert notes["lb"] == [0.0] * 4
    assert notes["parameters.threads"] == 1
    assert notes["parameters.simplex.tolerances.feasibility"] == 1e-9
    assert [notes[stream] for stream in ("log", "results", "warning", "error")] == [None] * 4
    assert notes["closed"]
