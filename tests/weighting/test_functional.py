from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot, softmax

from faircil.nets import evaluating
from faircil.weighting.functional import SampleBySample, functional_net, measure
from oracles import make_samples, seeded
from whole_gradients import FACTORED, OTHER, Recurrent, whole_gradients

SAMPLES = make_samples([i * i % 4 for i in range(13)])
GROUP = torch.tensor([0, 2, -1, 0, 2, 2, 0, -1, 0, 2, 0, 0, 2])  # group 1 has no sample
NETS = {name: FACTORED[name] for name in ("mlp", "frozen", "sum")} | OTHER


@pytest.mark.parametrize("name", [*NETS, "recurrent"])
def test_gradients_and_products_equal_autograd(name: str) -> None:
    net = seeded((NETS | {"recurrent": Recurrent})[name]).eval()
    expected = whole_gradients(net, SAMPLES)
    delta = softmax(net(SAMPLES.x).detach(), dim=1) - one_hot(SAMPLES.y, 4)
    directions = torch.randn(
        3, expected.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    with evaluating(net):
        function = functional_net(net, SAMPLES.x)
        assert isinstance(function, SampleBySample) == (name == "recurrent")
        gradients = torch.cat(function.gradients(SAMPLES.x, delta), dim=1)
        products = function.products(SAMPLES.x, delta, directions)
        total = function.total(SAMPLES.x, delta)
    assert torch.allclose(gradients, expected, rtol=0, atol=1e-10)
    assert torch.allclose(products, directions @ expected.T, rtol=0, atol=1e-9)
    assert torch.allclose(total, expected.sum(dim=0), rtol=0, atol=1e-9)


def test_sums_within_groups_equal_autograd() -> None:
    net = seeded(OTHER["conv"]).eval()
    own = whole_gradients(net, SAMPLES)
    losses = cross_entropy(net(SAMPLES.x), SAMPLES.y, reduction="none").detach()
    with evaluating(net):
        measured = measure(functional_net(net, SAMPLES.x), SAMPLES, GROUP, 3)
    for g in range(3):
        assert torch.allclose(measured.gradients[g], own[g == GROUP].sum(dim=0), atol=1e-10)
        assert measured.losses[g].item() == pytest.approx(losses[g == GROUP].sum().item())
    assert not measured.gradients[1].any()


def test_a_slow_net_is_named(caplog: pytest.LogCaptureFixture) -> None:
    net: nn.Module = seeded(Recurrent)
    with caplog.at_level(logging.WARNING), evaluating(net):
        functional_net(net, SAMPLES.x)
    assert "Recurrent has a layer that torch.func cannot differentiate" in caplog.text
    assert "last layer" in caplog.text
