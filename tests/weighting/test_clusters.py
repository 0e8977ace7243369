from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from faircil.errors import UsageError
from faircil.weighting import granularity
from faircil.weighting.granularity import cluster, nearest
from faircil.weighting.last_layer import LastLayer

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
