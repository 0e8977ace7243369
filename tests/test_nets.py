from __future__ import annotations

import pytest
import torch
from torch import nn

from faircil.errors import UsageError
from faircil.nets import MLP, NetTraits, build_mlp, find_head, last_linear, traits_of


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


def test_a_plain_module_has_the_traits_of_a_small_net() -> None:
    assert traits_of(MLP(4, 3)) == NetTraits()
    assert traits_of(nn.Linear(4, 3)) == NetTraits(large=False, graphable=True)


def test_a_net_declares_its_traits_in_one_attribute() -> None:
    class Counting(nn.Linear):
        tokens = 0

        @property
        def traits(self) -> NetTraits:
            return NetTraits(large=True, trained_tokens=self.tokens)

    net = Counting(4, 3)
    net.tokens = 7
    assert (traits_of(net).large, traits_of(net).trained_tokens) == (True, 7)


def test_the_layer_defined_last_is_the_head_until_an_input_tells() -> None:
    net = MLP(4, 3)
    assert last_linear(net) is net.head is find_head(net, torch.zeros(1, 4))
    with pytest.raises(UsageError, match=r"ReLU has no linear layer; end the net with an nn\.Lin"):
        last_linear(nn.ReLU())
