"""Every learner trains a convolutional net on images, too."""

from __future__ import annotations

import pytest
import torch

from faircil.errors import UsageError
from faircil.learners import LEARNERS
from faircil.nets import ConvNet
from faircil.results.record import RunResult
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.testing.learners import parameters
from small_runs import image_stream, small_config, small_stream

IMAGE = (2, 8, 9)
GRID = (2, 1, 3)  # three stripes in each channel


CASES = [
    (method, weighting)
    for method, row in LEARNERS.items()
    for weighting in ("none", "fsw")
    if not row.one_pass and (weighting == "none" or row.no_weighting is None)
]


def trained(method: str, weighting: str = "none", **settings: object) -> tuple[ConvNet, RunResult]:
    settings = {"net": "conv", "hidden": 16, **settings}
    config = small_config(method, weighting, attribute=True, **settings)
    ends: list[RunState] = []
    result = run(config, 0, stream=image_stream(IMAGE, GRID), checkpoint=ends.append)
    return ends[-1].learner.net, result  # type: ignore[return-value]


@pytest.mark.parametrize(("method", "weighting"), CASES)
def test_every_learner_trains_a_convolutional_net(method: str, weighting: str) -> None:
    net, result = trained(method, weighting, epochs=16 if method == "gdumb" else 2)
    assert any(isinstance(module, ConvNet) for module in net.modules())
    assert torch.isfinite(parameters(net)).all()
    assert (result.per_task[0].accuracy or 0) > 0.6


@pytest.mark.parametrize("gradient", ["last", "all"])
def test_the_same_seed_gives_the_same_net(gradient: str) -> None:
    (one, first), (two, again) = (trained("er", "fsw", gradient=gradient) for _ in range(2))
    assert torch.equal(parameters(one), parameters(two))
    assert first.per_task == again.per_task


def test_data_that_are_no_images_are_a_mistake() -> None:
    config = small_config(net="conv")
    message = "`net=conv` is for images, and the data 'small' is not known to be images; use `net=m"
    with pytest.raises(UsageError, match=message):
        run(config, 0, stream=small_stream(attribute=False))


def test_a_convolutional_net_serves_as_features_of_moments() -> None:
    net, result = trained("moments", features="trained", width=60)
    assert any(isinstance(module, ConvNet) for module in net.modules())
    assert (result.per_task[-1].accuracy or 0) > 0.6
