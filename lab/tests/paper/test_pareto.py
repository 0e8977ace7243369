from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from faircil_lab.paper.comparison import dominated, front

values = st.integers(0, 4).map(lambda number: number / 4)
points = st.lists(st.tuples(values, values), min_size=1, max_size=8).map(np.array)


@given(points, points)
def test_a_point_is_dominated_if_another_beats_it_in_both(
    some: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    slow = [any(b[0] > a[0] and b[1] < a[1] for b in others) for a in some]
    assert dominated(some, others).tolist() == slow


@given(points)
def test_a_front_has_no_dominated_point_and_dominates_all_others(
    some: NDArray[np.float64],
) -> None:
    kept = front(some)
    assert not dominated(kept, some).any()
    left = [point for point in some.tolist() if point not in kept.tolist()]
    assert dominated(np.array(left).reshape(-1, 2), kept).all()
    assert (np.diff(kept[:, 0]) >= 0).all()


def test_nothing_dominates_without_others() -> None:
    assert not dominated(np.array([[0.5, 0.5]]), np.empty((0, 2))).any()
