from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram
from faircil.weighting.solver import first_order
from faircil.weighting.solver.first_order import Saddle, Search, solve_first_order
from faircil.weighting.solver.highs import solve_with_highs
from hard_programs import KINDS, hard_program, random_program


def check(program: WeightProgram, solution: Solution) -> None:
    """Assert that the weights are feasible and the claim true, with HiGHS' optimum in between."""
    weights = solution.weights
    assert weights.shape == (len(program),)
    assert weights.min() >= 0
    assert weights.max() <= 1
    excess = program.floor_rows @ weights - program.floor_offsets
    assert (excess <= 1e-12 * np.abs(program.floor_rows).sum(axis=1)).all()
    assert solution.objective == pytest.approx(program.objective(weights), rel=1e-12)
    assert solution.bound == program.bound(solution.dual)
    best = solve_with_highs(program)
    rounding = 1e-12 * np.abs(program.gap_rows).sum() + 1e-9 * size(program)
    assert solution.bound <= best.objective + rounding
    assert solution.objective >= best.bound - rounding
    assert solution.status.startswith("approximate (first order, gap ")


def check_near(program: WeightProgram, solution: Solution) -> None:
    """Assert besides that the promised gap was reached."""
    check(program, solution)
    gain = np.abs(program.gap_offsets).sum() - solution.bound
    assert solution.gap <= max(1e-4 * gain, 1e-9 * size(program))
    assert "limit" not in solution.status


def size(program: WeightProgram) -> float:
    return float(np.abs(program.gap_offsets).sum() + np.abs(program.cost).sum())


@settings(deadline=None, max_examples=120, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(0, 6),
    m=st.integers(0, 3),
    n=st.integers(1, 60),
    scale=st.sampled_from([1e-12, 1e-6, 1e-2, 1.0, 1e6]),
)
def test_random_programs(seed: int, k: int, m: int, n: int, scale: float) -> None:
    program = random_program(seed, k, m, n, scale)
    check_near(program, solve_first_order(program))


@pytest.mark.parametrize("kind", KINDS)
def test_hard_programs(kind: str) -> None:
    for seed in range(25):
        program = hard_program(np.random.default_rng(seed), kind)
        try:
            solution = solve_first_order(program)
        except SolverError:
            with pytest.raises(SolverError):
                solve_with_highs(program)
        else:
            check(program, solution)


def test_programs_of_digits(digit_program: Callable[..., WeightProgram]) -> None:
    for measure, alpha in (("eo", "auto"), ("eo", 1e-5), ("dp", 1e-3)):
        program = digit_program(measure, alpha)
        solution = solve_first_order(program)
        check_near(program, solution)
        assert solution.objective < program.objective(np.zeros(len(program)))
        assert solution.passes is not None
        assert solution.passes >= 8
        assert solution.seconds > 0


@pytest.mark.parametrize("length", [1e-310, 1e-22, 1e-13])
@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_rows_of_rounding_noise(length: float, offset: float) -> None:
    program = random_program(2, 4, 2, 50, 0.01)
    program.gap_rows[1] *= length / 0.01
    program.gap_offsets[1] = offset
    program.floor_rows[1] *= length / 0.01
    program.floor_offsets[1] = 0.3
    check_near(program, solve_first_order(program))


def test_without_rows_the_sign_of_the_cost_decides_at_once() -> None:
    nothing = np.zeros((0, 3)), np.zeros(0)
    solution = solve_first_order(WeightProgram(*nothing, np.array([-2.0, 0.0, 1.0]), *nothing))
    assert solution.weights.tolist() == [1, 0, 0]
    assert solution.objective == solution.bound == -2
    assert solution.status == "approximate (first order, gap 0.0e+00, 0 iterations)"


def test_floors_that_leave_no_room() -> None:
    # The first weight has to be 0, and nothing but 0 keeps its floor; the second is free.
    program = WeightProgram(
        np.array([[1.0, 1.0]]),
        np.array([2.0]),
        np.array([-1.0, -1.0]),
        np.array([[1.0, 0.0], [0.0, -1.0]]),
        np.zeros(2),
    )
    solution = solve_first_order(program)
    check_near(program, solution)
    assert solution.weights == pytest.approx([0, 1], abs=1e-3)


def test_a_floor_that_only_one_weight_keeps() -> None:
    program = random_program(3, 3, 1, 600, 0.01)
    program.floor_rows[:] = 0
    program.floor_rows[0, 7], program.floor_offsets[0] = -1, -0.5
    solution = solve_first_order(program)
    check_near(program, solution)
    assert solution.weights[7] >= 0.5


@pytest.mark.parametrize(
    ("rows", "offsets"),
    [([-1.0], [-200.0]), ([1.0, -1.0], [3.0, -5.0])],
    ids=["one cannot be kept", "two cannot be kept together"],
)
def test_floors_that_nothing_keeps_are_an_error(rows: list[float], offsets: list[float]) -> None:
    n = 50
    program = WeightProgram(
        np.ones((1, n)),
        np.ones(1),
        np.zeros(n),
        np.outer(rows, np.ones(n)),
        np.array(offsets),
    )
    with pytest.raises(
        SolverError, match=r"'Infeasible'.* 50 weights.*check floor_offsets\[[01]\]"
    ):
        solve_first_order(program)


def test_at_the_limit_the_rest_of_the_gap_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_order, "LIMIT", 40)
    program = random_program(4, 6, 2, 3000, 0.01)
    solution = solve_first_order(program)
    check(program, solution)
    assert solution.status.endswith("40 iterations, the limit)")
    assert solution.gap > 1e-4 * (np.abs(program.gap_offsets).sum() - solution.bound)


def test_floors_still_broken_at_the_limit_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_order, "LIMIT", 0)
    floor = -np.eye(3)[:1]
    program = WeightProgram(np.ones((1, 3)), np.zeros(1), np.ones(3), floor, np.array([-0.5]))
    with pytest.raises(SolverError, match=r"'floors broken at iteration 0'.*check floor_offsets"):
        solve_first_order(program)


def test_an_iteration_in_chunks_is_that_of_the_whole_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = random_program(5, 4, 2, 100, 0.01)
    whole = Search(program)
    monkeypatch.setattr(first_order, "CHUNK", 7)
    parts = Search(program)
    step, rows = 0.999 / whole.saddle.norm, whole.saddle.table[:-1]
    weights, prices = whole.found.weights.copy(), whole.found.prices
    new = np.clip(weights - step / whole.balance * (program.cost - prices @ rows), 0, 1)
    price = prices + step * whole.balance * (whole.saddle.offsets - rows @ (2 * new - weights))
    parts._step()
    assert np.allclose(parts.found.weights, new, rtol=0, atol=1e-12)
    assert np.allclose(parts.found.prices, np.clip(price, whole.saddle.lower, whole.saddle.upper))
    # Twice as far, and half of the way back to the anchor, where it started.
    assert np.allclose(parts.moving.weights, (2 * new - weights + weights) / 2, atol=1e-12)
    for _ in range(3):
        parts.advance()
    for point in (parts.found, parts.moving):  # products are carried along, not multiplied anew
        assert np.allclose(point.products, rows @ point.weights, rtol=0, atol=1e-10)


def test_rows_are_scaled_to_length_1() -> None:
    program = random_program(6, 3, 2, 30, 0.01)
    saddle = Saddle.of(program)
    rows = np.vstack([program.gap_rows, -program.floor_rows])
    assert np.allclose(np.linalg.norm(saddle.table[:-1], axis=1), 1)
    assert np.allclose(saddle.table[:-1], rows / np.linalg.norm(rows, axis=1)[:, None])
    assert saddle.norm == pytest.approx(np.linalg.norm(saddle.table[:-1], 2))


def test_the_program_is_left_as_it_was_and_the_result_repeats() -> None:
    program = random_program(7, 3, 2, 200, 0.01)
    arrays = [array.copy() for array in vars(program).values()]
    first, again = solve_first_order(program), solve_first_order(program)
    assert all(
        np.array_equal(now, then) for now, then in zip(vars(program).values(), arrays, strict=True)
    )
    assert np.array_equal(first.weights, again.weights)
    assert first.bound == again.bound


def test_arrays_of_any_kind() -> None:
    program = random_program(8, 3, 2, 200, 0.01)
    kinds = [np.asfortranarray, lambda array: np.repeat(array, 2, axis=-1)[..., ::2]]
    expected = solve_first_order(program)
    for kind in kinds:
        columns = [kind(a) for a in (program.gap_rows, program.cost, program.floor_rows)]
        other = WeightProgram(
            columns[0], program.gap_offsets, columns[1], columns[2], program.floor_offsets
        )
        solution = solve_first_order(other)
        assert solution.objective == pytest.approx(expected.objective, rel=1e-6)
    single = WeightProgram(*(array.astype(np.float32) for array in vars(program).values()))
    check_near(single, solve_first_order(single))
