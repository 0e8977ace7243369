from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from faircil.errors import DataError
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.program import Dual, WeightProgram, formulate

quick = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def random_program(rng: np.random.Generator) -> WeightProgram:
    k, m, n = rng.integers(0, 5), rng.integers(0, 3), rng.integers(1, 8)
    return WeightProgram(
        rng.normal(size=(k, n)),
        rng.normal(size=k),
        rng.normal(size=n),
        rng.normal(size=(m, n)),
        rng.uniform(0, 1, m),
    )


@quick
@given(seed=seeds, floor=st.booleans())
def test_the_program_is_the_methods_formula(seed: int, floor: bool) -> None:
    rng = np.random.default_rng(seed)
    label = np.sort(rng.integers(0, 4, rng.integers(1, 9)))
    current = rng.random(len(label)) < 0.5
    current[0] = True  # there is a current task
    g, n = len(label), 5
    groups = Groups(label, np.arange(g), current, np.ones(g, dtype=np.int64))
    losses, aligned = rng.uniform(0, 3, g), rng.uniform(-1, 1, (g, n))
    disparity, weights = rng.normal(size=(3, g)), rng.uniform(0, 1, n)
    alpha, lam = rng.uniform(0.01, 2), rng.uniform(0, 2)
    got = formulate(aligned, losses, groups, disparity, alpha=alpha, lam=lam, floor=floor)

    predicted = [losses[j] - alpha * sum(weights * aligned[j]) for j in range(g)]
    classes = [
        np.mean([predicted[j] for j in range(g) if current[j] and label[j] == y])
        for y in sorted(set(label[current]))
    ]
    gaps = sum(abs(sum(row[j] * predicted[j] for j in range(g))) for row in disparity)
    assert got.program.objective(weights) + got.constant == pytest.approx(
        gaps + lam * np.mean(classes)
    )
    assert got.program.violation(weights) == pytest.approx(max(0, -min(classes)) if floor else 0)
    assert len(got.program.floor_rows) == (len(classes) if floor else 0)


def feasible(program: WeightProgram, weights: Floats) -> Floats:
    """Shrink weights until they keep every floor; 0 does."""
    used = program.floor_rows @ weights
    with np.errstate(divide="ignore"):
        share = np.where(used > 0, program.floor_offsets / used, 1.0)
    return weights * float(share.min(initial=1.0))


@quick
@given(seeds, st.floats(0, 100))
def test_any_dual_proves_a_bound(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    k, m = len(program.gap_rows), len(program.floor_rows)
    bound = program.bound(Dual(size * rng.normal(size=k), size * rng.normal(size=m)))
    for _ in range(20):
        weights = feasible(
            program, rng.uniform(0, 1) * rng.integers(0, 2, len(program)).astype(np.float64)
        )
        assert bound <= program.objective(weights) + 1e-12


@quick
@given(seeds)
def test_parts_of_a_program_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    inside = np.flatnonzero(rng.random(len(program)) < 0.5)
    fixed, free = rng.uniform(0, 1, (2, len(program)))
    fixed[inside] = 0
    whole = fixed.copy()
    whole[inside] = free[inside]
    part = program.without(fixed).columns(inside)
    assert part.objective(free[inside]) + program.cost @ fixed == pytest.approx(
        program.objective(whole)
    )
    assert part.violation(free[inside]) == pytest.approx(program.violation(whole))
    doubled = program.columns(inside, scale=2.0)
    fixed[:] = 0
    fixed[inside] = 2 * free[inside]
    assert doubled.objective(free[inside]) == pytest.approx(program.objective(fixed))
    assert doubled.violation(free[inside]) == pytest.approx(program.violation(fixed))


def test_the_dual_sees_floors_negated() -> None:
    program = random_program(np.random.default_rng(0))
    k, prices = len(program.gap_rows), np.random.default_rng(1).uniform(0, 1, len(program.offsets))
    dual = Dual(prices[:k], prices[k:])
    mixed = np.append(-prices, 1.0) @ program.stacked()
    assert mixed == pytest.approx(program.reduced_cost(dual))
    fixed = prices @ program.offsets
    assert fixed + np.minimum(mixed, 0).sum() == pytest.approx(program.bound(dual))


def test_lists_become_float64() -> None:
    program = WeightProgram([[1, 2]], [3], [0, 1], np.zeros((0, 2)), [])  # type: ignore[arg-type]
    assert {array.dtype for array in vars(program).values()} == {np.dtype(np.float64)}
    assert len(program) == 2


def test_all_mistakes_are_named() -> None:
    with pytest.raises(DataError) as caught:
        WeightProgram(
            np.zeros((2, 3)),
            np.zeros(1),
            np.array([0, np.nan, 1]),
            np.full((2, 4), np.inf),
            np.zeros((2, 1)),
        )
    message = str(caught.value)
    assert "cost has NaN or infinite" in message
    assert "floor_rows has NaN or infinite" in message
    assert "gap_rows has shape (2, 3), expected (1, 3)" in message
    assert "floor_rows has shape (2, 4), expected (2, 3)" in message
    assert "floor_offsets has shape (2, 1), expected one axis" in message


def test_entries_whose_squares_are_not_finite() -> None:
    no_floor = np.zeros((0, 1)), np.zeros(0)
    with pytest.raises(DataError, match=r"gap_offsets has entries up to 1\.0e\+200, expected at"):
        WeightProgram(np.ones((1, 1)), [1e200], np.zeros(1), *no_floor)  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [1.0, np.zeros((3, 1))])
def test_cost_has_one_axis(cost: Floats) -> None:
    with pytest.raises(DataError, match=r"cost has shape .* expected one axis"):
        WeightProgram(np.zeros((1, 3)), np.zeros(1), cost, np.zeros((0, 3)), np.zeros(0))
