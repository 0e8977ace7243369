from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from faircil.learners.icarl import first_of_each_class, herd, herd_each
from faircil.samples import Samples
from learning import random_samples


def some_features(n: int, seed: int = 0) -> Tensor:
    """Features as the net gives them: none below 0, some samples with none at all."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 7, generator=generator, dtype=torch.float64).clamp(min=0)
    features[::11] = 0
    return normalize(features)


def slow_herd(features: Tensor, count: int) -> list[int]:
    """Try every sample that is left, each time."""
    chosen: list[int] = []
    for _ in range(count):
        left = [j for j in range(len(features)) if j not in chosen]
        gaps = [
            float((features.mean(dim=0) - features[[*chosen, j]].mean(dim=0)).norm()) for j in left
        ]
        chosen.append(left[min(range(len(left)), key=gaps.__getitem__)])
    return chosen


@pytest.mark.parametrize("seed", range(4))
def test_herding_is_the_greedy_choice(seed: int) -> None:
    features = some_features(40, seed)
    assert herd(features, 15).tolist() == slow_herd(features, 15)


def test_a_shorter_list_is_the_beginning_of_a_longer() -> None:
    features = some_features(40)
    assert torch.equal(herd(features, 6), herd(features, 20)[:6])


@pytest.mark.parametrize("count", [9, 10, 100])
def test_no_sample_is_chosen_twice(count: int) -> None:
    order = herd(some_features(10), count)
    assert len(order) == len(order.unique()) == min(count, 10)


def test_herded_samples_are_closer_to_the_mean_than_random_ones() -> None:
    features = some_features(500)
    mean = features.mean(dim=0)
    assert (features[herd(features, 20)].mean(dim=0) - mean).norm() < 0.5 * min(
        (features[start : start + 20].mean(dim=0) - mean).norm() for start in range(0, 500, 20)
    )


def test_features_stay_as_they_were() -> None:
    features = some_features(20)
    before = features.clone()
    herd(features, 5)
    assert torch.equal(features, before)


def test_each_group_has_a_list_of_its_own() -> None:
    samples, features = random_samples(60, classes=3, attribute=True), some_features(60)
    expected: list[int] = []
    for key in samples.keys().unique(dim=0):
        rows = (samples.keys() == key).all(dim=1).nonzero()[:, 0]
        expected += rows[herd(features[rows], 4)].tolist()
    assert herd_each(features, samples.keys(), 4).tolist() == expected


def test_lists_are_cut_at_their_end() -> None:
    y = torch.tensor([1, 0, 1, 1, 2, 0, 0])
    cut = first_of_each_class(Samples(torch.arange(7.0)[:, None], y), 2)
    assert cut.x[:, 0].tolist() == [0, 1, 2, 4, 5]
    assert cut.y.tolist() == [1, 0, 1, 2, 0]
