from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from faircil_lab.paper.comparison import beaten
from faircil_lab.paper.tradeoff import front_of

values = st.integers(0, 4).map(lambda number: number / 4)
points = st.lists(st.tuples(values, values), min_size=1, max_size=8).map(np.array)


@given(points, points)
def test_a_point_is_beaten_if_another_is_no_worse_in_both_and_better_in_one(
    some: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    def beats(b: NDArray[np.float64], a: NDArray[np.float64]) -> bool:
        return bool(b[0] >= a[0] and b[1] <= a[1] and tuple(a) != tuple(b))

    slow = [any(beats(other, point) for other in others) for point in some]
    assert beaten(some, others).tolist() == slow


@given(points)
def test_a_front_has_no_beaten_point_and_beats_all_others(
    some: NDArray[np.float64],
) -> None:
    kept = front_of(some)
    assert not beaten(kept, some).any()
    left = [point for point in some.tolist() if point not in kept.tolist()]
    assert beaten(np.array(left).reshape(-1, 2), kept).all()
    assert (np.diff(kept[:, 0]) >= 0).all()


def test_nothing_dominates_without_others() -> None:
    assert not beaten(np.array([[0.5, 0.5]]), np.empty((0, 2))).any()
