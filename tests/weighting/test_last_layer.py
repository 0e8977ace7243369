from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from faircil import compute
from faircil.errors import DataError, DivergedError
from faircil.nets import MLP, find_head
from faircil.samples import Samples
from faircil.weighting import FairSampleWeights, in_blocks, last_layer, weights
from faircil.weighting.groups import find_groups
from faircil.weighting.last_layer import (
    GroupSums,
    LastLayer,
    cosines,
    group_statistics,
    group_sums,
    last_layers,
)
from faircil.weighting.losses import LOSSES, LossFunction, cross_entropy
from oracles import PLAIN_LOSSES, cosine, make_samples, sample_gradients, seeded, slow_statistics

NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: MLP(6, 4, (5, 7)),
    "linear": lambda: nn.Linear(6, 4),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False)),
    "dropout and batch norm": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.ReLU(), nn.Linear(5, 4)
    ),
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, 2), nn.Flatten(), nn.ReLU(), nn.Linear(6, 4)
    ),
}
SAMPLES = make_samples([i * i % 4 for i in range(13)])
GROUP = torch.tensor([0, 2, -1, 0, 2, 2, 0, -1, 0, 2, 0, 0, 2])  # group 1 has no sample


def factors_of(
    net: nn.Module, head: nn.Linear, x: Tensor, y: Tensor, loss: LossFunction = cross_entropy
) -> LastLayer:
    return last_layers(net, head, [(x, y)], loss=loss)[0]


def check_against_autograd(
    net: nn.Module, x: Tensor, y: Tensor, group: Tensor, groups: int, loss: str
) -> None:
    head = find_head(net, x)
    factors = factors_of(net, head, x, y, LOSSES[loss])
    sums, losses = group_sums(factors, group, groups)
    aligned = cosines(factors, sums)
    net.eval()
    slow = sample_gradients(net, head, x, y, PLAIN_LOSSES[loss])
    slow_losses = PLAIN_LOSSES[loss](net(x), y).detach()
    assert torch.allclose(factors.losses, slow_losses, rtol=0, atol=1e-10)
    for g in range(groups):
        members = [slow[i] for i in range(len(y)) if group[i] == g]
        total = torch.stack(members).sum(dim=0) if members else torch.zeros_like(slow[0])
        assert torch.allclose(sums[g], total, rtol=0, atol=1e-10)
        assert losses[g].item() == pytest.approx(slow_losses[group == g].sum().item())
        expected = torch.tensor([cosine(gradient, total) for gradient in slow], dtype=torch.float64)
        assert torch.allclose(aligned[g], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", NETS)
def test_factors_and_cosines_equal_autograd(name: str, loss: str) -> None:
    net = seeded(NETS[name])
    net(SAMPLES.x + 1)  # in training mode: batch norm has statistics that are not the batch's
    check_against_autograd(net, SAMPLES.x, SAMPLES.y, GROUP, 3, loss)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 6),
    classes=st.integers(1, 5),
    groups=st.integers(1, 4),
    bias=st.booleans(),
    seed=st.integers(0, 1000),
    loss=st.sampled_from(list(LOSSES)),
)
def test_any_shape_equals_autograd(
    n: int, d: int, classes: int, groups: int, bias: bool, seed: int, loss: str
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (n,), generator=generator)
    group = torch.randint(-1, groups, (n,), generator=generator)
    net = seeded(lambda: nn.Linear(d, classes, bias=bias), seed)
    check_against_autograd(net, x, y, group, groups, loss)


def test_many_chunks_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    net = seeded(NETS["mlp"])
    head = find_head(net, SAMPLES.x)

    def measure() -> tuple[Tensor, ...]:
        factors = factors_of(net, head, SAMPLES.x, SAMPLES.y)
        sums, losses = group_sums(factors, GROUP, 3)
        return factors.losses, factors.delta, factors.features, sums, losses, cosines(factors, sums)

    whole = measure()
    monkeypatch.setattr(compute, "CHUNK", 4)
    for part, expected in zip(measure(), whole, strict=True):
        assert torch.allclose(part, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("fails", [False, True])
def test_eval_mode_is_used_and_every_mode_restored(fails: bool) -> None:
    net = seeded(NETS["dropout and batch norm"])
    list(net.children())[1].eval()
    before = [module.training for module in net.modules()]
    assert sorted(set(before)) == [False, True]
    state = {name: value.clone() for name, value in net.state_dict().items()}
    head = find_head(net, SAMPLES.x)
    if fails:
        with pytest.raises(RuntimeError):
            factors_of(net, head, SAMPLES.x[:, :2], SAMPLES.y)
    else:
        once, again = (factors_of(net, head, SAMPLES.x, SAMPLES.y) for _ in range(2))
        assert torch.equal(once.losses, again.losses)
    assert [module.training for module in net.modules()] == before
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_pre_hooks for module in net.modules())
    assert not any(module._forward_hooks for module in net.modules())


def test_a_gradient_without_direction_has_cosine_0() -> None:
    net = seeded(lambda: nn.Linear(3, 4, bias=False))
    x = torch.tensor([[0.0, 0, 0], [1, 2, 3]], dtype=torch.float64)
    factors = factors_of(net, net, x, torch.tensor([0, 1]))
    sums, _ = group_sums(factors, torch.tensor([0, 1]), 3)
    aligned = cosines(factors, sums)  # sample 0 and group 0 vanish, group 2 is empty
    assert aligned[1, 1].item() == pytest.approx(1)
    aligned[1, 1] = 0
    assert not aligned.any()


def confident(bias: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return δ and the cosines of samples whose class has probability 1 − exp(−bias)."""
    net = seeded(lambda: nn.Linear(6, 4)).to(dtype)
    with torch.no_grad():
        net.bias[0] = bias
    factors = factors_of(net, net, SAMPLES.x.to(dtype), torch.zeros(13, dtype=torch.int64))
    sums, _ = group_sums(factors, GROUP, 3)
    return factors.delta.double(), cosines(factors, sums).double()


@pytest.mark.parametrize("bias", [10.0, 20.0, 40.0, 55.0, 75.0])
def test_confident_samples_keep_their_digits(bias: float) -> None:
    # p_y rounds to 1 in float32 from 17 on; from 51 on the squares of δ underflow.
    (delta, aligned), (exact, expected) = (
        confident(bias, dtype) for dtype in (torch.float32, torch.float64)
    )
    assert torch.allclose(delta / exact, torch.ones_like(exact), atol=1e-4)
    assert torch.allclose(aligned, expected, atol=1e-4)
    assert expected[0].abs().min() > 1e-3


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
    monkeypatch.setattr(weights, "KEPT", 4 * 20_000)
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
    monkeypatch.setattr(weights, "KEPT", 2**30)
    whole = weigh(net, current, memory)
    assert len(sizes) == 10
    assert torch.equal(found.weights, whole.weights)
    assert found.bound == whole.bound
    assert np.array_equal(found.groups.losses, whole.groups.losses)
