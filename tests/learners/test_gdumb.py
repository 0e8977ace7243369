from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from faircil.learners.balanced_buffer import rate, reset
from faircil.nets import build_mlp
from faircil.samples import concatenate
from learning import buffer_of, new_learner, parameters, random_samples


def test_it_trains_on_the_buffer_and_the_tasks_part_of_it_alone() -> None:
    learner = new_learner("gdumb")
    old, train = random_samples(7, seed=1), random_samples(60, seed=2)
    old, train = old.take(old.y < 3), train.take(train.y >= 3)
    material = learner.begin_task(train, buffer_of(old, quota=3))
    assert material.memory is None
    assert torch.equal(material.current.x[: len(old)], old.x)
    assert len(material.current) == len(old) + 3 * len(torch.unique(train.y))
    kept = learner.remember(train, None, buffer_of(old, quota=3)).samples
    assert kept is not None
    assert torch.equal(kept.x, material.current.x)


def test_every_task_but_the_first_starts_from_new_weights() -> None:
    learner = new_learner("gdumb")
    starts = [parameters(learner.net)]
    state = torch.get_rng_state()
    for seed in (1, 2, 3):
        train = random_samples(60, seed=seed)
        learner.begin_task(train, buffer_of(concatenate([train, train])))
        starts.append(parameters(learner.net))
        with torch.no_grad():
            for parameter in learner.net.parameters():
                parameter.zero_()
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[1], starts[2])
    assert not torch.equal(starts[2], starts[3])
    assert (starts[3] != 0).all()
    assert torch.equal(torch.get_rng_state(), state)


def test_new_weights_are_those_of_a_net_made_from_the_seed() -> None:
    net = build_mlp(6, 5, (8,), seed=0)
    reset(net, 7)
    assert torch.equal(parameters(net), parameters(build_mlp(6, 5, (8,), seed=7)))


def test_running_statistics_start_again_too() -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    net(torch.randn(9, 6))
    assert net[1].running_mean.any()
    reset(net, 0)
    assert not net[1].running_mean.any()


def test_the_learning_rate_is_torchs_cosine_with_restarts_after_one_epoch_of_warm_up() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.05)
    scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=5e-4)
    expected = [0.005]
    for _ in range(255):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05  # a cycle has just ended
    assert [rate(epoch, 256, 0.05, 5e-4) for epoch in range(1, 257)] == pytest.approx(expected)


@pytest.mark.parametrize("epochs", [2, 3, 10, 100])
def test_with_any_number_of_epochs_the_last_cycle_takes_half_and_ends_with_them(
    epochs: int,
) -> None:
    rates = [rate(epoch, epochs, 1.0, 0.0) for epoch in range(1, epochs + 1)]
    assert rates[0] == 0.1
    last = rates[math.ceil(epochs / 2) :]
    assert last == sorted(last, reverse=True)
    assert rates[-1] <= (1 + math.cos(math.pi * (1 - 2 / epochs))) / 2 + 1e-9
    assert all(0 < value <= 1 for value in rates)


def test_begin_epoch_sets_the_learning_rate() -> None:
    learner = new_learner("gdumb", lr=0.2, min_lr=0.1)
    learner.begin_task(random_samples(60), buffer_of(None))
    for epoch in (1, 2, 8):
        assert learner.begin_epoch(epoch, 8) is None
        assert learner.optimizer.param_groups[0]["lr"] == rate(epoch, 8, 0.2, 0.1)
