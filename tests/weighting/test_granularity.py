from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.errors import DataError
from faircil.weighting.granularity import GRANULARITIES, Parts, Variables
from faircil.weighting.groups import find_groups
from faircil.weighting.measures import disparity_matrix, find_measure
from faircil.weighting.program import formulate
from faircil.weighting.solver.highs import solve_with_highs
from oracles import make_samples

CURRENT = make_samples([2, 3, 2, 3, 3, 2, 2], [0, 0, 1, 0, 0, 0, 1])
MEMBERSHIP = find_groups(CURRENT, make_samples([0, 2, 1], [0, 0, 1]), by_attribute=True)
ALIGNMENT = np.random.default_rng(0).uniform(-1, 1, (len(MEMBERSHIP.groups), len(CURRENT)))
GROUPS = [(0, 0), (1, 1), (2, 0), (2, 1), (3, 0)]  # the first two are in the buffer alone
CLUSTERS = torch.tensor([0, 2, 1, 3, 2, 0, 1])  # group (3, 0) has two of them, the others one
DRAWN = pytest.mark.parametrize("granularity", ["group", "cluster"])


def variables_by(granularity: str) -> Variables:
    return GRANULARITIES[granularity](ALIGNMENT, MEMBERSHIP, lambda: CLUSTERS)


def test_by_sample_every_column_is_a_sample() -> None:
    variables = variables_by("sample")
    solution = np.linspace(0, 1, len(CURRENT))
    assert np.array_equal(variables.columns, ALIGNMENT)
    assert np.array_equal(variables.sample_weights(solution, None), solution)
    assert variables.shares(solution) is None


@pytest.mark.parametrize("granularity", ["group", "cluster", "cluster-weights"])
def test_a_column_is_the_sum_of_its_samples(granularity: str) -> None:
    variables = variables_by(granularity)
    pairs = [tuple(key) for key in CURRENT.keys().tolist()]
    owner = CLUSTERS.tolist() if "cluster" in granularity else [GROUPS[2:].index(p) for p in pairs]
    assert variables.columns.shape == (5, max(owner) + 1)
    for column in range(max(owner) + 1):
        members = [i for i, number in enumerate(owner) if number == column]
        assert np.allclose(variables.columns[:, column], ALIGNMENT[:, members].sum(axis=1))
    solution = np.linspace(0.1, 0.9, max(owner) + 1)
    assert variables.spread(solution).tolist() == [solution[number] for number in owner]


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    group=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    pieces=st.integers(1, 4),
    rows=st.integers(0, 3),
)
def test_parts_equal_the_obvious_loop(group: list[int], pieces: int, rows: int) -> None:
    membership = find_groups(make_samples(group), None, by_attribute=False)
    keys = [(g, i % pieces) for i, g in enumerate(group)]
    numbers = sorted(set(keys))
    parts = Parts.of(np.array([numbers.index(key) for key in keys]), membership)
    values = np.random.default_rng(len(group)).normal(size=(rows, len(group)))
    sums = parts.sums(values)
    assert sums.shape == (rows, len(numbers))
    for number, key in enumerate(numbers):
        members = [i for i, other in enumerate(keys) if other == key]
        assert membership.groups.label[parts.group[number]] == key[0]
        assert parts.share[number] == len(members) / group.count(key[0])
        assert np.allclose(sums[:, number], values[:, members].sum(axis=1))


def test_shares_are_of_current_groups() -> None:
    shares = variables_by("group").shares(np.array([0.1, 0.2, 0.3]))
    assert np.array_equal(shares, [np.nan, np.nan, 0.1, 0.2, 0.3], equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("granularity", ["cluster", "cluster-weights"])
def test_a_groups_share_is_the_mean_over_its_samples(granularity: str) -> None:
    variables, solution = variables_by(granularity), np.array([0.1, 0.2, 0.3, 0.9])
    shares, weights = variables.shares(solution), variables.spread(solution)
    assert shares is not None
    for group, share in enumerate(shares):
        members = weights[MEMBERSHIP.current.numpy() == group]
        assert np.isnan(share) if group < 2 else share == pytest.approx(members.mean())


@DRAWN
def test_samples_are_drawn_with_their_parts_probability(granularity: str) -> None:
    n = 4000
    current = make_samples([0, 1, 2, 3] * n)
    membership = find_groups(current, None, by_attribute=False)
    alignment = np.zeros((4, 4 * n))
    variables = GRANULARITIES[granularity](alignment, membership, lambda: membership.current)
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


def test_weights_of_clusters_are_those_of_their_samples() -> None:
    solution = np.array([0.1, 0.2, 0.3, 0.9])
    weights = variables_by("cluster-weights").sample_weights(solution, None)
    assert weights.tolist() == [0.1, 0.3, 0.2, 0.9, 0.3, 0.1, 0.2]


def test_what_the_parts_find_is_proven_for_the_samples() -> None:
    groups = MEMBERSHIP.groups
    losses = np.linspace(0.5, 2.0, len(groups))
    matrix = disparity_matrix(find_measure("eo"), groups)
    variables = variables_by("cluster-weights")
    whole, few = (
        formulate(columns, losses, groups, matrix, alpha=0.3, lam=0.5).program
        for columns in (ALIGNMENT, variables.columns)
    )
    best, found = solve_with_highs(whole), solve_with_highs(few)
    weights = variables.sample_weights(found.weights, None)
    # The same numbers by sample as by part, and the parts' prices bound the samples' optimum.
    assert whole.objective(weights) == pytest.approx(found.objective, abs=1e-12)
    assert whole.violation(weights) <= 1e-9
    assert whole.bound(found.dual) <= best.objective + 1e-12 <= found.objective + 2e-12


@DRAWN
def test_drawing_needs_a_generator(granularity: str) -> None:
    variables = variables_by(granularity)
    with pytest.raises(DataError, match=r"pass generator=torch\.Generator\(\)"):
        variables.sample_weights(np.ones(variables.columns.shape[1]), None)
