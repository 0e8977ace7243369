from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import highspy
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csc_array

from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram
from faircil.weighting.groups import Floats
from faircil.weighting.solver import highs, standard_form
from faircil.weighting.solver.highs import (
    keep_floors,
    solve_with_highs,
    solve_with_ipm,
    solve_with_pdlp,
)
from hard_programs import any_program, random_program
from oracles import naive_optimum

Solver = Callable[[WeightProgram], Solution]

exact_solvers = pytest.mark.parametrize("solver", [solve_with_highs, solve_with_ipm])
every_solver = pytest.mark.parametrize(
    "solver", [solve_with_highs, solve_with_ipm, solve_with_pdlp]
)


def check(program: WeightProgram, solver: Solver) -> Solution:
    """Assert all that a solver promises, against the optimum that scipy finds."""
    solution = solver(program)
    weights, objective = solution.weights, solution.objective
    digits = 1 + abs(objective)
    best = naive_optimum(program)
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert program.violation(weights) <= 1e-9
    assert objective == pytest.approx(program.objective(weights), rel=1e-12)
    assert solution.bound == program.bound(solution.dual)
    assert solution.bound <= best + 1e-8 * digits
    assert objective >= best - 1e-8 * digits
    if solver is solve_with_pdlp:
        assert solution.status.startswith("approximate (HiGHS PDLP, ")
        assert -1e-12 * digits <= solution.gap <= 1e-4 * digits
        return solution
    assert solution.status in {
        "optimal (HiGHS dual simplex)",
        "optimal (HiGHS interior point and crossover)",
    }
    assert solution.gap <= 1e-9 * digits
    assert objective <= best + 1e-8 * digits
    fractional = (weights > 1e-9) & (weights < 1 - 1e-9)
    assert fractional.sum() <= len(program.gap_rows) + len(program.floor_rows)
    return solution


@every_solver
@settings(deadline=None, max_examples=100, derandomize=True)
@any_program
def test_random_programs(solver: Solver, seed: int, k: int, m: int, n: int, scale: float) -> None:
    check(random_program(seed, k, m, n, scale), solver)


@every_solver
def test_many_columns(solver: Solver) -> None:
    program = random_program(6, 8, 2, 2000, 0.01)
    solution = check(program, solver)
    assert solution.objective < program.objective(np.zeros(len(program)))


def with_zero_rows(program: WeightProgram) -> WeightProgram:
    gap_rows, floor_rows = program.gap_rows.copy(), program.floor_rows.copy()
    gap_rows[0], floor_rows[0] = 0, 0
    return replace(program, gap_rows=gap_rows, floor_rows=floor_rows)


def with_equal_rows(program: WeightProgram) -> WeightProgram:
    return WeightProgram(
        np.vstack([program.gap_rows, program.gap_rows]),
        np.concatenate([program.gap_offsets, program.gap_offsets]),
        program.cost,
        np.vstack([program.floor_rows, program.floor_rows]),
        np.concatenate([program.floor_offsets, program.floor_offsets]),
    )


@every_solver
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(with_zero_rows(random_program(1, 4, 2, 30)), id="zero rows"),
        pytest.param(with_equal_rows(random_program(2, 3, 2, 30)), id="equal rows"),
        pytest.param(random_program(3, 4, 2, 10).columns(np.arange(30) // 3), id="equal columns"),
        pytest.param(random_program(4, 4, 2, 1), id="n = 1"),
        pytest.param(random_program(5, 6, 3, 4), id="n < R"),
        pytest.param(random_program(6, 1, 2, 30), id="K = 1"),
        pytest.param(random_program(7, 4, 0, 30), id="m = 0"),
        pytest.param(random_program(8, 0, 2, 30), id="K = 0"),
        pytest.param(random_program(9, 0, 0, 30), id="no rows"),
        pytest.param(random_program(10, 0, 0, 1), id="no rows, n = 1"),
        pytest.param(
            WeightProgram(
                np.zeros((2, 3)), np.array([1.0, 0]), np.zeros(3), np.zeros((1, 3)), np.zeros(1)
            ),
            id="all zero",
        ),
    ],
)
def test_degenerate_programs(solver: Solver, program: WeightProgram) -> None:
    check(program, solver)


@every_solver
def test_a_program_without_weights(solver: Solver) -> None:
    program = random_program(0, 2, 1, 3).columns(np.arange(0))
    solution = solver(program)
    assert solution.weights.shape == (0,)
    assert solution.objective == solution.bound == np.abs(program.gap_offsets).sum()


@exact_solvers
@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.sampled_from([1e-9, 1e-6, 1e-3, 1.0, 1e3]), min_size=5, max_size=5),
)
def test_rows_of_very_different_size(solver: Solver, seed: int, sizes: list[float]) -> None:
    program = random_program(seed, 3, 2, 30)
    gap, floor = np.array(sizes[:3]), np.array(sizes[3:])
    program = WeightProgram(
        program.gap_rows * gap[:, None],
        program.gap_offsets * gap,
        program.cost * 1e-3,
        program.floor_rows * floor[:, None],
        program.floor_offsets * floor,
    )
    solution = solver(program)
    assert program.violation(solution.weights) <= 1e-9 * max(1.0, *sizes[3:])
    assert abs(solution.gap) <= 1e-9 * (1 + abs(solution.objective))
    assert solution.status.startswith("optimal")


@every_solver
@pytest.mark.parametrize("size", [0.0, 1e-310, 1e-22, 1e-16, 1e-13, 1e-9, 1e-6])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_rows_of_rounding_noise(solver: Solver, size: float, offset: float) -> None:
    program = random_program(2, 4, 2, 50, 0.01)
    program.gap_rows[1] *= size / 0.01
    program.gap_offsets[1] = offset
    program.floor_rows[1] *= size / 0.01
    program.floor_offsets[1] = 0.3
    check(program, solver)


def beside_a_large_row() -> WeightProgram:
    """One row of 1e6 that all weights can meet: the absolute tolerance hides the other costs."""
    rng = np.random.default_rng(0)
    rows: Floats = rng.uniform(-1, 1, (4, 40))
    rows[0] *= 1e6
    rows[1:] *= 1e-4
    return WeightProgram(
        rows, rows @ rng.random(40), rng.uniform(-1, 1, 40) * 1e-5, np.zeros((0, 40)), np.zeros(0)
    )


@exact_solvers
def test_costs_grow_until_there_is_a_proof(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    program = beside_a_large_row()
    monkeypatch.setattr(standard_form, "PROOF", 1e-13)
    grown = solver(program)
    monkeypatch.setattr(standard_form, "FACTORS", (1.0,))
    once = solver(program)
    assert grown.gap < 0.01 * once.gap
    assert once.status.startswith(f"within {once.gap:.1e} of the optimum (HiGHS ")


def test_a_later_run_that_fails_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_form, "PROOF", -1.0)  # nothing proves that
    program = random_program(0, 4, 2, 20)
    expected = solve_with_highs(program)
    run, calls = highs._run, []

    def once(*arguments: object) -> tuple[Floats, Floats]:
        calls.append(arguments)
        if len(calls) > 1:
            raise SolverError("no more")
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(highs, "_run", once)
    solution = solve_with_highs(program)
    assert len(calls) == 2
    assert solution.objective == pytest.approx(expected.objective, rel=1e-12)


@every_solver
def test_any_layout_and_precision(solver: Solver) -> None:
    plain = random_program(0, 4, 2, 20)
    other = WeightProgram(
        np.repeat(plain.gap_rows, 2, axis=1)[:, ::2].astype(np.float32),
        plain.gap_offsets,
        np.repeat(plain.cost, 2)[::2],
        np.asfortranarray(plain.floor_rows),
        plain.floor_offsets,
    )
    check(other, solver)


@every_solver
def test_floors_that_nothing_keeps_are_named(solver: Solver) -> None:
    floors = np.vstack([np.full((1, 3), -1 / 3), np.ones((2, 3))])
    program = WeightProgram(
        np.ones((1, 3)), np.ones(1), np.zeros(3), floors, np.array([-2.0, 1.0, -0.25])
    )
    message = (
        r"HiGHS .* ended with '.*nfeasible.*' on a program of 3 weights and 4 rows; with "
        r"floor_offsets ≥ 0 .*: check floor_offsets\[0\] = -2, floor_offsets\[2\] = -0.25$"
    )
    with pytest.raises(SolverError, match=message):
        solver(program)


@every_solver
def test_a_floor_that_only_one_column_keeps(solver: Solver) -> None:
    program = random_program(3, 3, 1, 50, 0.01)
    floor = np.zeros((1, 50))
    floor[0, 7] = -1
    program = replace(program, floor_rows=floor, floor_offsets=np.array([-0.5]))
    solution = solver(program)
    assert solution.weights[7] >= 0.5 - 1e-5
    assert solution.objective == pytest.approx(naive_optimum(program), abs=1e-6)


@every_solver
def test_nothing_is_printed(solver: Solver, capfd: pytest.CaptureFixture[str]) -> None:
    solver(random_program(0, 4, 2, 30))
    assert capfd.readouterr() == ("", "")


def limited(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    options = (*highs.PDLP.options, ("pdlp_iteration_limit", iterations))
    monkeypatch.setattr(highs, "PDLP", replace(highs.PDLP, options=options))


@pytest.mark.parametrize("seed", range(5))
def test_pdlp_at_its_limit_says_so_and_stays_feasible(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 40)
    program = random_program(seed, 6, 3, 200)
    solution = solve_with_pdlp(program)
    assert "ended with 'Iteration limit reached'" in solution.status
    assert f"within {solution.gap:.1e} of the optimum" in solution.status
    assert program.violation(solution.weights) <= 1e-9
    assert solution.bound <= naive_optimum(program) + 1e-8 <= solution.objective + 2e-8


def needs_half_of_one_column() -> WeightProgram:
    """Only w₀ ≥ 1/2 keeps the floor, and it costs."""
    return WeightProgram(
        np.zeros((0, 2)),
        np.zeros(0),
        np.array([1.0, 0.3]),
        np.array([[-1.0, 0.0]]),
        np.array([-0.5]),
    )


def test_pdlp_that_leaves_a_floor_broken_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # Lowering weights cannot mend a negative offset: a little is reported, much is an error.
    run = highs._run

    def off_by(amount: float) -> None:
        def below(*arguments: object) -> tuple[Floats, Floats]:
            _, row_dual = run(*arguments)  # type: ignore[arg-type]
            return np.array([0.5 - amount, 0.0]), row_dual

        monkeypatch.setattr(highs, "_run", below)

    off_by(5e-7)
    assert "a floor broken by 5.0e-07" in solve_with_pdlp(needs_half_of_one_column()).status
    off_by(0.1)
    with pytest.raises(SolverError, match=r"HiGHS PDLP ended.*check floor_offsets\[0\] = -0.5"):
        solve_with_pdlp(needs_half_of_one_column())


@settings(deadline=None, max_examples=200, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(0, 4), n=st.integers(1, 40))
def test_kept_floors_cost_no_more_than_needed(seed: int, m: int, n: int) -> None:
    program = random_program(seed, 1, m, n)
    weights = np.random.default_rng(seed).uniform(-0.1, 1.1, n)
    inside = np.clip(weights, 0, 1)
    kept = keep_floors(program, weights)
    assert program.violation(kept) <= 1e-9
    assert (kept <= inside).all()
    assert (kept >= 0).all()
    if program.violation(inside) == 0:
        np.testing.assert_array_equal(kept, inside)
    # Columns that push no floor stay as they are.
    still = (program.floor_rows <= 0).all(axis=0)
    np.testing.assert_array_equal(kept[still], inside[still])


def test_a_floor_at_zero_does_not_take_every_weight() -> None:
    program = WeightProgram(
        np.zeros((0, 3)), np.zeros(0), np.zeros(3), np.array([[1.0, -1.0, 0.0]]), np.zeros(1)
    )
    kept = keep_floors(program, np.array([0.5 + 1e-7, 0.5, 1.0]))
    np.testing.assert_allclose(kept, [0.5, 0.5, 1.0], atol=1e-12)


def test_an_option_that_highs_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "IPM", replace(highs.IPM, options=(("crossing", "over"),)))
    message = (
        r"HiGHS \d+.* does not know crossing=over, .*interior point.*install --upgrade highspy"
    )
    with pytest.raises(SolverError, match=message):
        solve_with_ipm(random_program(0, 2, 1, 5))


def test_a_model_that_highs_refuses() -> None:
    form = standard_form.standard_form(random_program(0, 2, 1, 5))
    twice = replace(form, index=np.zeros_like(form.index))  # entries that name one row again
    with pytest.raises(SolverError, match=r"refused model.* they are, so its numbers"):
        highs._load(highs.SIMPLEX, twice)


@every_solver
def test_values_that_are_not_finite(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(col_value=[np.nan], row_dual=[])
    monkeypatch.setattr(highspy.Highs, "getSolution", lambda _: nothing)
    with pytest.raises(SolverError, match=r"HiGHS .* ended with 'values that are not finite'"):
        solver(random_program(0, 2, 1, 5))


def test_more_entries_than_can_be_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    program = WeightProgram(
        np.ones((1, 5)), np.ones(1), np.zeros(5), np.ones((2, 5)), np.array([1.0, 2.0])
    )
    monkeypatch.setattr(standard_form, "MOST_ENTRIES", 17)
    solve_with_highs(program)
    monkeypatch.setattr(standard_form, "MOST_ENTRIES", 16)
    with pytest.raises(SolverError, match=r"5 weights and 3 rows has 15 entries.*at most 16.*use"):
        solve_with_highs(program)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(0, 4), m=st.integers(0, 3))
def test_the_standard_form_is_the_program_scaled(seed: int, k: int, m: int) -> None:
    program = random_program(seed, k, m, 7, 0.1)
    form = standard_form.standard_form(program)
    shape = (len(form.offsets), len(form.cost))
    matrix = csc_array((form.values, form.index, form.starts), shape=shape).toarray()
    equal, gap_open, floor_open = form.equations, form.sign == 0, form.still_open[k:]
    w: Floats = np.random.default_rng(seed).random(7)
    gaps = program.gap_offsets - program.gap_rows @ w
    parts = np.concatenate([np.maximum(gaps[gap_open], 0), np.maximum(-gaps[gap_open], 0)])
    x = np.concatenate([w, parts * np.tile(form.row_scale[:equal], 2)])
    left = matrix @ x
    floors = (program.floor_rows @ w)[floor_open] * form.row_scale[equal:]
    np.testing.assert_allclose(left[:equal], form.offsets[:equal], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(left[equal:], floors, rtol=1e-12, atol=1e-12)
    value = form.cost @ x / form.cost_scale + form.sign @ program.gap_offsets
    assert value == pytest.approx(program.objective(w), rel=1e-12)
    assert np.abs(matrix).max(axis=1, initial=0) == pytest.approx(np.ones(len(matrix)))
    assert np.abs(form.cost).max() == pytest.approx(1 if form.cost.any() else 0)
    assert form.upper.tolist() == [1.0] * 7 + [np.inf] * 2 * equal
    # What is settled holds at every corner, what is open at some corner does not.
    corners = (np.arange(2**7)[:, None] >> np.arange(7)) % 2
    gaps = program.gap_offsets - corners @ program.gap_rows.T
    assert (np.abs(gaps) == gaps * form.sign).all(axis=0).tolist() == (~gap_open).tolist()
    kept = corners @ program.floor_rows.T <= program.floor_offsets
    assert kept.all(axis=0).tolist() == (~floor_open).tolist()
