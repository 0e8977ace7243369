"""Rows with equal keys, against numpy and plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.samples import rows_of_groups, unique_rows

quick = settings(deadline=None, max_examples=60)
triples = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-1, 1)), min_size=1, max_size=20
)


@pytest.mark.parametrize("far", [0, 10**12])  # values far apart are told apart another way
@quick
@given(triples)
def test_unique_rows_are_numpys(far: int, rows: list[tuple[int, int, int]]) -> None:
    keys = np.array(rows) * (1 + far) - far
    unique, index = (result.numpy() for result in unique_rows(torch.from_numpy(keys)))
    expected, inverse = np.unique(keys, axis=0, return_inverse=True)
    assert np.array_equal(unique, expected)
    assert np.array_equal(index, inverse.reshape(-1))


@quick
@given(st.lists(st.integers(-1, 3), max_size=20))
def test_rows_of_groups_are_in_order(index: list[int]) -> None:
    rows = rows_of_groups(torch.tensor(index, dtype=torch.int64), 4)
    assert [part.tolist() for part in rows] == [
        [i for i, g in enumerate(index) if g == group] for group in range(4)
    ]
