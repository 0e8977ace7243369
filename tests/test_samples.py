from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from faircil.errors import DataError
from faircil.samples import (
    Samples,
    concatenate,
    group_counts,
    refuse_unknown,
    rows_of_groups,
    unique_rows,
)

X = torch.arange(12.0).reshape(4, 3)
Y = torch.tensor([1, 0, 1, 1])
Z = torch.tensor([0, 0, 1, 0])


@pytest.mark.parametrize(
    ("z", "keys", "counts"),
    [
        (None, [[1], [0], [1], [1]], {(0,): 1, (1,): 3}),
        (Z, [[1, 0], [0, 0], [1, 1], [1, 0]], {(0, 0): 1, (1, 0): 2, (1, 1): 1}),
        (
            torch.stack([Z, Y], dim=1),
            [[1, 0, 1], [0, 0, 0], [1, 1, 1], [1, 0, 1]],
            {(0, 0, 0): 1, (1, 0, 1): 2, (1, 1, 1): 1},
        ),
    ],
)
def test_keys_and_counts(
    z: Tensor | None, keys: list[list[int]], counts: dict[tuple[int, ...], int]
) -> None:
    samples = Samples(X, Y, z)
    assert samples.keys().tolist() == keys
    assert samples.keys(by_attribute=False).tolist() == [[1], [0], [1], [1]]
    assert group_counts(samples) == counts
    assert samples.take(slice(0)).keys().shape == (0, len(keys[0]))


def test_take_keeps_rows_together() -> None:
    taken = Samples(X, Y, Z).take(torch.tensor([2, 0]))
    assert torch.equal(taken.x, X[[2, 0]])
    assert taken.y.tolist() == [1, 1]
    assert taken.z is not None
    assert taken.z.tolist() == [1, 0]
    assert Samples(X, Y).take(slice(1, 3)).z is None
    assert len(taken) == 2


def test_to_the_same_device_is_no_copy() -> None:
    samples = Samples(X, Y, Z)
    assert samples.to("cpu").x is X
    assert Samples(X, Y).to("cpu").z is None


def test_concatenate_in_order() -> None:
    parts = [Samples(X, Y, Z), Samples(X + 1, Y, 1 - Z)]
    joined = concatenate(parts)
    assert torch.equal(joined.x, torch.cat([X, X + 1]))
    assert joined.keys().tolist() == [key for part in parts for key in part.keys().tolist()]
    assert concatenate([Samples(X, Y)]).z is None
    with pytest.raises(DataError, match="1 of 2 sets of samples have an attribute z"):
        concatenate([Samples(X, Y), Samples(X, Y, Z)])


def test_all_mistakes_are_named() -> None:
    with pytest.raises(DataError) as caught:
        Samples(X[:3], Y.float(), Z[:2].float())
    assert str(caught.value).splitlines() == [
        "- y has shape (4,) and type torch.float32, expected (n,) and torch.int64",
        "- x has shape (3, 3) and y (4,), expected one row per sample in both",
        "- z has shape (2,) and type torch.float32, "
        "expected (n,) or (n, attributes) and torch.int64",
        "- z has shape (2,) and y (4,), expected one row per sample in both",
    ]


@pytest.mark.parametrize(
    ("x", "y", "z"),
    [
        (X, torch.tensor(1), None),
        (torch.tensor(1.0), Y, None),
        (X, Y, torch.tensor(1)),
        (X, Y[:, None], None),
        (X, Y, Z[:, None, None]),
    ],
)
def test_wrong_axes_are_named(x: Tensor, y: Tensor, z: Tensor | None) -> None:
    with pytest.raises(DataError, match="has shape"):
        Samples(x, y, z)


def test_a_negative_value_is_unknown() -> None:
    assert not Samples(X, Y).unknown.any()
    assert not Samples(X, Y, Z).unknown.any()
    some = Samples(X, Y, torch.tensor([0, -1, 1, -2]))
    assert some.unknown.tolist() == [False, True, False, True]
    two = Samples(X, Y, torch.tensor([[0, 1], [0, -1], [-1, 0], [1, 1]]))
    assert two.unknown.tolist() == [False, True, True, False]
    refuse_unknown(Samples(X, Y, Z), "this")
    with pytest.raises(DataError, match=r"2 of 4 samples have an unknown .* and this needs"):
        refuse_unknown(some, "this")


def test_what_is_no_tensor_is_named_with_the_call_that_makes_one() -> None:
    with pytest.raises(DataError) as error:
        Samples([[1.0]], np.array([0]))  # type: ignore[arg-type]
    assert "x is a list, expected a tensor: torch.as_tensor(x)" in str(error.value)
    assert "y is a ndarray, expected a tensor: torch.as_tensor(y)" in str(error.value)


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
