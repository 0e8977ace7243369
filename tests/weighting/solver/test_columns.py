from __future__ import annotations

import numpy as np
import pytest

from faircil.weighting.solver.columns import OPEN, HostColumns, Part


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> HostColumns:
    monkeypatch.setattr("faircil.weighting.solver.columns.CHUNK", 7)
    rng = np.random.default_rng(0)
    return HostColumns(
        rng.standard_normal((3, 50)), rng.standard_normal((2, 50)), rng.standard_normal(50)
    )


PRICES = np.array([0.3, -0.8, 0.1, 0.5, 0.0])


def one_by_one(columns: HostColumns, prices: np.ndarray) -> list[float]:
    """Reduced costs, column by column."""
    return [
        columns.cost[i]
        - prices[:3] @ columns.gap_rows[:, i]
        + prices[3:] @ columns.floor_rows[:, i]
        for i in range(len(columns))
    ]


def test_columns_are_fixed_by_sign_but_those_near_zero(columns: HostColumns) -> None:
    inside, fixed = columns.fix(PRICES, 0.4)
    reduced = one_by_one(columns, PRICES)
    assert inside.tolist() == [i for i, r in enumerate(reduced) if abs(r) <= 0.4]
    ones = [i for i, r in enumerate(reduced) if r < -0.4]
    for i in range(50):
        state = OPEN if i in inside else int(i in ones)
        assert columns.states(np.array([i])) == [state]
    part = columns.take(np.array(ones))
    assert np.allclose(part.rows.sum(axis=1), fixed)
    assert np.allclose(part.rows[3:], -columns.floor_rows[:, ones])
    assert np.array_equal(part.cost, columns.cost[ones])


def test_a_check_names_what_is_on_the_wrong_side(columns: HostColumns) -> None:
    columns.fix(PRICES, 0.4)
    before = columns.state.copy()
    moved = -PRICES
    check = columns.check(moved)
    reduced = np.array(one_by_one(columns, moved))
    wrong = [i for i in range(50) if before[i] != OPEN and (reduced[i] < 0) != bool(before[i])]
    assert wrong
    assert check.wrong.tolist() == wrong
    assert check.loss == pytest.approx(np.abs(reduced[wrong]).sum())
    assert check.negative == pytest.approx(reduced[reduced < 0].sum())
    ones = before == 1
    assert check.fixed_cost == pytest.approx(columns.cost[ones].sum())
    assert np.allclose(check.fixed[:3], columns.gap_rows[:, ones].sum(axis=1))
    assert np.allclose(check.fixed[3:], -columns.floor_rows[:, ones].sum(axis=1))


def test_weights_are_states_and_what_is_given(columns: HostColumns) -> None:
    inside, _ = columns.fix(PRICES, 0.4)
    weights = columns.weights(inside, np.full(len(inside), 0.25))
    assert (weights[inside] == 0.25).all()
    assert np.isin(np.delete(weights, inside), [0, 1]).all()
    columns.put(inside, np.zeros(len(inside), dtype=np.int8))
    assert not (columns.state == OPEN).any()


def test_a_part_is_columns_again() -> None:
    part = Part(np.arange(6.0).reshape(2, 3), np.ones(3)).times(2.0)
    again = HostColumns.of(part).take(np.array([2, 0]))
    assert again.rows.tolist() == [[4, 0], [10, 6]]
    assert again.cost.tolist() == [2, 2]
    assert HostColumns.of(Part(np.zeros((2, 0)), np.zeros(0))).fix(np.zeros(2), 1.0)[0].size == 0
