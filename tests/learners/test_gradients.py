from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from faircil.learners.gradients import (
    BufferGradient,
    GradientMeter,
    HeadMeter,
    SampleGradients,
    cosines,
    meter_of,
)
from faircil.nets import NetTraits, build_mlp
from faircil.samples import Samples
from learning import gradient, random_samples
from whole_gradients import FACTORED, OTHER, Recurrent, unit_rows, whole_gradients

NETS = {**FACTORED, **OTHER}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def new_net(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return NETS[name]()


@pytest.mark.parametrize("name", NETS)
def test_products_and_lengths_are_those_of_gradients_one_at_a_time(name: str) -> None:
    net, samples = new_net(name), random_samples(9, classes=4)
    meter = GradientMeter(net, samples.x)
    net.train()
    measured = meter.of_samples(samples.x, samples.y)
    assert net.training
    assert (meter.layers is None) == (name in OTHER)
    slow = whole_gradients(net.eval(), samples)
    torch.testing.assert_close(measured.norms, slow.norm(dim=1), **CLOSE)
    torch.testing.assert_close(measured.gram(), unit_rows(slow) @ unit_rows(slow).T, **CLOSE)


def test_a_net_that_torch_func_cannot_differentiate_is_measured_all_the_same() -> None:
    net, samples = Recurrent(), random_samples(3, classes=4)
    measured = GradientMeter(net, samples.x).of_samples(samples.x, samples.y)
    slow = unit_rows(whole_gradients(net.eval(), samples))
    torch.testing.assert_close(measured.gram(), slow @ slow.T, **CLOSE)


def test_the_net_may_change_between_measurements() -> None:
    net, samples = new_net("conv"), random_samples(4, classes=4)
    meter = GradientMeter(net, samples.x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.ones_like(parameter))
    slow = unit_rows(whole_gradients(net.eval(), samples))
    gram = meter.of_samples(samples.x, samples.y).gram()
    torch.testing.assert_close(gram, slow @ slow.T, **CLOSE)


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_the_sum_is_the_gradient_of_all_samples_together(name: str) -> None:
    net, samples = new_net(name).eval(), random_samples(9, classes=4)
    measured = GradientMeter(net, samples.x).of_sum(samples.x, samples.y)
    slow = gradient(net, cross_entropy(net(samples.x), samples.y, reduction="sum"))
    square = measured.norms @ measured.gram() @ measured.norms
    torch.testing.assert_close(square.sqrt(), slow.norm())
    assert len(measured.norms) == (9 if name == "mlp" else 1)


def test_cosines_of_combinations_are_those_of_the_combined_gradients() -> None:
    net, samples = new_net("mlp").eval(), random_samples(9, classes=4)
    slow = whole_gradients(net, samples)
    measured = GradientMeter(net, samples.x).of_samples(samples.x, samples.y)
    one, other = torch.eye(9)[:3], torch.randn(2, 9)
    other[:, 3] = 0
    means = other * slow.norm(dim=1)
    expected = unit_rows(one @ slow) @ unit_rows(other @ slow).T
    torch.testing.assert_close(cosines(measured.gram(), one, means), expected, **CLOSE)
    torch.testing.assert_close(cosines(measured.gram(), one, 1e-25 * means), expected, **CLOSE)
    assert cosines(measured.gram(), one, 0 * means).tolist() == [[0, 0]] * 3


def test_a_gradient_that_vanishes_has_no_direction() -> None:
    nothing = SampleGradients(torch.zeros(2), (torch.zeros(2, 3),), (torch.ones(2, 4),), (True,))
    assert nothing.gram().tolist() == [[0, 0], [0, 0]]
    assert cosines(nothing.gram(), torch.eye(2), torch.eye(2)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("name", FACTORED)
def test_a_sum_of_gradients_is_written_as_autograd_would(name: str) -> None:
    net, samples = new_net(name).eval(), random_samples(9, classes=4)
    meter = GradientMeter(net, samples.x)
    rows, others = torch.tensor([4, 1]), torch.tensor([0, 8, 7])
    share, other_share = torch.tensor([0.5, 2.0]), torch.tensor([1.0, 0.0, 3.0])
    measured = meter.of_samples(samples.x, samples.y)
    meter.write([(measured, rows, share), (measured, others, other_share)])
    losses = cross_entropy(net(samples.x), samples.y, reduction="none")
    loss = (share * losses[rows]).sum() + (other_share * losses[others]).sum()
    trained = [p for p in net.parameters() if p.requires_grad]
    for parameter, expected in zip(
        trained, torch.autograd.grad(loss, trained, allow_unused=True), strict=True
    ):
        if expected is None:
            assert parameter.grad is None
        else:
            torch.testing.assert_close(parameter.grad, expected, **CLOSE)


def test_a_net_with_dropout_can_be_measured_as_it_trains() -> None:
    net = nn.Sequential(nn.Linear(6, 50), nn.Dropout(0.5), nn.Linear(50, 4)).eval()
    samples = random_samples(9, classes=4)
    meter = GradientMeter(net, samples.x, training=True)
    assert not net.training
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        measured = meter.of_samples(samples.x, samples.y)
        torch.default_generator.manual_seed(0)
        loss = cross_entropy(net.train()(samples.x), samples.y, reduction="sum")
    square = measured.norms @ measured.gram() @ measured.norms
    torch.testing.assert_close(square.sqrt(), gradient(net, loss).norm())


def test_a_net_that_mixes_samples_in_training_is_measured_in_eval_mode() -> None:
    net = new_net("buffers")
    samples = random_samples(9, classes=4)
    kept = {name: values.clone() for name, values in net.named_buffers()}
    meter = GradientMeter(net, samples.x, training=True)
    assert meter.layers is None
    gram = meter.of_samples(samples.x, samples.y).gram()
    assert all(torch.equal(values, kept[name]) for name, values in net.named_buffers())
    slow = unit_rows(whole_gradients(net.eval(), samples))
    torch.testing.assert_close(gram, slow @ slow.T, **CLOSE)


def test_confident_samples_keep_their_direction() -> None:
    net, samples = build_mlp(6, 4, (5,), seed=0), random_samples(6, classes=4)
    with torch.no_grad():
        net.head.weight.mul_(60)
    measured = GradientMeter(net, samples.x).of_samples(samples.x, samples.y)
    assert 0 < measured.norms.min() < 1e-6
    torch.testing.assert_close(measured.gram().diagonal(), torch.ones(6))


class Large(nn.Sequential):
    traits: ClassVar[NetTraits] = NetTraits(large=True)


def large_net(*, bias: bool = True) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        head = nn.Linear(6, 4, bias=bias)
        return Large(nn.Flatten(), nn.LazyLinear(6), nn.LayerNorm(6), nn.Dropout(), head)


def slow_gradients(net: nn.Module, samples) -> torch.Tensor:  # type: ignore[no-untyped-def]
    """Return the gradients of the last layer, one sample at a time."""
    net.requires_grad_(False)
    net[-1].requires_grad_(True)  # type: ignore[index]
    return whole_gradients(net.eval(), samples)


@pytest.mark.parametrize("bias", [True, False])
def test_products_and_lengths_are_those_of_the_last_layer_one_at_a_time(bias: bool) -> None:
    samples, net = random_samples(9, classes=4), large_net(bias=bias)
    meter = meter_of(net, samples.x)
    assert isinstance(meter, HeadMeter)
    assert meter.layers is None
    net.train()
    measured = meter.of_samples(samples.x, samples.y)
    assert net.training
    slow = slow_gradients(net, samples)
    torch.testing.assert_close(measured.norms, slow.norm(dim=1), **CLOSE)
    torch.testing.assert_close(measured.gram(), unit_rows(slow) @ unit_rows(slow).T, **CLOSE)


def test_a_buffer_is_compared_by_the_sum_of_its_gradients() -> None:
    samples, net = random_samples(12, classes=4), large_net()
    new, old = samples.take(torch.arange(5)), samples.take(torch.arange(5, 12))
    meter = meter_of(net, samples.x)
    buffer = BufferGradient(meter, old, new)
    found = buffer.cosines(buffer.measure(), meter.of_samples(new.x, new.y), torch.arange(5))
    slow = slow_gradients(net, samples)
    expected = unit_rows(slow[:5]) @ unit_rows(slow[5:].sum(dim=0, keepdim=True)).T
    torch.testing.assert_close(found, expected.squeeze(1), **CLOSE)


def test_a_sample_that_sends_nothing_back_has_no_direction() -> None:
    samples, net = random_samples(2, classes=4), large_net()
    meter = meter_of(net, samples.x)
    with torch.no_grad():
        net[-1].weight.zero_()  # type: ignore[index,union-attr,operator]
        net[-1].bias.copy_(1e4 * torch.eye(4)[samples.y[0]])  # type: ignore[index,union-attr,operator]
    measured = meter.of_samples(samples.x[:1], samples.y[:1])
    assert measured.norms.tolist() == [0]
    assert cosines(measured.gram(), torch.eye(1), torch.eye(1)).tolist() == [[0]]


def test_other_nets_are_measured_as_a_whole() -> None:
    samples = random_samples(3, classes=4)
    assert type(meter_of(NETS["mlp"](), samples.x)) is GradientMeter


@pytest.mark.parametrize("kept", [2, 12])  # with products of inputs made once, and without
@pytest.mark.parametrize("name", ["mlp", "no bias", "frozen", "in place", "conv", "norms"])
def test_cosines_are_those_of_gradients_one_at_a_time(name: str, kept: int) -> None:
    net = {**FACTORED, **OTHER}[name]().eval()
    current, memory = random_samples(9, classes=4), random_samples(kept, classes=4, seed=1)
    meter = GradientMeter(net, current.x)
    gradient = BufferGradient(meter, memory, current)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.3)
    rows = torch.tensor([7, 2, 5])
    batch = current.take(rows)
    fast = gradient.cosines(gradient.measure(), meter.of_samples(batch.x, batch.y), rows)
    old = whole_gradients(net, memory).sum(dim=0, keepdim=True)
    slow = unit_rows(whole_gradients(net, batch)) @ unit_rows(old).T
    torch.testing.assert_close(fast, slow.squeeze(1), **CLOSE)


def test_products_of_inputs_are_made_once_for_images_as_well() -> None:
    net = build_mlp(6, 4, (5,), seed=0)
    flat, few = random_samples(9, classes=4), random_samples(2, classes=4, seed=1)
    current, memory = (Samples(s.x.view(-1, 2, 3), s.y) for s in (flat, few))
    meter = GradientMeter(net, current.x)
    rows = torch.arange(9)
    new = meter.of_samples(current.x, current.y)
    without = SampleGradients(
        new.norms, new.deltas, (torch.full((9, 6), torch.nan), *new.inputs[1:]), new.biases
    )
    gradient = BufferGradient(meter, memory, current)
    result = gradient.cosines(gradient.measure(), without, rows)
    expected = BufferGradient(GradientMeter(net, flat.x), few, flat)
    torch.testing.assert_close(result, expected.cosines(expected.measure(), new, rows))


def test_a_buffer_without_a_gradient_has_no_direction() -> None:
    net, samples = build_mlp(6, 4, (5,), seed=0), random_samples(4, classes=4)
    meter = GradientMeter(net, samples.x)
    gradient = BufferGradient(meter, samples, samples)
    measured = meter.of_samples(samples.x, samples.y)
    nothing = SampleGradients(torch.zeros(4), measured.deltas, measured.inputs, measured.biases)
    assert gradient.cosines(nothing, measured, torch.arange(4)).tolist() == [0] * 4
