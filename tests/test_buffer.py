from __future__ import annotations

import pytest
import torch

from faircil.buffer import RULES, Candidates, ReplayBatches, ReplayBuffer
from faircil.errors import DataError, UsageError
from faircil.samples import Samples, group_counts
from faircil.testing import check_buffer_rule


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def task(sizes: dict[tuple[int, ...], int]) -> Samples:
    """Samples whose only feature is their number, groups mixed."""
    keys = torch.tensor([key for key, size in sizes.items() for _ in range(size)])
    keys = keys[torch.randperm(len(keys), generator=generator())]
    z = keys[:, 1] if keys.shape[1] > 1 else None
    return Samples(torch.arange(len(keys))[:, None].float(), keys[:, 0], z)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_keeps_the_contract(rule: str) -> None:
    check_buffer_rule(rule)


@pytest.mark.parametrize("rule", RULES)
def test_each_group_keeps_its_quota(rule: str) -> None:
    first, second = task({(0, 0): 20, (0, 1): 3, (1, 0): 9}), task({(2, 1): 8, (3, 0): 4})
    empty, weights = ReplayBuffer(5), torch.rand(12, generator=generator())
    after_one = empty.with_task(first, None, generator(), rule)
    after_two = after_one.with_task(second, weights, generator(), rule)
    assert empty.samples is None
    assert after_one.samples is not None
    assert after_two.samples is not None
    assert group_counts(after_one.samples) == {(0, 0): 5, (0, 1): 3, (1, 0): 5}
    assert group_counts(after_two.samples) == {
        **group_counts(after_one.samples),
        (2, 1): 5,
        (3, 0): 4,
    }
    assert torch.equal(after_two.samples.x[:13], after_one.samples.x)
    for x, key in zip(after_one.samples.x, after_one.samples.keys(), strict=True):
        assert torch.equal(first.keys()[int(x)], key)
    assert len(set(after_one.samples.x.flatten().tolist())) == 13


def test_a_group_that_comes_back_keeps_its_quota_drawn_from_all_of_it() -> None:
    first, second = task({(0,): 30, (1,): 9}), task({(0,): 10, (2,): 3})
    second = Samples(second.x + 100, second.y)
    new = []
    for seed in range(400):
        one = ReplayBuffer(4).with_task(first, None, generator(seed))
        two = one.with_task(second, None, generator(seed + 1000))
        assert one.samples is not None
        assert two.samples is not None
        assert group_counts(two.samples) == {(0,): 4, (1,): 4, (2,): 3}
        kept = set(two.samples.x.flatten().tolist())
        other = one.samples.x[one.samples.y == 1].flatten().tolist()
        assert kept.issuperset(other)
        assert kept <= {*one.samples.x.flatten().tolist(), *second.x.flatten().tolist()}
        new.append(int((two.samples.x[two.samples.y == 0] >= 100).sum()))
    # 4 of 40 without replacement, 10 of them new: variance 4·¼·¾·36/39, over 400 draws.
    deviation = (4 * 0.25 * 0.75 * 36 / 39 / 400) ** 0.5
    assert sum(new) / 400 == pytest.approx(1.0, abs=4 * deviation)
    assert two.seen == {(0,): 40, (1,): 9, (2,): 3}


def test_a_small_group_that_comes_back_is_filled_up() -> None:
    buffer = ReplayBuffer(5).with_task(task({(0, 1): 2}), None, generator())
    buffer = buffer.with_task(task({(0, 1): 2}), None, generator())
    assert buffer.samples is not None
    assert len(buffer.samples) == 4
    buffer = buffer.with_task(task({(0, 1): 20}), None, generator())
    assert buffer.samples is not None
    assert len(buffer.samples) == 5


def test_without_an_attribute_groups_are_classes() -> None:
    buffer = ReplayBuffer(4).with_task(task({(0,): 10, (1,): 2}), None, generator())
    assert buffer.samples is not None
    assert buffer.samples.z is None
    assert group_counts(buffer.samples) == {(0,): 4, (1,): 2}


def test_the_random_rule_draws_by_the_generator() -> None:
    samples = task({(0,): 50})
    first, again, other = (
        ReplayBuffer(5).with_task(samples, None, generator(s)) for s in (0, 0, 1)
    )
    assert first.samples is not None
    assert again.samples is not None
    assert other.samples is not None
    assert torch.equal(first.samples.x, again.samples.x)
    assert not torch.equal(first.samples.x, other.samples.x)


def test_large_weights_go_first_and_ties_are_drawn() -> None:
    samples = task({(0,): 30, (1,): 30})
    weights = torch.where(torch.arange(60) % 5 == 0, 1.0, 0.5)
    weights[samples.y == 1] *= 0.1  # groups do not compete with each other
    large = {int(x) for x in samples.x if x % 5 == 0}
    chosen = []
    for seed in range(5):
        rule = "large-weight-first"
        buffer = ReplayBuffer(10).with_task(samples, weights, generator(seed), rule)
        assert buffer.samples is not None
        rows = {int(x) for x in buffer.samples.x}
        assert large <= rows
        assert group_counts(buffer.samples) == {(0,): 10, (1,): 10}
        chosen.append(frozenset(rows))
    assert len(set(chosen)) > 1


def test_batches_visit_all_once_per_pass_and_reshuffle() -> None:
    memory = task({(0,): 7, (1,): 4})
    batches = ReplayBatches(memory, 4, generator())
    assert batches.per_pass == 3
    passes = []
    for _ in range(3):
        parts = [batches.next() for _ in range(batches.per_pass)]
        assert [len(part) for part, _ in parts] == [4, 4, 3]
        rows = [int(x) for part, _ in parts for x in part.x]
        assert sorted(rows) == list(range(11))
        assert torch.cat([part.y for part, _ in parts]).tolist() == memory.y[rows].tolist()
        assert torch.cat([index for _, index in parts]).tolist() == rows
        passes.append(tuple(rows))
    assert len(set(passes)) == 3


def test_a_buffer_smaller_than_a_batch_is_one_batch() -> None:
    batches = ReplayBatches(task({(0,): 3}), 64, generator())
    assert batches.per_pass == 1
    assert len(batches.next()[0]) == len(batches.next()[0]) == 3


@pytest.mark.parametrize("quota", [-1, 2.5, 10**30])
def test_quotas_that_are_no_numbers_of_samples(quota: int) -> None:
    with pytest.raises(UsageError, match=r"quota is .*, expected a whole number"):
        ReplayBuffer(quota)


def test_a_task_without_samples_leaves_the_buffer_as_it_was() -> None:
    buffer = ReplayBuffer(2)
    nothing = Samples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert buffer.add(nothing) is buffer


def test_weights_and_seeds_of_a_buffer_are_checked() -> None:
    samples = Samples(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
    with pytest.raises(DataError, match=r"a tensor of float32, shape \(2,\), expected .* \(3,\)"):
        ReplayBuffer(2).add(samples, torch.ones(2))
    with pytest.raises(UsageError, match="`seed` is -1, expected a whole number of at least 0"):
        ReplayBuffer(2).add(samples, seed=-1)


def test_unknown_rule() -> None:
    with pytest.raises(UsageError, match="did you mean 'random'"):
        ReplayBuffer(2).with_task(task({(0,): 3}), None, generator(), "randm")


def test_a_rule_sees_features_that_are_computed_once_and_only_if_it_asks() -> None:
    samples, calls = task({(0,): 30, (1,): 3}), []

    def features() -> torch.Tensor:
        calls.append("computed")
        return -samples.x

    def smallest_feature(group: Candidates) -> torch.Tensor:
        assert torch.equal(group.features(), -group.samples.x)
        assert len(group) == len(group.weights) == len(group.samples)
        return group.features()[:, 0].argsort()

    kept = ReplayBuffer(4).with_task(samples, None, generator(), smallest_feature, features)
    assert calls == ["computed"]
    assert kept.samples is not None
    largest = samples.x[samples.y == 0].flatten().sort().values[-4:]
    assert kept.samples.x[:4].flatten().tolist() == largest.flip(0).tolist()
    ReplayBuffer(4).with_task(samples, None, generator(), "random", features)
    assert calls == ["computed"]
    with pytest.raises(UsageError, match="uses features, and none were given; pass features="):
        ReplayBuffer(4).with_task(samples, None, generator(), smallest_feature)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0, 0, 1], "each at most once"),
        ([0, 7], "expected int64 positions"),
        ([-1, 0], "expected int64 positions"),
        ([0.0, 1.0], "a tensor of float32, shape"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([2], "gave 1 positions for a group of 3 samples of which 2 can be kept"),
    ],
)
def test_positions_that_are_none_are_refused(positions: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ReplayBuffer(2).with_task(
            task({(0,): 3}), None, generator(), lambda _: torch.tensor(positions)
        )


def test_a_buffer_is_filled_task_by_task_and_read_as_a_dataset() -> None:
    with pytest.raises(UsageError, match="the buffer is empty"):
        ReplayBuffer(3).as_dataset()
    buffer = ReplayBuffer(3)
    tasks = [task({(y, z): 5 for y in (2 * t, 2 * t + 1) for z in (0, 1)}) for t in range(3)]
    for train in tasks:
        buffer = buffer.add(train, seed=5)
    assert buffer.samples is not None
    assert len(buffer.samples) == len(buffer.as_dataset()) == 3 * 4 * 3
    assert sum(buffer.seen.values()) == 60
    x, y, z = buffer.as_dataset()[:]
    assert torch.equal(x, buffer.samples.x)
    assert torch.equal(torch.stack([y, z], dim=1), buffer.samples.keys())
    again = ReplayBuffer(3).add(tasks[0], seed=5).add(tasks[1], seed=5).add(tasks[2], seed=5)
    assert again.samples is not None
    assert torch.equal(again.samples.x, x)
    other = ReplayBuffer(3).add(tasks[0], seed=6).samples
    first = ReplayBuffer(3).add(tasks[0], seed=5).samples
    assert other is not None
    assert first is not None
    assert not torch.equal(other.x, first.x)
    with pytest.raises(UsageError, match="takes Samples, not a TensorDataset"):
        buffer.add(buffer.as_dataset())
