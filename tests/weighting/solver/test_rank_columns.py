"""Programs whose columns are on several ranks, against the same programs in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from faircil.errors import SolverError
from faircil.ranks import ALONE, Ranks, shards_of
from faircil.weighting import Solution, WeightProgram
from faircil.weighting.choice import stored_rows
from faircil.weighting.solver import exact
from faircil.weighting.solver.columns import Columns, DeviceColumns, HostColumns
from faircil.weighting.solver.exact import solve_exactly
from faircil.weighting.solver.rank_columns import RankSolution, solve_over_ranks
from hard_programs import KINDS, check, hard_program, random_program, rounding
from together import in_ranks


def solve_in_shards(
    program: WeightProgram,
    shards: int,
    ranks: Ranks = ALONE,
    solver: str = "auto",
    device: bool = False,
) -> RankSolution:
    """Solve with column i in shard i % shards."""
    mine: list[Columns] = []
    for shard in shards_of(ranks.rank, ranks.size, shards):
        part = program.columns(np.arange(shard, len(program), shards))
        host = HostColumns(part.gap_rows, part.floor_rows, part.cost)
        mine.append(DeviceColumns(stored_rows(part, "cpu")) if device else host)
    return solve_over_ranks(mine, program.offsets, len(program.gap_offsets), ranks, solver)


def whole(parts: list[np.ndarray], n: int) -> np.ndarray:
    """Put weights of shards together again."""
    weights = np.empty(n)
    for shard, part in enumerate(parts):
        weights[shard :: len(parts)] = part
    return weights


def compare(program: WeightProgram, found: RankSolution) -> None:
    """Assert what a solution promises, and hold it against that of one place."""
    weights, expected = whole(found.weights, len(program)), solve_exactly(program)
    solution = Solution(weights, found.objective, found.bound, found.status, 0.0, found.dual)
    check(program, solution)
    digits = 1e-9 * (1 + abs(expected.objective))
    close = 2 * digits + rounding(program, solution) + rounding(program, expected)
    assert abs(found.objective - expected.objective) <= close


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [1, 3])
@settings(deadline=None, max_examples=40, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_columns_in_shards_have_the_optimum_of_one_place(kind: str, shards: int, seed: int) -> None:
    program = hard_program(np.random.default_rng(seed), kind, most=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SMALL", 30)
        patch.setattr(exact, "SAMPLE", 12)
        try:
            solve_exactly(program)
        except SolverError:
            with pytest.raises(SolverError):
                solve_in_shards(program, shards)
            return
        compare(program, solve_in_shards(program, shards))


def test_one_shard_is_solved_to_the_same_bits_as_no_shards() -> None:
    program = random_program(3, 5, 2, 9000)
    found, expected = solve_in_shards(program, 1), solve_exactly(program)
    assert np.array_equal(found.weights[0], expected.weights)
    assert (found.objective, found.bound) == (expected.objective, expected.bound)


def equal_columns(n: int) -> WeightProgram:
    column = np.array([[0.5], [-0.25]]) / n
    return WeightProgram(
        np.tile(column, n), np.array([0.3, 0.1]), np.full(n, -0.01 / n), np.ones((1, n)) / n, [0.4]
    )


def zeros(n: int) -> WeightProgram:
    return WeightProgram(np.zeros((2, n)), np.ones(2), np.zeros(n), np.zeros((1, n)), np.ones(1))


def ties(n: int) -> WeightProgram:
    """The cost is a sum of floor rows: at price 1 for each, all reduced costs are 0."""
    rng = np.random.default_rng(1)
    floors = rng.uniform(0, 1, (2, n)) / n
    gaps = rng.standard_normal((3, n)) / n
    return WeightProgram(gaps, gaps.sum(axis=1) / 2, -floors.sum(axis=0), floors, [0.2, 0.3])


@pytest.mark.parametrize("make", [equal_columns, zeros, ties])
@pytest.mark.parametrize("device", [False, True])
def test_degenerate_programs(make: type, device: bool) -> None:
    program = make(8000)
    compare(program, solve_in_shards(program, 4, device=device))


def test_another_solver_is_given_the_whole_program() -> None:
    program = random_program(4, 4, 2, 500)
    found = solve_in_shards(program, 3, solver="highs")
    assert "HiGHS" in found.status
    compare(program, found)


def solved(ranks: Ranks, shards: int) -> list[RankSolution]:
    programs = [random_program(5, 6, 2, 9000), equal_columns(5000), ties(7000)]
    return [
        solve_in_shards(program, shards, ranks, solver)
        for program in programs
        for solver in ("auto", "highs")
    ]


def failed(ranks: Ranks) -> str:
    """Floors that nothing can keep."""
    program = WeightProgram(np.ones((1, 6)), [1.0], np.ones(6), -np.ones((1, 6)), [-7.0])
    with pytest.raises(SolverError) as caught:
        solve_in_shards(program, 2, ranks)
    return str(caught.value)


def solved_and_failed(ranks: Ranks, shards: int) -> tuple[list[RankSolution], str]:
    return solved(ranks, shards), failed(ranks)


def test_ranks_solve_to_the_bits_of_one_process_and_fail_alike(tmp_path: Path) -> None:
    ((alone, problem),) = in_ranks(tmp_path, 1, solved_and_failed, 4)
    assert "floor_offsets[0] = -7" in problem
    first, second = in_ranks(tmp_path, 2, solved_and_failed, 4)
    assert first[1] == second[1] == problem
    for one, *two in zip(alone, first[0], second[0], strict=True):
        weights = [*two[0].weights, *two[1].weights]
        assert all(map(np.array_equal, one.weights, weights))
        for found in two:
            assert (found.objective, found.bound, found.status) == (
                one.objective,
                one.bound,
                one.status,
            )
