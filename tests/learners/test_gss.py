from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from faircil.learners import Batch
from faircil.learners.gss import Gss, Pool
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from learning import batch_of, buffer_of, new_learner, parameters, random_samples
from small_runs import small_config, small_stream
from whole_gradients import unit_rows, whole_gradients


def begun(train: Samples, net: nn.Module | None = None, size: int = 8, **settings: object) -> Gss:
    learner = new_learner("gss", net, **settings)
    assert isinstance(learner, Gss)
    learner.begin_task(train, buffer_of(None, size))
    return learner


def part_of(train: Samples, rows: list[int]) -> Batch:
    index = torch.tensor(rows)
    return Batch(train.take(index), index)


def slow_scores(learner: Gss, samples: Samples, pool: Samples) -> Tensor:
    """Return the cosine of each sample's gradient with that of the pool, by autograd."""
    learner.net.eval()
    own, mean = whole_gradients(learner.net, samples), whole_gradients(learner.net, pool).mean(0)
    return (unit_rows(own) @ unit_rows(mean[None]).T).squeeze(1)


@pytest.mark.parametrize("linear", [True, False])
def test_scores_are_cosines_with_the_pool_after_the_step(linear: bool) -> None:
    body = [nn.Linear(6, 6), nn.Tanh()] if linear else [nn.Linear(6, 6), nn.LayerNorm(6)]
    train = random_samples(20)
    learner = begun(train, nn.Sequential(*body, nn.Linear(6, 5)))
    learner.step(part_of(train, [3, 7, 5]))
    assert sorted(learner.pool.rows.tolist()) == [3, 5, 7]
    torch.testing.assert_close(learner.pool.scores, torch.full((3,), 0.1))
    learner.step(part_of(train, [0, 1, 2]))
    # Three samples were in the pool, so the only mini-batch of three was the pool.
    for row, expected in zip(
        [0, 1, 2],
        slow_scores(learner, train.take(slice(3)), train.take(torch.tensor([3, 5, 7]))),
        strict=True,
    ):
        torch.testing.assert_close(learner.pool.scores[learner.pool.rows == row][0], expected)


def test_the_score_is_the_largest_cosine_with_a_mini_batch() -> None:
    train = random_samples(40)
    learner = begun(train, size=40)
    learner.step(part_of(train, [0, 1]))
    learner.step(part_of(train, [2, 3]))
    in_order = torch.linspace(0, 0.9, 2 * len(learner.pool) + 2)
    learner.step(replace(part_of(train, [4, 5]), noise=in_order))
    rows = learner.pool.rows
    before = rows[~torch.isin(rows, torch.tensor([4, 5]))]
    parts = [slow_scores(learner, train.take(slice(4, 6)), train.take(p)) for p in before.split(2)]
    expected = torch.stack(parts).amax(dim=0)
    found = torch.stack([learner.pool.scores[rows == row][0] for row in (4, 5)])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("against", [False, True])
def test_a_full_pool_changes_only_for_a_batch_that_points_against_it(against: bool) -> None:
    inputs = random_samples(12)
    # In the pool all are of class 0; the rest of the class has the same inputs or opposite ones.
    x = torch.cat([inputs.x[:4].abs(), (-1 if against else 1) * inputs.x[:4].abs()])
    y = torch.zeros(8, dtype=torch.int64)
    net = nn.Linear(6, 5, bias=False)
    nn.init.zeros_(net.weight)
    learner = begun(Samples(x, y), net, size=4, lr=1e-12)
    train = learner.train
    learner.step(part_of(train, [0, 1]))
    learner.step(part_of(train, [2, 3]))
    for _ in range(10):
        learner.step(part_of(train, [4, 5, 6, 7]))
    changed = sorted(learner.pool.rows.tolist()) != [0, 1, 2, 3]
    assert changed == against


def test_a_glance_decides_as_a_look_at_all_mini_batches_would() -> None:
    def kept() -> tuple[Tensor, Tensor]:
        states: list[RunState] = []
        config = small_config("gss", batch_size=2, buffer_size=8)
        run(config, 0, stream=small_stream(attribute=False), checkpoint=states.append)
        buffer = states[-1].buffer.samples
        assert buffer is not None
        return buffer.x, parameters(states[-1].learner.net)

    glanced = kept()
    with patch("faircil.learners.gss.GLANCE", 1000):
        looked = kept()
    with patch("faircil.learners.gss.Pool.compete"):
        unchanged = kept()
    assert all(torch.equal(one, other) for one, other in zip(glanced, looked, strict=True))
    assert not torch.equal(glanced[0], unchanged[0])


def test_a_task_may_share_its_places_in_any_proportion() -> None:
    train = random_samples(60, classes=2, attribute=True)
    rare = torch.nonzero(train.y == 1).squeeze(1)[:2]
    learner = begun(train, size=5, quota="task")
    learner.step(part_of(train, [int(rare[0])]))
    for rows in torch.nonzero(train.y == 0).squeeze(1).split(4):
        learner.step(part_of(train, rows.tolist()))
    kept = learner.remember(train, None, buffer_of(None, 5)).samples
    assert kept is not None
    assert len(kept) == 20
    assert (kept.y == 1).sum() <= 1


@pytest.mark.parametrize("quota", ["group", "task"])
def test_free_places_take_samples_that_never_came_up(quota: str) -> None:
    train = random_samples(40, classes=2)
    learner = begun(train, size=6, quota=quota)
    learner.step(part_of(train, [0, 1]))
    kept = learner.remember(train, None, buffer_of(None, 6)).samples
    assert kept is not None
    assert len(kept) == 12
    assert {tuple(row) for row in train.x[:2].tolist()} <= set(map(tuple, kept.x.tolist()))
    if quota == "group":
        assert group_counts(kept) == {(0,): 6, (1,): 6}


def test_a_step_trains_like_plain_replay() -> None:
    learner, plain = new_learner("gss", tau=3.0), new_learner("er", tau=3.0)
    first, second = random_samples(8), random_samples(16, seed=1)
    for one in (learner, plain):
        memory = one.begin_task(second, buffer_of(first)).memory
        for _ in range(3):
            one.step(batch_of(second.take(slice(4)), torch.full((4,), 0.5), memory))
    torch.testing.assert_close(parameters(learner.net), parameters(plain.net))


GROUP = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0])
PLACES = torch.tensor([3, 2])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def compete(pool: Pool, rows: list[int], scores: list[float], draws: torch.Generator) -> None:
    everyone = torch.ones(len(rows), dtype=torch.bool)
    noise = torch.rand(len(pool) + len(rows), generator=draws)
    pool.compete(torch.tensor(rows), everyone, torch.tensor(scores), noise)


def enter(pool: Pool, rows: list[int], scores: list[float]) -> tuple[Tensor, Tensor]:
    index = torch.tensor(rows)
    enters, competes = pool.candidates(index)
    pool.enter(index, enters, torch.tensor(scores))
    return enters, competes


def full_pool(scores: list[float]) -> Pool:
    """Places 0, 1, 2 hold rows 0, 2, 4 of group 0; the others rows 1, 3 of group 1."""
    pool = Pool(GROUP, PLACES)
    enter(pool, [0, 2, 4, 1, 3], scores)
    return pool


def test_samples_enter_in_order_while_their_group_has_room() -> None:
    pool = Pool(GROUP, PLACES)
    enters, competes = enter(pool, [2, 5, 0, 10, 4], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert enters.tolist() == [True, True, True, True, False]
    assert competes.tolist() == [False, False, False, False, True]
    assert pool.rows.tolist() == [2, 0, 10, 5]
    torch.testing.assert_close(pool.scores, torch.tensor([0.1, 0.3, 0.4, 0.2]))
    enters, competes = enter(pool, [5, 4, 3, 1], [0.6, 0.7, 0.8, 0.9])
    assert enters.tolist() == [False, False, True, False]
    assert competes.tolist() == [False, True, False, True]  # 5 is inside already
    assert pool.rows.tolist() == [2, 0, 10, 5, 3]
    enters, competes = enter(pool, [11, 3], [0.0, 0.0])
    assert enters.tolist() == [False, False]
    assert competes.tolist() == [True, False]


def test_a_place_is_taken_by_a_sample_of_its_own_group_only() -> None:
    for seed in range(30):
        pool = full_pool([0.5, 0.6, 0.7, 0.8, 0.9])
        compete(pool, [6, 8, 10, 11, 5], [-0.9] * 5, generator(seed))
        assert len(set(pool.rows.tolist())) == 5
        assert (GROUP[pool.rows[:3]] == 0).all()
        assert (GROUP[pool.rows[3:]] == 1).all()
        assert {0, 1} <= set(pool.rows.tolist())  # the smallest score of a group is never drawn


def test_who_does_not_compete_gets_nothing_and_who_leaves_may_come_back() -> None:
    pool = full_pool([0.5, 0.6, 0.7, 0.8, 0.9])
    rows, noise = torch.tensor([6, 8]), torch.rand(7, generator=generator())
    pool.compete(rows, torch.tensor([True, False]), torch.tensor([-1.0, -1.0]), noise)
    assert 6 in pool.rows  # a score of −1 always wins
    assert 8 not in pool.rows
    left = next(row for row in (2, 4) if row not in pool.rows)
    assert pool.candidates(torch.tensor([left, 6]))[1].tolist() == [True, False]
    assert pool.scores[pool.rows == 6].tolist() == [-1]


def test_equal_scores_leave_everyone_in_place() -> None:
    pool = full_pool([0.5] * 5)
    compete(pool, [6], [-1.0], generator())
    assert pool.rows.tolist() == [0, 2, 4, 1, 3]


def test_places_are_drawn_and_taken_with_the_chances_of_the_rule() -> None:
    counts = torch.zeros(3)
    trials, draws = 1200, generator()
    for _ in range(trials):
        pool = full_pool([-0.5, 0.0, 0.5, 0.0, 0.0])
        compete(pool, [6], [0.2], draws)
        counts += pool.rows[:3] == 6
    drawn = torch.tensor([0.0, 0.5, 1.0]) / 1.5  # (score − min) / (max − min + .01), normed
    there = torch.tensor([0.5, 1.0, 1.5])
    expected = drawn * there / (there + 1.2)
    assert (counts / trials - expected).abs().max() < 0.04


def test_two_samples_draw_two_places() -> None:
    first, draws, trials = 0, generator(), 400
    for _ in range(trials):
        pool = full_pool([-0.5, 0.0, 0.5, 0.0, 0.0])
        compete(pool, [6, 8], [-1.0, -1.0], draws)
        assert set(pool.rows[1:3].tolist()) == {6, 8}
        first += int(pool.rows[2] == 6)
    assert abs(first / trials - 2 / 3) < 0.07


def test_shuffled_rows_follow_the_noise_and_free_places_come_last() -> None:
    pool = Pool(GROUP, PLACES)
    enter(pool, [2, 0, 5], [0.1, 0.2, 0.3])
    assert pool.shuffled(torch.tensor([0.5, 0.2, 0.0, 0.9, 0.1])).tolist() == [0, 2, 5, -1, -1]
