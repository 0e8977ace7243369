from __future__ import annotations

import pytest
import torch

from faircil.learners.gradients import BufferGradient, GradientMeter, SampleGradients
from faircil.nets import build_mlp
from faircil.samples import Samples
from learning import random_samples
from whole_gradients import FACTORED, OTHER, unit_rows, whole_gradients

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


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
