from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from faircil import FaircilError, FairSampler, FairSampleWeights, WeightResult
from faircil.nets import MLP
from faircil.weighting.selection import draw_fairly
from oracles import make_samples, seeded

CURRENT = make_samples([2, 3, 3, 3] * 3, [0, 1, 1, 0] * 3, seed=1)
MEMORY = make_samples([0, 1] * 4, [0, 1, 1, 0] * 2, seed=2)
DRAWS = 20_000


def result(weights: list[float]) -> WeightResult:
    """A result with other weights."""
    net = seeded(lambda: MLP(6, 4, (5,)))
    found = FairSampleWeights()(net, CURRENT, MEMORY)
    return replace(found, weights=torch.tensor(weights))


WEIGHTS = [0.0, 1.0, 0.5, 0.25, 0.02, 1.0, 0.1, 0.0, 1.0, 0.3, 0.7, 1.0]


def frequencies(sampler: FairSampler, rows: int) -> Any:
    return np.bincount(list(sampler), minlength=rows) / len(sampler)


def near(found: Any, chance: Any) -> bool:
    """Whether frequencies are within five standard deviations of chances."""
    return bool((np.abs(found - chance) <= 5 * np.sqrt(chance * (1 - chance) / DRAWS)).all())


def test_samples_are_drawn_by_weight() -> None:
    sampler = FairSampler(12, length=DRAWS)
    sampler.set_weights(result(WEIGHTS))
    assert near(frequencies(sampler, 12), np.array(WEIGHTS) / sum(WEIGHTS))


def test_part_of_the_draws_is_replay() -> None:
    sampler = FairSampler(CURRENT, memory=MEMORY, replay=0.3, length=DRAWS)
    sampler.set_weights(result(WEIGHTS))
    expected = np.concatenate([0.7 * np.array(WEIGHTS) / sum(WEIGHTS), np.full(8, 0.3 / 8)])
    assert near(frequencies(sampler, 20), expected)


def test_half_equally_is_the_draw_of_a_run() -> None:
    given = result(WEIGHTS)
    sampler = FairSampler(12, equally=0.5, generator=torch.Generator().manual_seed(4))
    sampler.set_weights(given)
    expected = draw_fairly(given.weights, given.group, 64, torch.Generator().manual_seed(4))
    assert list(sampler) == expected.index.tolist()
    assert len(sampler) == sum(w > 0.05 for w in WEIGHTS) == 9


def test_draws_follow_from_seed_and_epoch() -> None:
    one, other = FairSampler(50, seed=1), FairSampler(50, seed=2)
    first, second = list(one), list(one)
    assert first != second
    assert first != list(other)
    one.set_epoch(0)
    assert [list(one), list(one)] == [first, second]
    assert len(one) == 50


def test_weights_set_after_the_loader_has_started_count() -> None:
    assert CURRENT.z is not None
    data = TensorDataset(torch.arange(12))
    sampler = FairSampler(12, length=40)
    batches = iter(DataLoader(data, 8, sampler=sampler))
    sampler.set_weights(result([0.0] * 11 + [1.0]))
    assert all((rows == 11).all() for (rows,) in batches)


def test_without_current_samples_only_the_memory_is_drawn() -> None:
    both = ConcatDataset([TensorDataset(torch.arange(12)), TensorDataset(12 + torch.arange(8))])
    sampler = FairSampler(12, memory=8)
    sampler.set_weights(result([0.01] * 12))
    rows = torch.cat([rows for (rows,) in DataLoader(both, 3, sampler=sampler)])
    assert len(rows) == len(sampler) == 8
    assert rows.min() >= 12
    alone = FairSampler(12)
    alone.set_weights(result([0.0] * 12))
    assert list(alone) == []
    with pytest.raises(FaircilError, match=r"no weight is above 0.05.*skip this epoch"):
        FairSampler(12, length=5).set_weights(result([0.0] * 12))


def test_numbers_below_0_are_refused() -> None:
    with pytest.raises(FaircilError) as caught:
        FairSampler(-1, memory=-1, seed=-1)
    message = str(caught.value)
    assert "no current samples" in message
    assert "memory is -1" in message
    assert "`seed` is -1" in message
    with pytest.raises(FaircilError, match="`epoch` is -1"):
        FairSampler(1).set_epoch(-1)


def test_mistakes_are_named_at_once() -> None:
    with pytest.raises(FaircilError) as caught:
        FairSampler(0, replay=2, equally=-1, length=0)
    for part in ("replay is 2", "equally is -1", "no current samples", "length is 0"):
        assert part in str(caught.value)
    with pytest.raises(FaircilError, match="12 weights and 13 current samples"):
        FairSampler(13).set_weights(result(WEIGHTS))
    with pytest.raises(FaircilError, match="weights are a Tensor, expected what FairSampleWeights"):
        FairSampler(3).set_weights(torch.ones(3))
