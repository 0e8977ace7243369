from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import nn

from faircil.learners.gradients import BufferGradient, GradientMeter, HeadMeter, cosines, meter_of
from faircil.nets import NetTraits
from learning import random_samples
from whole_gradients import FACTORED, OTHER, unit_rows, whole_gradients

NETS = {**FACTORED, **OTHER}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class Large(nn.Sequential):
    traits: ClassVar[NetTraits] = NetTraits(large=True)


def new_net(*, bias: bool = True) -> nn.Module:
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
    samples, net = random_samples(9, classes=4), new_net(bias=bias)
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
    samples, net = random_samples(12, classes=4), new_net()
    new, old = samples.take(torch.arange(5)), samples.take(torch.arange(5, 12))
    meter = meter_of(net, samples.x)
    buffer = BufferGradient(meter, old, new)
    found = buffer.cosines(buffer.measure(), meter.of_samples(new.x, new.y), torch.arange(5))
    slow = slow_gradients(net, samples)
    expected = unit_rows(slow[:5]) @ unit_rows(slow[5:].sum(dim=0, keepdim=True)).T
    torch.testing.assert_close(found, expected.squeeze(1), **CLOSE)


def test_a_sample_that_sends_nothing_back_has_no_direction() -> None:
    samples, net = random_samples(2, classes=4), new_net()
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
