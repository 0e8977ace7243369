from __future__ import annotations

import pytest
import torch
from torch import nn

from faircil.nets import evaluating
from faircil.weighting.layer_factors import (
    Factors,
    GroupGradients,
    Layer,
    layer_factors,
    linear_layers,
)
from oracles import make_samples, seeded
from whole_gradients import FACTORED, OTHER, unit_rows, whole_gradients

SAMPLES = make_samples([i * i % 4 for i in range(13)])
GROUP = torch.tensor([-1, -1, 0, 0, 2, 2, 2, 2, 2, 2, 2, 3, 3])  # group 1 has no sample


def factors_of(net: nn.Module) -> tuple[tuple[Layer, ...], Factors]:
    with evaluating(net):
        layers = linear_layers(net, SAMPLES.x)
        assert layers is not None
        return layers, layer_factors(net, layers, SAMPLES.x, SAMPLES.y)


@pytest.mark.parametrize("name", FACTORED)
def test_norms_equal_autograd(name: str) -> None:
    net = seeded(FACTORED[name]).eval()
    _, factors = factors_of(net)
    expected = whole_gradients(net, SAMPLES).norm(dim=1)
    assert torch.allclose(factors.norms, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", OTHER)
def test_other_nets_have_no_factors(name: str) -> None:
    net = seeded(OTHER[name])
    with evaluating(net):
        assert linear_layers(net, SAMPLES.x) is None


def test_idle_layers_and_frozen_parts_are_left_out() -> None:
    layers, _ = factors_of(seeded(FACTORED["sum"]))
    assert [(layer.weight, layer.bias) for layer in layers] == [(True, True), (True, False)]
    layers, _ = factors_of(seeded(FACTORED["frozen"]))
    assert [(layer.weight, layer.bias) for layer in layers] == [(False, True), (True, False)]


def test_one_sample_shows_enough() -> None:
    with evaluating(net := seeded(FACTORED["mlp"])):
        assert len(linear_layers(net, SAMPLES.x[:1]) or ()) == 3


@pytest.mark.parametrize("sizes", [[2, 0, 7, 2], [100, 0, 100, 100], [1, 0, 1, 1]])
def test_matrices_and_samples_give_the_same_products(sizes: list[int]) -> None:
    # The sizes only choose the way, by matrices or by samples: the products are the same.
    net = seeded(FACTORED["mlp"]).eval()
    layers, factors = factors_of(net)
    gradients = GroupGradients(layers, torch.tensor(sizes))
    gradients.add(GROUP, factors)
    directions = gradients.directions()
    assert len(directions.groups) == sum(size > 3 for size in sizes)
    own = whole_gradients(net, SAMPLES)
    sums = torch.stack([own[g == GROUP].sum(dim=0) for g in range(4)])
    expected = unit_rows(own) @ unit_rows(sums).T
    assert torch.allclose(directions.products(factors), expected, rtol=0, atol=1e-10)
    assert not directions.products(factors)[:, 1].any()
