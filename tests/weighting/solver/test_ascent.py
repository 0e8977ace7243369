from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from faircil.weighting.groups import Floats
from faircil.weighting.solver.ascent import Limits, StuckError, ascend


def height(columns: Floats, cost: Floats, offsets: Floats, prices: Floats) -> float:
    """Return the value of the dual."""
    return float(prices @ offsets + np.minimum(0, cost - prices @ columns).sum())


def case(seed: int, r: int, n: int) -> tuple[Floats, Floats, Floats, Limits]:
    """Return columns, cost, offsets and limits, rows in different units."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((r, n)) * 10.0 ** rng.integers(-3, 4, (r, 1))
    offsets = columns @ rng.random(n) + rng.standard_normal(r)
    lower = -rng.random(r)
    return columns, rng.standard_normal(n), offsets, Limits(lower, lower + 2 * rng.random(r))


def test_one_gap_two_columns() -> None:
    # |1 − w₁ − w₂| + 0.1 w₂: the first column closes the gap for nothing.
    columns = np.ones((1, 2))
    limits = Limits(-np.ones(1), np.ones(1))
    vertex = ascend(columns, np.array([0.0, 0.1]), np.ones(1), limits, np.zeros(1))
    assert vertex.weights.tolist() == [1, 0]
    assert 0 <= vertex.prices[0] <= 0.1


@settings(deadline=None, max_examples=80, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), r=st.integers(1, 6), n=st.integers(1, 30))
def test_no_prices_are_higher(seed: int, r: int, n: int) -> None:
    columns, cost, offsets, limits = case(seed, r, n)
    rng = np.random.default_rng(seed)
    vertex = ascend(columns, cost, offsets, limits, np.zeros(r))
    best = height(columns, cost, offsets, vertex.prices)
    digits = 1e-9 * (1 + abs(best) + np.abs(offsets).sum())
    assert (vertex.prices >= limits.lower).all()
    assert (vertex.prices <= limits.upper).all()
    for other in rng.uniform(limits.lower, limits.upper, (50, r)):
        assert height(columns, cost, offsets, other) <= best + digits
        toward = vertex.prices + 1e-4 * (other - vertex.prices)
        assert height(columns, cost, offsets, toward) <= best + digits
    # The weights are what proves it: what they leave of the offsets pushes prices to their limits.
    left = offsets - columns @ vertex.weights
    reached = np.where(left > 0, limits.upper, limits.lower) @ left + cost @ vertex.weights
    assert reached == pytest.approx(best, abs=digits)


@pytest.mark.parametrize("seed", range(10))
def test_any_start_ends_at_the_same_height(seed: int) -> None:
    columns, cost, offsets, limits = case(seed, 5, 200)
    first = ascend(columns, cost, offsets, limits, np.zeros(5))
    starts = np.random.default_rng(seed).uniform(limits.lower, limits.upper, (5, 5))
    best = height(columns, cost, offsets, first.prices)
    for start in [*starts, limits.lower, limits.upper]:
        other = ascend(columns, cost, offsets, limits, start)
        assert height(columns, cost, offsets, other.prices) == pytest.approx(best)
    again = ascend(columns, cost, offsets, limits, first.prices, first.active)
    assert again.steps == 1
    assert np.allclose(again.weights, first.weights)


def test_few_weights_are_between_0_and_1() -> None:
    columns, cost, offsets, limits = case(0, 6, 2000)
    vertex = ascend(columns, cost, offsets, limits, np.zeros(6))
    between = np.flatnonzero((vertex.weights > 0) & (vertex.weights < 1))
    assert set(between) <= set(vertex.active)
    assert len(vertex.active) <= 6
    assert vertex.steps < 60


def test_an_ascent_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, cost, offsets, limits = case(1, 4, 50)
    monkeypatch.setattr("faircil.weighting.solver.ascent._Climb._move", lambda *_: None)
    with pytest.raises(StuckError, match="no end after 400 steps"):
        ascend(columns, cost, offsets, limits, np.zeros(4))
