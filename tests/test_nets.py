from __future__ import annotations

import pytest
import torch
from torch import nn

from faircil import nets
from faircil.errors import UsageError
from faircil.nets import (
    MLP,
    NetTraits,
    build_conv,
    build_mlp,
    evaluating,
    features_of,
    find_head,
    last_linear,
    traits_of,
    with_features,
)
from oracles import make_samples, seeded


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


BUILD = {
    "mlp": lambda seed: build_mlp(6, 3, (5,), seed),
    "conv": lambda seed: build_conv((1, 8, 8), 3, (5,), seed),
}


@pytest.mark.parametrize("kind", BUILD)
def test_initial_weights_come_from_the_seed(kind: str) -> None:
    first, again, other = (BUILD[kind](seed) for seed in (0, 0, 1))
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        assert not torch.equal(value, other.state_dict()[name])


@pytest.mark.parametrize("kind", BUILD)
def test_the_global_generator_is_left_alone(kind: str) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    BUILD[kind](0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("image", [(1, 8, 8), (3, 9, 12), (2, 28, 8)])
def test_a_convolutional_net_takes_images_of_any_shape(image: tuple[int, int, int]) -> None:
    net = build_conv(image, 3, (5, 4), seed=0)
    x = torch.randn(7, image[0] * image[1] * image[2])
    assert net(x).shape == (7, 3)
    assert torch.equal(net(x), net(x.view(-1, *image)))
    assert find_head(net, x) is last_linear(net) is net.dense.head
    assert net.dense.head.in_features == 4
    assert not any("Norm" in type(module).__name__ for module in net.modules())


def test_images_pass_through_convolutions_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nets, "IN_CACHE", 3)
    net, x, sizes = build_conv((1, 8, 8), 3, (4,), seed=0), torch.randn(7, 64), []
    whole = net(x)
    net.convolutions.register_forward_hook(lambda *call: sizes.append(len(call[2])))
    with evaluating(net):
        # Products of other sizes may be summed in another order: 7 digits, a few dozen terms.
        torch.testing.assert_close(net(x), whole, rtol=1e-5, atol=1e-6)
        assert net(x[:0]).shape == (0, 3)
    assert sizes == [3, 3, 1, 0]


def test_images_too_small_for_convolutions_are_a_mistake() -> None:
    with pytest.raises(
        UsageError, match="at least 8 × 8 pixels, and these have 8 × 7; use `net='m"
    ):
        build_conv((1, 8, 7), 3, (4,), seed=0)


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


def test_features_are_the_inputs_of_the_last_layer() -> None:
    net, x = build_mlp(6, 5, (8, 4), seed=0), torch.randn(7, 6)
    logits, features = with_features(net, net.head, x)
    torch.testing.assert_close(features, net.features(x))
    torch.testing.assert_close(logits, net(x))
    features.sum().backward()
    assert net.features[0].weight.grad is not None
    assert not net.head._forward_pre_hooks


def test_features_of_any_net_and_any_number_of_inputs() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Dropout(), nn.Tanh(), nn.Linear(4, 3))
    net.train()
    x = torch.randn(5000, 2, 3)
    features = features_of(net, x)
    assert net.training
    torch.testing.assert_close(features, torch.tanh(net[1](x.flatten(1))).detach())
    assert not features.requires_grad


SAMPLES = make_samples([0, 1, 2, 3])


def test_the_head_is_found_or_named() -> None:
    net = seeded(lambda: MLP(6, 4, (5,)))
    head = net.head
    assert find_head(net, SAMPLES.x) is head
    assert find_head(net, SAMPLES.x, "head") is head
    assert find_head(net, SAMPLES.x, head) is head
    with pytest.raises(UsageError, match=r"'tail' is not a linear layer.*features\.0.*head"):
        find_head(net, SAMPLES.x, "tail")
    with pytest.raises(UsageError, match="not the output of the given linear layer"):
        find_head(net, SAMPLES.x, "features.0")


@pytest.mark.parametrize("after", [nn.Softmax(dim=1), nn.ReLU(), nn.Conv1d(1, 1, 1)])
def test_a_net_must_end_with_its_linear_layer(after: nn.Module) -> None:
    layers = [nn.Unflatten(1, (1, 4)), after] if isinstance(after, nn.Conv1d) else [after]
    net = seeded(lambda: nn.Sequential(nn.Linear(6, 4), *layers))
    with pytest.raises(UsageError, match=r"(?s)Sequential.*last linear layer.*no softmax"):
        find_head(net, SAMPLES.x)
