from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from faircil.learners.base import Batch
from faircil.learners.group_shares import FairBatch, GroupDro, moved
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, concatenate, group_counts
from faircil.weighting.measures import MEASURES
from learning import batch_of, buffer_of, gradient, new_learner, random_samples
from small_runs import FEW, small_config, small_stream

quick = settings(deadline=None, max_examples=60)


def begun(current: Samples, memory: Samples | None, **values: object) -> FairBatch:
    learner = new_learner("fairbatch", **values)
    assert isinstance(learner, FairBatch)
    learner.begin_task(current, buffer_of(memory))
    return learner


def of_groups(sizes: dict[tuple[int, int], int], seed: int = 0) -> Samples:
    """Make random samples, sizes[y, z] of each group."""
    groups = torch.tensor(list(sizes))
    y, z = groups.repeat_interleave(torch.tensor(list(sizes.values())), dim=0).unbind(dim=1)
    x = torch.randn(len(y), 6, generator=torch.Generator().manual_seed(seed))
    return Samples(x, y.clone(), z.clone())


def keyed(learner: FairBatch, values: Tensor) -> dict[tuple[int, ...], float]:
    """Return a value per group by the group's class and attribute values."""
    assert learner.pool is not None
    keys = learner.pool.keys().tolist()
    return {tuple(key): float(values[g]) for key, g in zip(keys, learner.group, strict=True)}


NEW = of_groups({(2, 0): 57, (2, 1): 3, (3, 0): 20, (3, 1): 20})
OLD = of_groups({(0, 0): 8, (0, 1): 8, (1, 0): 4, (1, 1): 12}, seed=1)


def test_shares_begin_as_they_are_in_each_half() -> None:
    learner = begun(NEW, OLD)
    expected = {
        **{key: n / 100 / 2 for key, n in group_counts(NEW).items()},
        **{key: n / 32 / 2 for key, n in group_counts(OLD).items()},
    }
    assert keyed(learner, learner.share) == pytest.approx(expected)
    alone = begun(NEW, None)
    assert keyed(alone, alone.share) == pytest.approx(
        {key: n / 100 for key, n in group_counts(NEW).items()}
    )


def test_a_class_that_comes_back_keeps_a_share_in_each_half() -> None:
    learner = begun(NEW, NEW.take(slice(50, 60)))
    assert len(learner.share) == 6
    assert learner.block.max() + 1 == 3
    assert learner.share.sum() == pytest.approx(1)
    assert learner.share[learner.group[100:]].unique().sum() == pytest.approx(0.5)


@pytest.mark.parametrize("batch_size", [16, 20])
def test_batches_follow_the_shares(batch_size: int) -> None:
    learner = begun(NEW, OLD, share_step=0)
    rows = learner.begin_epoch(1, 2)
    assert len(rows) == 2 * len(NEW)
    pool = concatenate([NEW, OLD])
    for batch in rows.split(batch_size):
        assert abs(int((batch < len(NEW)).sum()) - len(batch) / 2) <= 2
    drawn = group_counts(pool.take(rows))
    for key, share in keyed(learner, learner.share).items():
        assert drawn[key] == pytest.approx(200 * share, abs=3)


def test_an_epoch_measures_the_net_as_it_is() -> None:
    learner = begun(NEW, OLD)
    pool = concatenate([NEW, OLD])
    for _ in range(2):
        losses: dict[tuple[int, ...], list[float]] = {}
        for x, y, key in zip(pool.x, pool.y, pool.keys().tolist(), strict=True):
            loss = -torch.log_softmax(learner.net(x[None])[0], dim=0)[y]
            losses.setdefault(tuple(key), []).append(float(loss.detach()))
        mean = {key: sum(those) / len(those) for key, those in losses.items()}
        assert keyed(learner, learner._group_losses()) == pytest.approx(mean, rel=1e-5)
        gap = {y: abs(mean[y, 1] - mean[y, 0]) for y in range(4)}
        widest = max(gap, key=lambda y: gap[y])
        worse = 0 if mean[widest, 0] > mean[widest, 1] else 1
        before = keyed(learner, learner.share)
        learner.begin_epoch(1, 2)
        after = keyed(learner, learner.share)
        step = 0.01 * (before[widest, 0] + before[widest, 1])
        assert after[widest, worse] - before[widest, worse] == pytest.approx(step, rel=1e-4)
        assert before[widest, 1 - worse] - after[widest, 1 - worse] == pytest.approx(step, rel=1e-4)
        assert {key for key in after if after[key] != before[key]} == {(widest, 0), (widest, 1)}
        with torch.no_grad():
            for parameter in learner.net.parameters():
                parameter.mul_(-1.5)


@quick
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.floats(0, 1), st.integers(0, 1000))
def test_share_moves_from_the_best_to_the_worst(sizes: list[int], step: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    block = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    share, losses = torch.rand(2, len(block), generator=generator, dtype=torch.float64)
    share[torch.rand(len(block), generator=generator) < 0.2] = 0
    gaps = []
    for number in range(len(sizes)):
        members = [g for g in range(len(block)) if block[g] == number]
        best, worst = (of(members, key=lambda g: losses[g]) for of in (min, max))
        gaps.append((float(losses[worst] - losses[best]), best, worst, members))
    _, best, worst, members = max(gaps, key=lambda row: row[0])
    amount = min(step * float(share[members].sum()), float(share[best]))
    expected = share.clone()
    expected[best] -= amount
    expected[worst] += amount
    before = share.clone()
    result = moved(share, losses, block, step)
    torch.testing.assert_close(result, expected)
    assert torch.equal(share, before)
    assert (result >= 0).all()
    torch.testing.assert_close(result.sum(), share.sum())


def test_without_an_attribute_classes_trade_shares_old_or_new() -> None:
    current, memory = (Samples(part.x, part.y) for part in (NEW, OLD))
    learner = begun(current, memory, share_step=0.1)
    expected = {(0,): 0.25, (1,): 0.25, (2,): 0.3, (3,): 0.2}
    assert keyed(learner, learner.share) == pytest.approx(expected)
    with torch.no_grad():
        learner.net.head.bias += torch.tensor([9.0, 0, 0, -9, 0])  # type: ignore[union-attr,operator]
    learner.begin_epoch(1, 2)
    expected |= {(0,): 0.15, (3,): 0.3}
    assert keyed(learner, learner.share) == pytest.approx(expected)


def test_several_attributes_make_one_group_each_combination() -> None:
    z = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]).repeat(10, 1)
    samples = Samples(random_samples(40).x, torch.arange(2).repeat_interleave(20), z)
    learner = begun(samples, None)
    assert learner.share.tolist() == pytest.approx([1 / 8] * 8)
    assert learner.block.tolist() == [0] * 4 + [1] * 4


def test_it_makes_as_many_steps_as_replay() -> None:
    stream = small_stream(attribute=True)
    steps = [
        [
            record.steps
            for record in run(
                small_config(method, attribute=True, batch_size=size), 0, stream=stream
            ).epochs
        ]
        for method, size in (("er", 8), ("fairbatch", 16))
    ]
    assert steps[0] == steps[1]
    for dataset in ("mnist", "toy"):
        assert resolve(dataset=dataset, method="fairbatch").settings.training.batch_size == 128


def test_shares_follow_the_losses_of_a_run_and_begin_anew_with_a_task() -> None:
    shares: list[Tensor] = []

    def keep(state: RunState) -> None:
        assert isinstance(state.learner, FairBatch)
        shares.append(state.learner.share)

    config = small_config("fairbatch", attribute=True, share_step=0.05)
    run(config, 0, stream=small_stream(attribute=True), checkpoint=keep)
    assert [len(share) for share in shares] == [4, 4, 5, 5, 9, 9]
    for share in shares:
        assert share.sum() == pytest.approx(1)
    assert not torch.equal(shares[0], shares[1])
    # The first task has four groups of equal size; a class is half of a batch.
    assert sorted(shares[0].tolist()) == pytest.approx([0.225, 0.25, 0.25, 0.275])
    # Group (2, 0) is absent, so class 2 has nothing to trade and is half of every batch.
    assert shares[3][0] == pytest.approx(0.5)


def test_dropout_is_off_while_groups_are_measured() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 5))
    learner = new_learner("fairbatch", net)
    assert isinstance(learner, FairBatch)
    learner.begin_task(NEW, buffer_of(OLD))
    net.train()
    assert torch.equal(learner._group_losses(), learner._group_losses())


def test_classes_trade_shares_where_the_measure_compares_classes() -> None:
    learner = new_learner("fairbatch")
    assert isinstance(learner, FairBatch)
    learner.measure = MEASURES["eer"]
    learner.begin_task(NEW, buffer_of(OLD))
    assert len(learner.share) == len(set(NEW.y.tolist())) + len(set(OLD.y.tolist()))
    assert set(learner.block.tolist()) == {0}


@pytest.mark.parametrize(
    ("method", "measure", "noted"),
    [
        ("fairbatch", "eo", False),
        ("fairbatch", "eer", False),
        ("fairbatch", "dp", True),
        ("group-dro", "dp", True),
        ("fairl", "eer", True),
        ("er", "dp", False),
        ("fsw", "dp", False),
    ],
)
def test_a_run_says_that_its_method_does_not_follow_the_measure(
    method: str, measure: str, noted: bool
) -> None:
    config = small_config(method, attribute=True, measure=measure, epochs=1)
    notes = run(config, 0, stream=small_stream(attribute=True)).notes
    assert any(f"does not follow measure '{measure}'" in note for note in notes) is noted


Key = tuple[int, ...]
STEP, SIZE = 0.3, 0.7


def begun_dro(current: Samples, memory: Samples | None, **settings: object) -> GroupDro:
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
    learner = begun_dro(current, buffer, group_step=STEP, size_adjustment=adjust)
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
    learner = begun_dro(current, memory, group_step=0)
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
    learner = begun_dro(first, None, group_step=0.1)
    learner.step(batch_of(first))
    learner.begin_task(second, buffer_of(first))
    assert learner.q.tolist() == pytest.approx([0.2] * 5)


def test_a_group_that_comes_back_is_one_group() -> None:
    samples = random_samples(60, attribute=True)
    learner = begun_dro(samples, samples.take(slice(0, 20)))
    assert len(learner.q) == 10
    assert torch.equal(learner.memory_group, learner.group[:20])


@pytest.mark.parametrize("attribute", [False, True])
def test_an_epoch_draws_groups_equally_often(attribute: bool) -> None:
    train = small_stream(attribute=attribute).tasks[2].train
    old = small_stream(attribute=attribute).tasks[0].train
    learner = begun_dro(train, old)
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
    learner = begun_dro(current, memory, group_step=0.5, lr=0.001)
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
