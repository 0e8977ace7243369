"""A ResNet as the net of a run: statistics of its normalisations change in steps alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.errors import UsageError
from faircil.runs.experiment import run
from faircil.runs.state import AveragedNet
from faircil.vision import backbones
from faircil.vision.backbones import ResNetClassifier, build_resnet18
from faircil.weighting.weights import FairSampleWeights
from small_runs import image_stream, small_config

IMAGE = (3, 16, 16)
GRID = (3, 2, 1)  # two stripes in each channel


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbones, "WIDTH", 2)


def statistics(net: torch.nn.Module) -> Tensor:
    return torch.cat([each.double().flatten() for each in net.buffers()])


@pytest.mark.parametrize("method", ["er", "gdumb"])
def test_every_pass_in_training_mode_is_a_step(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    rows: list[int] = []
    forward = backbones.ResNet.forward

    def counted(net: backbones.ResNet, x: Tensor) -> Tensor:
        rows.extend([len(x)] * net.training)
        return forward(net, x)

    monkeypatch.setattr(backbones.ResNet, "forward", counted)
    config = small_config(
        method, "fsw" if method == "er" else "none", attribute=True, net="resnet18", epochs=1
    )
    result = run(config, 0, stream=image_stream(IMAGE, GRID))
    steps = sum(epoch.steps for epoch in result.epochs)
    assert len(rows) == steps
    assert max(rows) <= 32


@pytest.mark.parametrize("gradient", ["last", "all"])
def test_weights_and_evaluation_leave_statistics_as_they_are(gradient: str) -> None:
    stream = image_stream(IMAGE, GRID)
    net = build_resnet18(IMAGE, 6, seed=0)
    net(stream.tasks[0].train.x)  # in training mode: statistics of the data
    before = statistics(net)
    weigh = FairSampleWeights(measure="eo", gradient=gradient)
    current = stream.tasks[1].train.take(torch.arange(10))
    result = weigh(net, current, stream.tasks[0].train.take(torch.arange(12)))
    assert torch.isfinite(result.weights).all()
    assert torch.equal(statistics(net), before)
    assert net.training


def test_a_step_without_current_samples_leaves_statistics_finite() -> None:
    net = build_resnet18(IMAGE, 2, seed=0)
    before = statistics(net)
    assert net(torch.empty(0, 3 * 16 * 16)).shape == (0, 2)
    assert torch.equal(statistics(net), before)


def test_rows_in_eval_mode_do_not_depend_on_how_many_pass_together() -> None:
    net = build_resnet18(IMAGE, 2, seed=0).eval()
    x = image_stream(IMAGE, GRID).tasks[0].train.x.repeat(3, 1)
    with torch.no_grad():
        many, few = net(x), net(x[:5])
    torch.testing.assert_close(many[:5], few, rtol=1e-5, atol=1e-5)


def test_the_stem_keeps_small_images_whole() -> None:
    small, large = (ResNetClassifier((3, side, side), 2, 2) for side in (64, 65))
    assert small.body.small
    assert not large.body.small
    assert large(torch.zeros(2, 3 * 65 * 65)).shape == (2, 2)
    grey = ResNetClassifier((1, 28, 28), 2, 2)
    assert grey(torch.zeros(2, 28 * 28)).shape == (2, 2)
    with pytest.raises(UsageError, match="at least 16 × 16 pixels"):
        build_resnet18((3, 8, 8), 2, seed=0)


def test_statistics_are_averaged_with_the_parameters() -> None:
    net = build_resnet18(IMAGE, 2, seed=0)
    average, x = AveragedNet.of(net), image_stream(IMAGE, GRID).tasks[0].train.x
    seen = []
    for part in (x[:20], x[20:40]):
        net(part)
        average.add(net)
        seen.append(net.body.stem.norm.running_mean.clone())
    average.show(net)
    expected = torch.stack(seen).mean(0)
    torch.testing.assert_close(net.body.stem.norm.running_mean, expected)
