from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from faircil.errors import DataError, DivergedError
from faircil.nets import MLP
from faircil.samples import Samples
from faircil.weighting import FairSampleWeights, in_blocks, last_layer
from faircil.weighting.groups import find_groups
from faircil.weighting.last_layer import GroupSums, LastLayer, group_statistics
from faircil.weighting.losses import LOSSES
from oracles import PLAIN_LOSSES, make_samples, seeded, slow_statistics


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("by_attribute", [False, True])
@pytest.mark.parametrize("attributes", [1, 2])
def test_statistics_equal_autograd_sample_by_sample(
    by_attribute: bool, attributes: int, loss: str
) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, (20, attributes)).squeeze().tolist()
    # Class 1 is in both: it is measured on the current task.
    current = make_samples([1, 2, 3, 3, 1, 2, 2, 3], z[:8], seed=1)
    memory = make_samples([0, 1] * 6, z[8:], seed=2)
    net = seeded(lambda: MLP(6, 4, (5,)))
    membership = find_groups(current, memory, by_attribute=by_attribute)
    got = group_statistics(net, current, memory, membership, loss=LOSSES[loss])
    plain = PLAIN_LOSSES[loss]
    keys, losses, aligned = slow_statistics(net, net.head, current, memory, by_attribute, plain)
    assert membership.groups.label.tolist() == [key[0] for key in keys]
    assert np.allclose(got.losses, losses, rtol=0, atol=1e-10)
    assert np.allclose(got.alignment, aligned, rtol=0, atol=1e-9)


def test_class_beyond_the_head_is_named() -> None:
    current = Samples(torch.randn(4, 3), torch.tensor([0, 1, 2, 2]))
    membership = find_groups(current, None, by_attribute=False)
    with pytest.raises(DataError, match="class 2 is beyond the net's 2 outputs"):
        group_statistics(torch.nn.Linear(3, 2), current, None, membership)


def test_diverged_net_is_named() -> None:
    net = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(net.weight, float("nan"))
    current = Samples(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))
    membership = find_groups(current, None, by_attribute=False)
    with pytest.raises(DivergedError, match="has diverged"):
        group_statistics(net, current, None, membership)


def test_products_with_many_groups_of_many_classes_stay_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    y, z = np.arange(120) % 30, rng.integers(0, 2, 120)
    current, memory = (
        make_samples(y[rows].tolist(), z[rows].tolist(), seed=rows.start or 1)
        for rows in (slice(60), slice(60, 120))
    )
    net = seeded(lambda: MLP(6, 30, (5,)))
    membership = find_groups(current, memory, by_attribute=True)
    whole = group_statistics(net, current, memory, membership).alignment
    monkeypatch.setattr(last_layer, "ROOM", 7 * 60 * 30)  # 7 of some 60 groups
    real, sizes = torch.addmm, list[int]()

    def addmm(*given: torch.Tensor) -> torch.Tensor:
        found = real(*given)
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(torch, "addmm", addmm)
    assert np.allclose(
        group_statistics(net, current, memory, membership).alignment, whole, rtol=0, atol=1e-13
    )
    assert len(sizes) > 5
    assert max(sizes) <= last_layer.ROOM


def test_sums_are_in_the_order_of_rows_whatever_chunk_comes_first() -> None:
    drawn = torch.Generator().manual_seed(0)
    factors = LastLayer(
        *(torch.randn(size, generator=drawn) for size in ((90,), (90, 4), (90, 3))), bias=True
    )
    group = torch.arange(90) % 5
    chunks = [slice(start, start + 10) for start in range(0, 90, 10)]

    def summed(order: list[int]) -> GroupSums:
        sums = GroupSums(group, 5)
        for place in order:
            sums.add(factors.at(chunks[place]), chunks[place])
        return sums

    straight, mixed = summed([*range(9)]), summed([3, 1, 0, 8, 2, 7, 4, 6, 5])
    for one, other in zip(straight.total(factors), mixed.total(factors), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="chunks of rows are missing"):
        summed([0, 2]).total(factors)


@pytest.mark.parametrize("loss", LOSSES)
def test_statistics_in_blocks_are_those_of_one_pass_and_keep_no_factors(
    monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(in_blocks, "KEPT", 4 * 20_000)
    monkeypatch.setattr(in_blocks, "BLOCK", 2048)
    rng = np.random.default_rng(0)
    current, memory = (
        make_samples(rng.integers(low, 4, rows).tolist(), rng.integers(0, 2, rows).tolist())
        for low, rows in ((2, 7000), (0, 2500))
    )
    net = seeded(lambda: MLP(6, 4, (5,)))
    sizes = list[int]()
    real = last_layer.last_layers

    def counted(*given: Any, **more: Any) -> list[LastLayer]:
        found = real(*given, **more)
        sizes.extend(len(each.losses) for each in found)
        return found

    monkeypatch.setattr(in_blocks, "last_layers", counted)
    weigh = FairSampleWeights(measure="eo", loss=loss)
    found = weigh(net, current, memory)
    assert len(sizes) == 10  # two passes over the task, one over the memory
    assert max(sizes) == 2048
    monkeypatch.setattr(in_blocks, "KEPT", 2**30)
    whole = weigh(net, current, memory)
    assert len(sizes) == 10
    assert torch.equal(found.weights, whole.weights)
    assert found.bound == whole.bound
    assert np.array_equal(found.groups.losses, whole.groups.losses)
