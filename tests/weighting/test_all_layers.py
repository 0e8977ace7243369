from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from faircil.errors import DataError, DivergedError
from faircil.nets import MLP
from faircil.samples import Samples
from faircil.weighting import all_layers, functional
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.groups import Floats, Membership, find_groups
from faircil.weighting.losses import LOSSES
from oracles import PLAIN_LOSSES, make_samples, seeded
from whole_gradients import FACTORED, OTHER, Recurrent, slow_whole_statistics

NETS = FACTORED | OTHER | {"recurrent": Recurrent}
# Class 1 is in both, and measured on the current task; classes have 2 to 7 samples.
CURRENT = make_samples([1, 2, 3, 3, 1, 2, 2, 3, 3, 3, 3, 3], seed=1)
MEMORY = make_samples([0, 1, 0, 1, 1, 0, 0, 1, 0, 1], seed=2)
MEMBERSHIP = find_groups(CURRENT, MEMORY, by_attribute=False)
WEIGHTS = np.linspace(0, 1, len(CURRENT)) ** 2


def make_net(name: str) -> nn.Module:
    net = seeded(NETS[name])
    net(CURRENT.x + 1)  # in training mode: batch norm has statistics that are not the batch's
    return net


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", NETS)
def test_statistics_equal_autograd_sample_by_sample(name: str, loss: str) -> None:
    net = make_net(name)
    got = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP, loss=LOSSES[loss])
    plain = PLAIN_LOSSES[loss]
    losses, cosines = slow_whole_statistics(net, CURRENT, MEMORY, MEMBERSHIP, plain)
    assert np.allclose(got.losses, losses, rtol=0, atol=1e-10)
    assert np.allclose(got.alignment, cosines, rtol=0, atol=1e-9)
    assert np.allclose(got.progress(WEIGHTS), cosines @ torch.from_numpy(WEIGHTS), atol=1e-9)


@pytest.mark.parametrize("name", FACTORED)
def test_both_ways_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = make_net(name)
    one = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    monkeypatch.setattr(all_layers, "linear_layers", lambda *_: None)
    other = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    assert np.allclose(one.losses, other.losses, rtol=0, atol=1e-12)
    assert np.allclose(one.alignment, other.alignment, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3, 4, 6])
@pytest.mark.parametrize("name", ["mlp", "conv", "recurrent"])
def test_rows_are_combinations_of_groups(name: str, rows: int) -> None:
    net = make_net(name)
    combine = np.random.default_rng(rows).normal(size=(rows, len(MEMBERSHIP.groups)))
    plain = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    got = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP, combine)
    assert np.allclose(got.losses, plain.losses, rtol=0, atol=1e-12)
    assert np.allclose(got.alignment, combine @ plain.alignment, rtol=0, atol=1e-12)
    assert np.allclose(got.progress(WEIGHTS), plain.alignment @ WEIGHTS, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    hidden=st.lists(st.integers(1, 8), max_size=2),
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=14),
    old=st.lists(st.integers(0, 3), max_size=6),
    seed=st.integers(0, 1000),
)
def test_any_shape_equals_autograd(
    hidden: list[int], labels: list[int], old: list[int], seed: int
) -> None:
    net = seeded(lambda: MLP(5, 4, hidden), seed)
    current = make_samples(labels, d=5, seed=seed)
    memory = make_samples(old, d=5, seed=seed + 1)
    membership = find_groups(current, memory, by_attribute=False)
    got = all_layer_statistics(net, current, memory, membership)
    losses, cosines = slow_whole_statistics(net, current, memory, membership)
    assert np.allclose(got.losses, losses, rtol=0, atol=1e-10)
    assert np.allclose(got.alignment, cosines, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_many_chunks_equal_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = make_net(name)
    whole = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    combine = np.eye(3, 4)
    for module in (all_layers, functional):
        monkeypatch.setattr(module, "CHUNK", 5)
    monkeypatch.setattr(all_layers, "KEPT", 0)
    monkeypatch.setattr(functional, "ENTRIES", 200)
    monkeypatch.setattr(functional, "TANGENTS", 7)
    parts = all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP, combine)
    assert np.allclose(parts.losses, whole.losses, rtol=0, atol=1e-14)
    assert np.allclose(parts.alignment, combine @ whole.alignment, rtol=0, atol=1e-13)
    assert np.allclose(parts.progress(WEIGHTS), whole.progress(WEIGHTS), rtol=0, atol=1e-13)


@pytest.mark.parametrize("memory", [None, MEMORY.take(slice(0, 0)), MEMORY.take(slice(1, 2))])
def test_memory_may_tell_nothing(memory: Samples | None) -> None:
    net = make_net("mlp")
    membership = find_groups(CURRENT, memory, by_attribute=False)
    got = all_layer_statistics(net, CURRENT, memory, membership)
    losses, cosines = slow_whole_statistics(net, CURRENT, None, membership)
    assert np.allclose(got.losses, losses, rtol=0, atol=1e-10)
    assert np.allclose(got.alignment, cosines, rtol=0, atol=1e-9)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", ["buffers", "conv", "recurrent"])
def test_the_net_is_as_before(name: str, fails: bool) -> None:
    net = make_net(name).train()
    next(net.children()).eval()
    before = [module.training for module in net.modules()]
    state = {key: value.clone() for key, value in net.state_dict().items()}
    fast = torch.backends.mha.get_fastpath_enabled()
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    if fails:
        with pytest.raises(DataError, match="cannot take inputs"):
            all_layer_statistics(net, Samples(CURRENT.x[:, :2], CURRENT.y), MEMORY, MEMBERSHIP)
    else:
        all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP, np.eye(2, 4)).progress(WEIGHTS)
    assert [module.training for module in net.modules()] == before
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert all(bool((p.grad == 1).all()) for p in net.parameters() if p.grad is not None)
    assert not any(module._forward_hooks for module in net.modules())
    assert torch.backends.mha.get_fastpath_enabled() == fast


def confident(bias: float, dtype: torch.dtype) -> Floats:
    """Return the cosines of samples whose class has probability 1 − exp(−bias)."""
    net = seeded(lambda: MLP(6, 4, (5,))).to(dtype)
    with torch.no_grad():
        net.head.bias[0] = bias
    x, group = CURRENT.x.to(dtype), torch.tensor([0] * 2 + [1] * 10)
    groups = find_groups(
        Samples(x, torch.zeros(12, dtype=torch.int64), group), None, by_attribute=True
    ).groups
    samples = Samples(x, torch.zeros(12, dtype=torch.int64))
    return all_layer_statistics(net, samples, None, Membership(groups, group, group[:0])).alignment


@pytest.mark.parametrize("bias", [10.0, 20.0, 40.0, 55.0, 75.0])
@pytest.mark.parametrize("factors", [True, False])
def test_confident_samples_keep_their_digits(
    bias: float, factors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not factors:
        monkeypatch.setattr(all_layers, "linear_layers", lambda *_: None)
    got, expected = (confident(bias, dtype) for dtype in (torch.float32, torch.float64))
    assert np.allclose(got, expected, rtol=0, atol=1e-4)
    assert np.abs(expected).max(axis=1).min() > 0.5


@pytest.mark.parametrize("factors", [True, False])
def test_a_gradient_without_direction_has_cosine_0(
    factors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not factors:
        monkeypatch.setattr(all_layers, "linear_layers", lambda *_: None)
    net = seeded(lambda: nn.Linear(3, 4, bias=False))
    x = torch.tensor([[0.0, 0, 0], [1, 2, 3]], dtype=torch.float64)
    current = Samples(x, torch.tensor([0, 1]))
    membership = find_groups(current, None, by_attribute=False)
    aligned = all_layer_statistics(net, current, None, membership).alignment
    assert np.allclose(aligned, [[0, 0], [0, 1]], rtol=0, atol=1e-12)


def test_every_mistake_of_a_net_is_named() -> None:
    net = nn.Linear(6, 3).double().requires_grad_(False)
    with pytest.raises(DataError, match=r"(?s)no parameter.*class 3 is beyond the net's 3 outputs"):
        all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    net = nn.Sequential(nn.Linear(6, 4), nn.Flatten(0)).double()
    with pytest.raises(DataError, match=r"the net returned \(4,\).*expected logits"):
        all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
    with pytest.raises(DataError, match="the net returned tuple"):
        all_layer_statistics(nn.LSTM(6, 4).double(), CURRENT, MEMORY, MEMBERSHIP)


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_diverged_net_is_named(name: str) -> None:
    net = make_net(name)
    nn.init.constant_(next(net.parameters()), float("nan"))
    with pytest.raises(DivergedError, match="has diverged"):
        all_layer_statistics(net, CURRENT, MEMORY, MEMBERSHIP)
