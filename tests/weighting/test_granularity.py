from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import make_samples

from faircil.errors import DataError
from faircil.weighting.granularity import by_group, by_sample
from faircil.weighting.groups import find_groups

CURRENT = make_samples([2, 3, 2, 3, 3, 2, 2], [0, 0, 1, 0, 0, 0, 1])
MEMBERSHIP = find_groups(CURRENT, make_samples([0, 2, 1], [0, 0, 1]), by_attribute=True)
ALIGNMENT = np.random.default_rng(0).uniform(-1, 1, (len(MEMBERSHIP.groups), len(CURRENT)))
GROUPS = [(0, 0), (1, 1), (2, 0), (2, 1), (3, 0)]  # the first two are in the buffer alone


def test_by_sample_every_column_is_a_sample() -> None:
    variables = by_sample(ALIGNMENT, MEMBERSHIP)
    solution = np.linspace(0, 1, len(CURRENT))
    assert np.array_equal(variables.columns, ALIGNMENT)
    assert np.array_equal(variables.sample_weights(solution, None), solution)
    assert variables.shares(solution) is None


def test_by_group_a_column_is_the_sum_of_its_samples() -> None:
    variables = by_group(ALIGNMENT, MEMBERSHIP)
    pairs = [tuple(key) for key in CURRENT.keys().tolist()]
    for column, key in enumerate(GROUPS[2:]):
        members = [i for i, pair in enumerate(pairs) if pair == key]
        assert np.allclose(variables.columns[:, column], ALIGNMENT[:, members].sum(axis=1))
    assert variables.columns.shape == (5, 3)
    assert variables.owner is not None
    assert variables.owner.tolist() == [GROUPS[2:].index(pair) for pair in pairs]


def test_shares_are_of_current_groups() -> None:
    shares = by_group(ALIGNMENT, MEMBERSHIP).shares(np.array([0.1, 0.2, 0.3]))
    assert np.array_equal(shares, [np.nan, np.nan, 0.1, 0.2, 0.3], equal_nan=True)  # type: ignore[arg-type]


def test_samples_are_drawn_with_their_groups_probability() -> None:
    n = 4000
    current = make_samples([0, 1, 2, 3] * n)
    membership = find_groups(current, None, by_attribute=False)
    variables = by_group(np.zeros((4, 4 * n)), membership)
    shares = np.array([0.0, 0.25, 0.9, 1.0])
    first, again, other = (
        variables.sample_weights(shares, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert np.isin(first, [0, 1]).all()
    frequency = first.reshape(n, 4).mean(axis=0)
    deviation = np.sqrt(shares * (1 - shares) / n)
    assert (np.abs(frequency - shares) <= 4 * deviation).all()  # 0 and 1 are exact
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_drawing_needs_a_generator() -> None:
    variables = by_group(ALIGNMENT, MEMBERSHIP)
    with pytest.raises(DataError, match=r"pass generator=torch\.Generator\(\)"):
        variables.sample_weights(np.ones(3), None)
