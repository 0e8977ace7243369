from __future__ import annotations

import pytest
import torch
from torch import nn

from faircil.nets import MLP, build_mlp


@pytest.mark.parametrize(
    ("hidden", "shapes"),
    [
        ((), [(3, 6)]),
        ((4,), [(4, 6), (3, 4)]),
        ((5, 4), [(5, 6), (4, 5), (3, 4)]),
    ],
)
def test_layers_have_the_widths_asked_for(
    hidden: tuple[int, ...], shapes: list[tuple[int, int]]
) -> None:
    net = MLP(6, 3, hidden)
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    assert sorted(tuple(layer.weight.shape) for layer in layers) == sorted(shapes)
    assert all(layer.bias is not None for layer in layers)


def test_logits_are_the_head_of_the_features() -> None:
    net = MLP(12, 3, (5, 4))
    x = torch.randn(7, 3, 4)
    features = net.features(x.flatten(1))
    assert features.shape == (7, 4)
    assert (features >= 0).all()
    assert torch.equal(net(x), net.head(features))
    assert net(x).shape == (7, 3)


def test_initial_weights_come_from_the_seed() -> None:
    first, again, other = (build_mlp(6, 3, (5,), seed) for seed in (0, 0, 1))
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        assert not torch.equal(value, other.state_dict()[name])


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    build_mlp(6, 3, (5,), seed=0)
    assert torch.equal(torch.rand(3), expected)
