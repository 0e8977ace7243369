from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from faircil.errors import DataError, UsageError
from faircil.weighting import granularity
from faircil.weighting.granularity import GRANULARITIES, Parts, Variables, cluster, nearest
from faircil.weighting.groups import find_groups
from faircil.weighting.last_layer import LastLayer
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


BIAS = pytest.mark.parametrize("bias", [True, False])


def random_factors(n: int, bias: bool = True, *, d: int = 3, classes: int = 4) -> LastLayer:
    generator = torch.Generator().manual_seed(n)
    delta = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    features = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return LastLayer(torch.zeros(n, dtype=torch.float64), delta, features, bias)


def seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def explicit(factors: LastLayer) -> Tensor:
    """The normalised gradients themselves, (n, classes, 1 + d), sample by sample."""
    rows = []
    for delta, features in zip(factors.delta, factors.features, strict=True):
        constant = features.new_ones(int(factors.bias))
        gradient = torch.outer(delta, torch.cat([constant, features]))
        rows.append(gradient / gradient.norm() if gradient.any() else gradient)
    return torch.stack(rows)


def slow_nearest(gradients: Tensor, centres: Tensor) -> list[int]:
    return [
        min(range(len(centres)), key=lambda c: float((gradient - centres[c]).norm()))
        for gradient in gradients
    ]


def slow_centres(gradients: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Sculley's algorithm as he writes it: each sample of a batch pulls at its centre by 1/v."""
    n = len(gradients)
    centres = gradients[torch.randperm(n, generator=generator)[:count]].clone()
    visits = [1] * count
    for _ in range(granularity.ROUNDS):
        drawn = torch.randint(n, (min(granularity.BATCH, n),), generator=generator)
        batch = gradients[drawn]
        for gradient, c in zip(batch, slow_nearest(batch, centres), strict=True):
            visits[c] += 1
            centres[c] += (gradient - centres[c]) / visits[c]
    return centres


@BIAS
def test_the_nearest_centre_is_that_of_explicit_gradients(bias: bool) -> None:
    factors = random_factors(50, bias)
    factors.delta[3] = 0  # no gradient at all: nearest to the shortest centre
    gradients = explicit(factors)
    factors.delta[4:9] *= 1e-200  # confident samples still have a direction
    centres = torch.randn(7, 4, 3 + bias, generator=seed(0), dtype=torch.float64) / 4
    centres[2] = 0
    assert nearest(factors, centres).tolist() == slow_nearest(gradients, centres)


@BIAS
@pytest.mark.parametrize("batch", [5, 1024])
def test_centres_are_those_of_the_slow_algorithm(
    bias: bool, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granularity, "BATCH", batch)
    factors, rows = random_factors(40, bias), torch.arange(3, 33)
    centres = granularity._centres(factors, rows, 6, seed(1))
    assert torch.allclose(centres, slow_centres(explicit(factors)[rows], 6, seed(1)), atol=1e-12)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    group=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    count=st.integers(1, 50),
    bias=st.booleans(),
)
def test_clusters_are_a_partition_within_groups(group: list[int], count: int, bias: bool) -> None:
    owner = cluster(random_factors(len(group), bias), torch.tensor(group), 5, count, seed(0))
    numbers = owner.tolist()
    found = sorted(set(numbers))
    assert found == list(range(len(found)))
    assert len(found) <= max(count, len(set(group))) + len(set(group)) - 1
    by_number = [
        {g for g, c in zip(group, numbers, strict=True) if c == number} for number in found
    ]
    assert all(len(groups) == 1 for groups in by_number)


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([10, 10], 4, [2, 2]),
        ([90, 10], 10, [9, 1]),
        ([1000, 1, 1], 10, [10, 1, 1]),
        ([3, 2], 100, [3, 2]),
        ([5, 5, 5], 1, [1, 1, 1]),
        ([6, 7, 8], 10, [3, 3, 4]),
    ],
)
def test_clusters_are_shared_by_size(sizes: list[int], count: int, expected: list[int]) -> None:
    members = [torch.arange(size) for size in sizes]
    assert granularity._shared(members, count) == expected


def test_gradients_that_point_the_same_way_stay_together() -> None:
    # Four directions, far apart, in each of two groups; 30 samples near each.
    generator = seed(0)
    direction = torch.arange(240) % 4
    factors = random_factors(240, d=8, classes=4)
    delta = torch.eye(4, dtype=torch.float64)[direction] * torch.rand(
        240, 1, generator=generator, dtype=torch.float64
    )
    features = 5 + torch.randn(240, 8, generator=generator, dtype=torch.float64) / 10
    group = torch.arange(240) // 120
    # Random starts may leave out one of four directions, hardly with five centres for each.
    owner = cluster(replace(factors, delta=delta, features=features), group, 2, 40, seed(0))
    pure = [set(direction[owner == number].tolist()) for number in owner.unique()]
    assert all(len(directions) == 1 for directions in pure)


def test_the_same_generator_gives_the_same_clusters() -> None:
    factors, group = random_factors(200), torch.arange(200) % 3
    first, again, other = (cluster(factors, group, 3, 20, seed(s)) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_many_chunks_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    factors, group = random_factors(100), torch.arange(100) % 3
    whole = cluster(factors, group, 3, 12, seed(0))
    monkeypatch.setattr(granularity, "CHUNK", 7)
    assert torch.equal(cluster(factors, group, 3, 12, seed(0)), whole)


def test_more_clusters_describe_the_samples_better() -> None:
    factors, group = random_factors(300, d=2, classes=2), torch.zeros(300, dtype=torch.int64)
    gradients = explicit(factors)
    spread = []
    for count in (1, 5, 25, 125):
        owner = cluster(factors, group, 1, count, seed(0))
        parts = [gradients[owner == number] for number in owner.unique()]
        spread.append(sum(float((part - part.mean(dim=0)).square().sum()) for part in parts))
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < spread[0] / 10


def test_no_clusters_is_an_error() -> None:
    with pytest.raises(UsageError, match="clusters is 0, expected at least 1"):
        cluster(random_factors(3), torch.zeros(3, dtype=torch.int64), 1, 0, seed(0))
