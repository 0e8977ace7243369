from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from faircil.learners.gradients import GradientMeter, SampleGradients, cosines
from faircil.nets import build_mlp
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
