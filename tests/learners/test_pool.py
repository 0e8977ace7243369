from __future__ import annotations

import torch
from torch import Tensor

from faircil.learners.gss import Pool

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
