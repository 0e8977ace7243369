from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from faircil.postprocess import optimum
from faircil.postprocess.pool import Floats, Pool, largest_gap, normalised


def make_pool(
    n: int, classes: int, groups: int, seed: int, *, sharp: float = 2.0, digits: int | None = None
) -> Pool:
    """Draw a pool with unequal weights, shares and class rates; few digits make many ties."""
    generator = np.random.default_rng(seed)
    group = np.concatenate([np.arange(groups), generator.integers(0, groups, n - groups)])
    bias = generator.normal(size=(groups, classes))
    logits = sharp * generator.normal(size=(n, classes)) + bias[group]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if digits is not None:
        p = np.round(p, digits)
    share = generator.dirichlet(5 * np.ones(groups))
    return Pool(p, group, normalised(generator.uniform(0.2, 3, n), group), share)


def naive_value(pool: Pool, epsilon: float) -> float:
    """Solve the program as it is written, dense, one row per sample and two per limit."""
    n, k = pool.probabilities.shape
    weight = pool.share[pool.group] * pool.mass
    limits = []
    for z in range(len(pool.share)):
        for label in range(k):
            row = np.zeros((n, k))
            row[:, label] = np.where(pool.group == z, pool.mass, 0) - weight
            limits += [row.ravel(), -row.ravel()]
    one_class_each = np.kron(np.eye(n), np.ones(k))
    result: Any = linprog(
        -(weight[:, None] * pool.probabilities).ravel(),
        A_ub=np.array(limits),
        b_ub=np.full(len(limits), epsilon),
        A_eq=one_class_each,
        b_eq=np.ones(n),
        bounds=(0, 1),
    )
    assert result.status == 0
    return float(-result.fun)


def check(pool: Pool, epsilon: float, chances: Floats) -> None:
    assert chances.min() >= -1e-9
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-8)
    assert largest_gap(pool.rates(chances), pool.share) <= epsilon + 1e-8


@given(
    n=st.integers(3, 40),
    classes=st.integers(2, 4),
    groups=st.integers(2, 3),
    epsilon=st.sampled_from([0.0, 0.01, 0.05, 0.3]),
    digits=st.sampled_from([None, 1]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_optimum_is_that_of_the_naive_program_with_a_proof(
    n: int, classes: int, groups: int, epsilon: float, digits: int | None, seed: int
) -> None:
    pool = make_pool(n, classes, groups, seed, digits=digits)
    found = optimum.solve(pool, epsilon, np.random.default_rng(0))
    check(pool, epsilon, found.chances)
    assert pool.value(found.chances) == pytest.approx(naive_value(pool, epsilon), abs=1e-8)
    assert found.bound(pool, epsilon) == pytest.approx(pool.value(found.chances), abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize(
    ("classes", "groups", "sharp", "digits"),
    [(2, 2, 2, None), (4, 3, 2, None), (3, 2, 30, None), (4, 2, 2, 1)],
)
def test_merging_and_starting_from_a_part_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
    epsilon: float,
    classes: int,
    groups: int,
    sharp: float,
    digits: int | None,
) -> None:
    pool = make_pool(300, classes, groups, 1, sharp=sharp, digits=digits)
    whole = optimum.solve(pool, epsilon, np.random.default_rng(0))
    sizes = []
    solve_with = optimum._solve_with

    def recording(pool: Pool, epsilon: float, allowed: NDArray[np.bool_]) -> optimum.Optimum:
        sizes.append(len(pool.mass))
        return solve_with(pool, epsilon, allowed)

    monkeypatch.setattr(optimum, "_solve_with", recording)
    monkeypatch.setattr(optimum, "WHOLE", 20)
    monkeypatch.setattr(optimum, "NEAR", 10)
    found = optimum.solve(pool, epsilon, np.random.default_rng(0))
    assert len(sizes) > 3
    check(pool, epsilon, found.chances)
    assert pool.value(found.chances) == pytest.approx(pool.value(whole.chances), abs=1e-8)
    assert found.bound(pool, epsilon) == pytest.approx(pool.value(whole.chances), abs=1e-8)


def test_large_pools_are_merged_and_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(6000, 10, 2, 3, sharp=4)
    sizes = []
    solve_with = optimum._solve_with

    def recording(pool: Pool, epsilon: float, allowed: NDArray[np.bool_]) -> optimum.Optimum:
        sizes.append(int(allowed.sum()))
        return solve_with(pool, epsilon, allowed)

    monkeypatch.setattr(optimum, "_solve_with", recording)
    found = optimum.solve(pool, 0.02, np.random.default_rng(0))
    check(pool, 0.02, found.chances)
    assert found.bound(pool, 0.02) - pool.value(found.chances) <= 1e-9
    assert max(sizes) < 10_000  # of 60,000 chances


def test_as_many_groups_as_samples() -> None:
    pool = make_pool(450, 2, 300, 0)
    found = optimum.solve(pool, 0.0, np.random.default_rng(0))
    check(pool, 0.0, found.chances)


def test_any_prices_bound_any_predictions() -> None:
    pool = make_pool(50, 3, 2, 0)
    best = optimum.solve(pool, 0.05, np.random.default_rng(0))
    generator = np.random.default_rng(1)
    for _ in range(20):
        prices = best.prices + 0.1 * generator.normal(size=best.prices.shape)
        prices -= prices.mean(axis=0)
        other = optimum.Optimum(best.chances, prices, generator.normal(size=3))
        assert other.bound(pool, 0.05) >= pool.value(best.chances) - 1e-9
