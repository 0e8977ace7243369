from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from faircil.errors import SolverError
from faircil.weighting import WeightProgram
from faircil.weighting.solver import exact
from faircil.weighting.solver.ascent import StuckError
from faircil.weighting.solver.exact import solve_exactly
from faircil.weighting.solver.highs import solve_with_highs
from hard_programs import KINDS, OWN, check, hard_program, rounding

Programs = Callable[..., WeightProgram]


def agree(program: WeightProgram) -> None:
    """Solve by both solvers and hold the results against each other."""
    try:
        reference = solve_with_highs(program)
    except SolverError:
        reference = None
    try:
        solution = solve_exactly(program)
    except SolverError:
        assert reference is None
        return
    check(program, solution)
    if reference is not None:
        digits = 1e-8 * (1 + abs(reference.objective)) + rounding(program, solution)
        assert solution.objective <= reference.objective + digits
        assert solution.bound <= reference.objective + digits


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=160, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_hard_programs_have_the_optimum_of_highs(kind: str, seed: int) -> None:
    agree(hard_program(np.random.default_rng(seed), kind))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=110, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_same_through_samples_and_bands(kind: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SMALL", 30)
        patch.setattr(exact, "SAMPLE", 12)
        agree(hard_program(np.random.default_rng(seed), kind, most=300))


@pytest.mark.parametrize("alpha", ["auto", 1e-6, 1e-3, 10.0])
@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
def test_programs_of_digits_need_no_other_solver(
    measure: str, alpha: float | str, digit_program: Programs
) -> None:
    program = digit_program(measure, alpha)
    solution = solve_exactly(program)
    check(program, solution)
    assert solution.status.startswith(OWN)
    assert solution.objective == pytest.approx(solve_with_highs(program).objective, abs=1e-8)


def grown(program: WeightProgram, n: int, seed: int = 0) -> WeightProgram:
    """More columns of the same kind."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(program), n)
    factor = (1 + 0.02 * rng.standard_normal(n)) * len(program) / n
    return replace(
        program,
        gap_rows=program.gap_rows[:, chosen] * factor,
        cost=program.cost[chosen] * factor,
        floor_rows=program.floor_rows[:, chosen] * factor,
    )


@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
def test_large_programs_take_few_passes(measure: str, digit_program: Programs) -> None:
    program = grown(digit_program(measure), 200_000)
    solution = solve_exactly(program)
    check(program, solution)
    assert solution.status.startswith(OWN)
    assert solution.passes is not None
    assert 2 <= solution.passes <= 10
    kept = solution.weights[(solution.weights == 0) | (solution.weights == 1)]
    assert len(kept) >= 200_000 - len(program.gap_rows) - len(program.floor_rows)


def test_columns_that_are_all_equal() -> None:
    ones = np.ones(10_000) / 10_000
    program = WeightProgram(
        np.stack([ones, -ones]), np.array([0.3, 0.2]), 0 * ones, ones[None], np.array([0.7])
    )
    solution = solve_exactly(program)
    check(program, solution)
    assert solution.objective == pytest.approx(0.5)


def test_any_layout_and_precision() -> None:
    program = hard_program(np.random.default_rng(5), "plain")
    expected = solve_exactly(program)
    strided = replace(
        program,
        gap_rows=np.asfortranarray(np.repeat(program.gap_rows, 2, axis=1))[:, ::2],
        cost=np.repeat(program.cost, 3)[::3],
    )
    assert np.array_equal(solve_exactly(strided).weights, expected.weights)
    rough = WeightProgram(*(array.astype(np.float32) for array in vars(program).values()))  # type: ignore[arg-type]
    check(rough, solve_exactly(rough))


def test_what_the_own_solver_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: object) -> None:
        raise StuckError("it is Sunday")

    monkeypatch.setattr(exact, "solve_columns", stuck)
    program = hard_program(np.random.default_rng(7), "plain")
    solution = solve_exactly(program)
    assert "HiGHS" in solution.status
    assert "since our solver failed: it is Sunday" in solution.status
    check(program, solution)
