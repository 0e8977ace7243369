from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import settings

from faircil.errors import SolverError, UsageError
from faircil.testing import check_solver
from faircil.testing.programs import check_solution
from faircil.weighting import Solution, WeightProgram, solve
from faircil.weighting.solver import SOLVERS
from hard_programs import any_program, random_program
from oracles import naive_optimum

OPTIONAL = ("cplex",)
DigitProgram = Callable[..., WeightProgram]
EXACT = [name for name, row in SOLVERS.items() if row.exact and name not in OPTIONAL]
every_solver = pytest.mark.parametrize("solver", EXACT)


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in OPTIONAL])
def test_every_solver_keeps_the_contract(solver: str) -> None:
    check_solver(solver)


def check(program: WeightProgram, solution: Solution, optimum: float | None = None) -> None:
    """Assert all that a solution promises, and that scipy finds the same optimum."""
    check_solution(program, solution)
    assert solution.gap == solution.objective - solution.bound
    digits = 1 + abs(solution.objective)
    optimum = naive_optimum(program) if optimum is None else optimum
    assert abs(solution.objective - optimum) <= 1e-8 * digits


@cache
def optimum_of_digits(digit_program: DigitProgram, measure: str, alpha: float | str) -> float:
    """Return what scipy finds, once for all solvers."""
    return naive_optimum(digit_program(measure, alpha))


@every_solver
@settings(deadline=None, max_examples=60, derandomize=True)
@any_program
def test_random_programs(solver: str, seed: int, k: int, m: int, n: int, scale: float) -> None:
    program = random_program(seed, k, m, n, scale)
    check(program, solve(program, solver))


@every_solver
@pytest.mark.parametrize("alpha", ["auto", 1e-6, 1e-3, 10.0])
@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
def test_programs_of_digits(
    solver: str, measure: str, alpha: float | str, digit_program: DigitProgram
) -> None:
    program = digit_program(measure, alpha)
    solution = solve(program, solver)
    check(program, solution, optimum_of_digits(digit_program, measure, alpha))
    assert solution.objective < program.objective(np.zeros(len(program)))
    assert ("ascent" in solution.status) == (solver == "exact")


@every_solver
def test_many_columns(solver: str) -> None:
    program = random_program(4, 8, 2, 20_000, 0.01)
    solution = solve(program, solver)
    check(program, solution)
    assert solution.weights.any()


@every_solver
@pytest.mark.parametrize("what", ["duplicated", "zero"])
@pytest.mark.parametrize("n", [60, 6000])
def test_columns_without_a_difference(solver: str, what: str, n: int) -> None:
    program = random_program(1, 4, 2, n, 0.1)
    chosen = np.arange(n) // 3 if what == "duplicated" else np.arange(n)
    program = program.columns(chosen)
    if what == "zero":
        for array in (program.gap_rows, program.cost[None], program.floor_rows):
            array[:, ::2] = 0
    check(program, solve(program, solver))


@every_solver
@pytest.mark.parametrize("size", [0.0, 1e-310, 1e-22, 1e-16, 1e-13])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_rows_of_rounding_noise(solver: str, size: float, offset: float) -> None:
    program = random_program(2, 4, 2, 50, 0.01)
    program.gap_rows[1] *= size / 0.01
    program.gap_offsets[1] = offset
    program.floor_rows[1] *= size / 0.01
    program.floor_offsets[1] = 0.3
    check(program, solve(program, solver))


@every_solver
def test_a_loss_that_can_fall_is_worth_training_on(solver: str) -> None:
    rows = np.array([[0.5, -0.5, 0.1, 0.0]])
    program = WeightProgram(np.zeros((0, 4)), np.zeros(0), -0.1 * rows[0], rows, np.array([0.55]))
    solution = solve(program, solver)
    check(program, solution)
    assert rows[0] @ solution.weights == pytest.approx(0.55)  # down to the floor
    without = solve(replace(program, floor_rows=np.zeros((0, 4)), floor_offsets=np.zeros(0)))
    assert without.weights[:3].tolist() == [1, 0, 1]


@every_solver
@pytest.mark.parametrize("n", [3, 6000])
def test_floors_that_nothing_keeps_are_an_error(solver: str, n: int) -> None:
    floor = np.full((1, n), -1 / n)
    program = WeightProgram(np.ones((1, n)), np.ones(1), np.zeros(n), floor, np.array([-2.0]))
    with pytest.raises(SolverError, match=rf"Infeasible.* {n} weights.*floor_offsets ≥ 0.*check"):
        solve(program, solver)


@every_solver
def test_a_floor_that_only_one_column_keeps(solver: str) -> None:
    n = 6000
    floor = np.zeros((1, n))
    floor[0, 7] = -1
    program = random_program(3, 3, 0, n, 0.01)
    program = replace(program, floor_rows=floor, floor_offsets=np.array([-0.5]))
    solution = solve(program, solver)
    check(program, solution)
    assert solution.weights[7] >= 0.5


def test_a_solver_can_be_a_function() -> None:
    program = random_program(0, 2, 1, 5, 1.0)
    assert solve(program, SOLVERS["highs"].solve).status == solve(program, "highs").status


def test_solvers_are_found_by_name() -> None:
    program = random_program(0, 2, 1, 5, 1.0)
    assert solve(program).objective == solve(program, "auto").objective
    with pytest.raises(UsageError, match=r"unknown solver 'higs': did you mean 'highs'.*auto"):
        solve(program, "higs")
