from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from faircil.learners.base import Batch
from faircil.learners.group_shares import GroupDro
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from faircil.weighting.measures import MEASURES
from learning import batch_of, buffer_of, gradient, new_learner, random_samples
from small_runs import FEW, small_config, small_stream

Key = tuple[int, ...]
STEP, SIZE = 0.3, 0.7


def begun(current: Samples, memory: Samples | None, **settings: object) -> GroupDro:
    learner = new_learner("group-dro", **settings)
    assert isinstance(learner, GroupDro)
    learner.begin_task(current, buffer_of(memory))
    return learner


def parted(samples: Samples) -> tuple[Samples, Samples]:
    """Part samples into classes 3 and 4, the task, and the others, the buffer."""
    new = samples.y >= 3
    return samples.take(new), samples.take(~new)


def by_key(values: Tensor, keys: list[Key]) -> dict[Key, float]:
    return dict(zip(keys, values.tolist(), strict=True))


def slow_step(
    learner: GroupDro, batch: Batch, q: dict[Key, float], size: dict[Key, int], adjust: float
) -> tuple[Tensor, dict[Key, float]]:
    """One sample at a time: the loss, and the weights of the groups after the step."""
    parts = [batch.current] if batch.memory is None else [batch.current, batch.memory]
    losses: dict[Key, list[Tensor]] = {}
    for part in parts:
        for x, y, key in zip(part.x, part.y, part.keys().tolist(), strict=True):
            loss = -torch.log_softmax(learner.net(x[None])[0], dim=0)[y]
            losses.setdefault(tuple(key), []).append(loss)
    mean = {key: sum(those, torch.zeros(())) / len(those) for key, those in losses.items()}
    raised = {
        key: weight * math.exp(STEP * (float(mean[key].detach()) + adjust / math.sqrt(size[key])))
        if key in mean
        else weight
        for key, weight in q.items()
    }
    q = {key: weight / sum(raised.values()) for key, weight in raised.items()}
    return sum((q[key] * loss for key, loss in mean.items()), torch.zeros(())), q


@pytest.mark.parametrize("adjust", [0.0, SIZE])
@pytest.mark.parametrize("attribute", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
def test_steps_are_those_of_the_formula(attribute: bool, replayed: bool, adjust: float) -> None:
    current, memory = parted(random_samples(60, attribute=attribute))
    buffer = memory if replayed else None
    learner = begun(current, buffer, group_step=STEP, size_adjustment=adjust)
    size = group_counts(current) | (group_counts(memory) if replayed else {})
    keys = sorted(size)
    q = dict.fromkeys(keys, 1 / len(keys))
    assert by_key(learner.q, keys) == pytest.approx(q)
    for start in (0, 4, 8):
        rows = torch.arange(start, start + 4)  # fewer than there are groups
        replay = (memory.take(rows), rows) if replayed else (None, None)
        batch = Batch(current.take(rows), rows, None, *replay)
        expected, q = slow_step(learner, batch, q, size, adjust)
        before = learner.q.clone()
        loss = learner.loss(batch)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))
        assert by_key(learner.q, keys) == pytest.approx(q, rel=1e-5)
        assert not torch.equal(learner.q, before)
        learner.step(batch)
        q = by_key(learner.q, keys)


def test_without_a_step_it_is_the_mean_over_groups() -> None:
    current, memory = parted(random_samples(200, attribute=True))
    learner = begun(current, memory, group_step=0)
    loss = learner.loss(batch_of(current, None, memory))
    both = batch_of(current, None, memory)
    keys = torch.cat([current.keys(), memory.keys()])
    losses = torch.nn.functional.cross_entropy(learner.net(both.x), both.y, reduction="none")
    means = [losses[(keys == key).all(dim=1)].mean() for key in torch.unique(keys, dim=0)]
    assert len(means) == 10
    torch.testing.assert_close(loss, torch.stack(means).mean())


def test_every_task_begins_with_equal_weights_of_all_groups_seen() -> None:
    states: list[RunState] = []
    told: list[list[float]] = []

    def keep(state: RunState) -> None:
        assert isinstance(state.learner, GroupDro)
        told.append(state.learner.q.tolist())
        states.append(state)

    config = small_config("group-dro", attribute=True, group_step=0.1, epochs=1)
    run(config, 0, stream=small_stream(attribute=True), checkpoint=keep)
    assert [len(q) for q in told] == [4, 5, 9]  # group (2, 0) is absent
    for q in told:
        assert sum(q) == pytest.approx(1)
        assert max(q) > 1.01 * min(q)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    learner = begun(first, None, group_step=0.1)
    learner.step(batch_of(first))
    learner.begin_task(second, buffer_of(first))
    assert learner.q.tolist() == pytest.approx([0.2] * 5)


def test_a_group_that_comes_back_is_one_group() -> None:
    samples = random_samples(60, attribute=True)
    learner = begun(samples, samples.take(slice(0, 20)))
    assert len(learner.q) == 10
    assert torch.equal(learner.memory_group, learner.group[:20])


@pytest.mark.parametrize("attribute", [False, True])
def test_an_epoch_draws_groups_equally_often(attribute: bool) -> None:
    train = small_stream(attribute=attribute).tasks[2].train
    old = small_stream(attribute=attribute).tasks[0].train
    learner = begun(train, old)
    rows = learner.begin_epoch(1, 2)
    assert len(rows) == len(train)
    drawn = group_counts(train.take(rows))
    assert len(drawn) == (4 if attribute else 2)
    assert max(drawn.values()) - min(drawn.values()) <= 3
    assert group_counts(train)[(4, 1) if attribute else (4,)] < len(train) / len(drawn)
    assert not attribute or group_counts(train)[4, 1] == FEW
    assert not torch.equal(rows, learner.begin_epoch(2, 2))


def test_weight_moves_to_the_group_that_is_learned_worst() -> None:
    current, memory = parted(random_samples(100))
    learner = begun(current, memory, group_step=0.5, lr=0.001)
    batch = batch_of(current, None, memory)
    with torch.no_grad():
        learner.net.head.bias[3] -= 5  # type: ignore[union-attr,index,operator]
    for _ in range(5):
        learner.step(batch)
    assert learner.q.argmax() == 3
    assert learner.q[3] > 0.9


def test_groups_are_classes_where_the_measure_compares_classes() -> None:
    train = small_stream(attribute=True).tasks[0].train
    learner = new_learner("group-dro")
    learner.measure = MEASURES["eer"]
    learner.begin_task(train, buffer_of(None))
    assert isinstance(learner, GroupDro)
    assert len(learner.q) == 2
    told: list[int] = []
    for measure in ("eo", "eer", "dp"):
        config = small_config("group-dro", attribute=True, measure=measure, epochs=1)
        states: list[RunState] = []
        run(config, 0, stream=small_stream(attribute=True), checkpoint=states.append)
        assert isinstance(states[-1].learner, GroupDro)
        told.append(len(states[-1].learner.q))
    assert told == [9, 5, 9]
