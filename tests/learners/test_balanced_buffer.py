from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from faircil.learners.balanced_buffer import BalancedReplay, rate, reset
from faircil.learners.replay import in_turn
from faircil.nets import build_mlp
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, concatenate, group_counts
from learning import batch_of, buffer_of, new_learner, parameters, random_samples
from small_runs import small_config, small_stream

LR = 0.01


def balanced(**settings: object) -> BalancedReplay:
    learner = new_learner("bgs", head_lr=LR, **settings)
    assert isinstance(learner, BalancedReplay)
    return learner


def layers(learner: BalancedReplay) -> tuple[Tensor, Tensor]:
    """Return the parameters of the last layer, and all others."""
    own = sum(part.numel() for part in learner.net.head.parameters())
    flat = parameters(learner.net)
    return flat[-own:], flat[:-own]


def test_the_last_layer_alone_is_trained_on_the_buffer() -> None:
    # All samples fit into one batch, so a pass is one step of Adam, whose first step is lr · sign.
    learner, buffer = balanced(head_passes=1), random_samples(30, seed=1, attribute=True)
    learner.begin_task(random_samples(20), buffer_of(None))
    before, others = layers(learner)
    loss = cross_entropy(learner.net(buffer.x), buffer.y)
    slopes = torch.autograd.grad(loss, list(learner.net.head.parameters()))
    slope = torch.cat([part.flatten() for part in slopes])
    learner.end_task(buffer_of(buffer))
    after, others_after = layers(learner)
    torch.testing.assert_close(after, before - LR * slope / (slope.abs() + 1e-8))
    assert torch.equal(others_after, others)


def test_the_next_task_goes_on_from_the_layer_before() -> None:
    learner, buffer = balanced(), buffer_of(random_samples(30, seed=1))
    first, second = random_samples(20), random_samples(20, seed=2)
    memory = learner.begin_task(first, buffer).memory
    learner.step(batch_of(first, None, memory))
    trained = parameters(learner.net)
    learner.end_task(buffer)
    fitted = parameters(learner.net)
    assert not torch.equal(fitted, trained)
    learner.begin_task(second, buffer)
    assert torch.equal(parameters(learner.net), trained)


def state_after(method: str, **settings: object) -> RunState:
    states: list[RunState] = []
    config = small_config(method, attribute=True, **settings)
    run(config, 0, stream=small_stream(attribute=True), checkpoint=states.append)
    return states[-1]


def test_training_is_that_of_replay_up_to_the_last_layer() -> None:
    own, replay = state_after("bgs"), state_after("er")
    assert own.buffer.samples is not None
    assert replay.buffer.samples is not None
    assert torch.equal(own.buffer.samples.x, replay.buffer.samples.x)
    both = [parameters(state.learner.net.features) for state in (own, replay)]
    assert torch.equal(*both)


def kept_after(tasks: list[Samples], quota: int = 4) -> list[dict[tuple[int, ...], int]]:
    """Return the sizes of the groups in the buffer after each task."""
    learner, buffer = balanced(quota="total"), buffer_of(None, quota)
    found = []
    for task in tasks:
        learner.begin_task(task, buffer)
        buffer = learner.remember(task, None, buffer)
        assert buffer.quota == quota
        assert buffer.samples is not None
        found.append(group_counts(buffer.samples))
    return found


def made(sizes: dict[tuple[int, int], int]) -> Samples:
    y, z = torch.tensor([key for key, n in sizes.items() for _ in range(n)]).T
    return Samples(torch.randn(len(y), 6), y.clone(), z.clone())


def test_a_total_is_shared_by_the_groups_seen_so_far() -> None:
    # 4 · 5 classes · 2 values = 40 in all.
    pairs = [[(0, 0), (0, 1), (1, 0), (1, 1)], [(2, 0), (2, 1)], [(3, 0), (3, 1), (4, 0), (4, 1)]]
    after = kept_after([made(dict.fromkeys(groups, 30)) for groups in pairs])
    assert after[0] == dict.fromkeys(pairs[0], 10)
    assert sum(after[1].values()) == 40
    assert {after[1][pair] for pair in pairs[1]} == {6}  # ⌊40/6⌋
    assert {after[1][pair] for pair in pairs[0]} == {7}
    assert after[2] == dict.fromkeys(pairs[0] + pairs[1] + pairs[2], 4)


def test_the_largest_groups_make_room_and_small_ones_stay() -> None:
    first = made({(0, 0): 30, (0, 1): 3, (1, 0): 30, (1, 1): 30})
    before, after = kept_after([first, made({(2, 0): 30, (2, 1): 1})])
    assert before == {(0, 0): 10, (0, 1): 3, (1, 0): 10, (1, 1): 10}
    # 33 samples, 7 places are free: 6 and 1 new ones fit, and nobody has to go.
    assert after == {**before, (2, 0): 6, (2, 1): 1}


@pytest.mark.parametrize("left", [1, 7, 12, 20, 24])
def test_taking_turns_leaves_what_taking_from_the_largest_leaves(left: int) -> None:
    group = torch.tensor([0] * 12 + [1] * 3 + [2] * 9)
    sizes = [12, 3, 9]
    while sum(sizes) > left:
        sizes[sizes.index(max(sizes))] -= 1
    order = in_turn(group, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(24))
    found = torch.bincount(group[order[:left]], minlength=3).tolist()
    assert sorted(found) == sorted(sizes)
    assert max(found) - min(found) <= 1 or found[1] == 3
    other = in_turn(group, torch.Generator().manual_seed(1))
    assert not torch.equal(order, other)


def test_a_buffer_without_an_attribute_is_balanced_over_classes() -> None:
    tasks = [random_samples(80, 2, seed=1), random_samples(40, 5, seed=2)]
    plain = [Samples(task.x, task.y) for task in tasks]
    assert kept_after(plain)[0] == {(0,): 10, (1,): 10}  # 4 · 5 = 20
    assert sum(kept_after(plain)[1].values()) == 20
    assert concatenate(plain).z is None


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
