"""Forecasts agree with autograd and with loops, leave the net as it was, and refuse bad data."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy
from torch.utils.data import TensorDataset

from faircil import Samples, forecast
from faircil.errors import DataError
from faircil.nets import MLP, features_of
from oracles import make_samples, seeded

CURRENT = make_samples([2, 3, 3] * 5, [0, 1, 1] * 5, seed=1)
MEMORY = make_samples([0, 1] * 10, [0, 1, 1, 0] * 5, seed=2)


def net() -> MLP:
    return seeded(lambda: MLP(6, 4, (8,)))


def test_slope_is_the_product_of_mean_gradients_by_autograd() -> None:
    model = net()

    def gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = torch.autograd.grad(cross_entropy(model(x), y), list(model.head.parameters()))
        return torch.cat([part.flatten() for part in parts])

    found = forecast(model, CURRENT, MEMORY)
    assert MEMORY.z is not None
    step = gradient(CURRENT.x, CURRENT.y)
    for place, (y, z) in enumerate(zip(found.groups.label, found.groups.attribute, strict=True)):
        rows = (MEMORY.y == int(y)) & (MEMORY.z == int(z))
        expected = -float(gradient(MEMORY.x[rows], MEMORY.y[rows]) @ step)
        assert found.slopes[place] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_crowding_is_the_margin_to_the_own_class_by_a_loop() -> None:
    model = net()
    old, new = features_of(model, MEMORY.x), features_of(model, CURRENT.x)
    found = forecast(model, CURRENT, MEMORY)
    assert MEMORY.z is not None
    for place, (y, z) in enumerate(zip(found.groups.label, found.groups.attribute, strict=True)):
        margins = []
        for i in ((MEMORY.y == int(y)) & (MEMORY.z == int(z))).nonzero().flatten().tolist():
            others = [j for j in range(len(MEMORY)) if MEMORY.y[j] == int(y) and j != i]
            own = cosine_similarity(old[i], old[others].mean(dim=0), dim=0)
            rivals = [cosine_similarity(old[i], new[CURRENT.y == k].mean(0), dim=0) for k in (2, 3)]
            margins.append(float(max(rivals) - own))
        assert found.crowding[place] == pytest.approx(np.mean(margins), rel=1e-9)


def test_datasets_give_the_same_and_the_net_is_left_as_it_was() -> None:
    model = net()
    before = deepcopy(model.state_dict())
    plain = forecast(model, CURRENT, MEMORY)
    assert CURRENT.z is not None
    assert MEMORY.z is not None
    read = forecast(
        model,
        TensorDataset(CURRENT.x, CURRENT.y, CURRENT.z),
        TensorDataset(MEMORY.x, MEMORY.y, MEMORY.z),
    )
    np.testing.assert_allclose(read.slopes, plain.slopes, rtol=1e-12)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_what_is_harm_depends_on_replay() -> None:
    found = forecast(net(), CURRENT, MEMORY, replayed=False)
    assert found.harm is found.slopes
    assert forecast(net(), CURRENT, MEMORY).harm is not found.slopes


def test_a_task_without_another_class_crowds_nobody() -> None:
    again = make_samples([1] * 4, [2] * 4)
    found = forecast(net(), again, MEMORY)
    assert np.isnan(found.crowding[found.groups.label == 1]).all()
    assert not np.isnan(found.crowding[found.groups.label == 0]).any()


def test_nothing_old_is_refused() -> None:
    with pytest.raises(DataError, match="every group of `memory` is in the task too"):
        forecast(net(), MEMORY, MEMORY)
    with pytest.raises(DataError, match="`memory` has no samples"):
        forecast(net(), CURRENT, MEMORY.take(slice(0)))


def test_inputs_that_are_not_finite_are_told() -> None:
    net = torch.nn.Linear(3, 2)
    old = Samples(torch.zeros(2, 3), torch.tensor([0, 0]))
    new = Samples(torch.tensor([[0.0, 0.0, torch.nan]]), torch.tensor([1]))
    for current, memory, name in ((new, old, "current"), (old, new, "memory")):
        with pytest.raises(DataError, match=f"features of `{name}` are not finite"):
            forecast(net, current, memory)
