from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.weighting.selection import (
    KEEP_ABOVE,
    WEIGHTINGS,
    as_solved,
    balanced_subset,
    draw_fairly,
    everything,
    random_subset,
    rounded,
    select,
    select_all,
)

quick = settings(deadline=None, max_examples=60)
weight_lists = st.lists(st.sampled_from([0.0, 0.02, KEEP_ABOVE, 0.06, 0.5, 1.0]), max_size=40)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def no_group(weights: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(weights), dtype=torch.int64)


@quick
@given(weight_lists, st.integers(1, 9), st.integers(0, 100))
def test_selection_keeps_and_fills_up(values: list[float], batch_size: int, seed: int) -> None:
    weights = torch.tensor(values, dtype=torch.float64)
    selection = select(weights, no_group(weights), batch_size, generator(seed))
    index = selection.index.tolist()
    kept = {i for i, value in enumerate(values) if value > KEEP_ABOVE}
    assert len(set(index)) == len(index)
    assert kept <= set(index)
    assert selection.weight is not None
    assert selection.weight.tolist() == [values[i] for i in index]
    full = -(-len(kept) // batch_size) * batch_size
    assert len(index) == min(full, len(values))  # as many fillers as there are


def test_nothing_kept_is_an_empty_selection() -> None:
    selection = select(torch.full((10,), KEEP_ABOVE), torch.zeros(10).long(), 4, generator())
    assert selection.index.tolist() == []
    assert selection.index.dtype == torch.int64


def test_a_weight_above_a_twentieth_is_trained_on() -> None:
    weights = torch.tensor([0.0, 0.04, 0.06, 0.3, 0.49, 0.51, 1.0])
    selection = select(weights, no_group(weights), 1, generator())
    assert sorted(selection.index.tolist()) == [2, 3, 4, 5, 6]
    kept = balanced_subset(weights, torch.zeros(7, dtype=torch.int64), generator())
    assert kept.sum() == 5


def test_kept_and_fillers_are_drawn_and_shuffled() -> None:
    weights = torch.tensor([1.0, 0.0] * 50)
    first, again, other = (
        select(weights, no_group(weights), 64, generator(seed)).index for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    fillers = [sorted(i for i in part.tolist() if i % 2) for part in (first, other)]
    assert fillers[0] != fillers[1]
    assert len(fillers[0]) == 14
    kept = [i for i in first.tolist() if i % 2 == 0]
    assert kept != sorted(kept)
    assert first[-14:].tolist() != [i for i in first.tolist() if i % 2]  # not all at the end


@quick
@given(weight_lists, st.integers(0, 100))
def test_all_samples_can_stay_in_the_batches(values: list[float], seed: int) -> None:
    weights = torch.tensor(values, dtype=torch.float64)
    selection = select_all(weights, no_group(weights), 4, generator(seed))
    assert sorted(selection.index.tolist()) == list(range(len(values)))
    assert selection.weight is not None
    assert selection.weight.tolist() == [values[i] for i in selection.index.tolist()]
    # In the order of an unweighted epoch.
    plain = everything(len(values), generator(seed), weights.device)
    assert torch.equal(selection.index, plain.index)


def test_fair_draws_go_half_by_weight_and_half_equally_over_groups() -> None:
    # Groups of 90, 9 and 1 samples; the program keeps half of the first and nothing of the others.
    group = torch.tensor([0] * 90 + [2] * 9 + [5])
    weights = torch.zeros(100)
    weights[:90:2] = 1.0
    drawn: Counter[int] = Counter()
    for seed in range(200):
        selection = draw_fairly(weights, group, 64, generator(seed))
        assert selection.weight is None
        assert len(selection.index) == 45
        drawn.update(selection.index.tolist())
    total = sum(drawn.values())
    shares = [sum(drawn[i] for i in range(100) if group[i] == g) / total for g in (0, 2, 5)]
    # Of 9,000 draws; the deviation of a share is below √(.25/9000) = .0053.
    assert shares == pytest.approx([0.5 + 0.5 / 3, 0.5 / 3, 0.5 / 3], abs=0.025)
    kept = sum(drawn[i] for i in range(0, 90, 2)) / total
    assert kept == pytest.approx(0.5 + 0.5 / 6, abs=0.025)


def test_fair_draws_do_not_count_the_size_of_a_group() -> None:
    # Mean weights of .1 and 1: by them, the small group has 10 of 11 draws, not 1 of 11.
    group = torch.tensor([0] * 1000 + [1] * 10)
    weights = torch.tensor([0.1] * 1000 + [1.0] * 10)
    index = draw_fairly(weights, group, 64, generator()).index
    assert len(index) == 1010
    # The deviation of the share is √(.7·.3/1010) = .014.
    assert (group[index] == 1).double().mean() == pytest.approx((0.5 + 10 / 11) / 2, abs=0.06)


def test_fair_draws_of_nothing_and_of_equal_seeds() -> None:
    weights, group = torch.rand(30, generator=generator()), torch.arange(30) % 3
    assert draw_fairly(0 * weights, group, 4, generator()).index.tolist() == []
    one, two, other = (draw_fairly(weights, group, 4, generator(s)).index for s in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_rounded_weights_are_0_or_1() -> None:
    weights = torch.tensor([0.0, 0.06, 0.4999, 0.5, 0.51, 1.0])
    assert rounded(weights).tolist() == [0, 0, 0, 1, 1, 1]
    assert rounded(weights).dtype == weights.dtype


def test_everything_is_a_permutation_at_weight_1() -> None:
    selection = everything(100, generator(), torch.device("cpu"))
    assert selection.weight is None
    assert sorted(selection.index.tolist()) == list(range(100))
    assert selection.index.tolist() != list(range(100))


def test_random_subset_permutes_the_weights() -> None:
    weights = torch.rand(50, generator=generator())
    group = torch.zeros(50, dtype=torch.int64)
    assert torch.equal(as_solved(weights, group, generator()), weights)
    permuted = random_subset(weights, group, generator())
    assert not torch.equal(permuted, weights)
    assert torch.equal(permuted.sort().values, weights.sort().values)
    assert torch.equal(permuted, random_subset(weights, group, generator()))


def test_random_subset_makes_all_permutations_alike_often() -> None:
    weights, group = torch.linspace(0, 1, 4), torch.zeros(4, dtype=torch.int64)
    drawn = Counter(
        tuple(random_subset(weights, group, generator(seed)).tolist()) for seed in range(2400)
    )
    # Each of the 24 is expected 100 times, with a standard deviation of 10.
    assert len(drawn) == 24
    assert all(50 < count < 150 for count in drawn.values())


@quick
@given(
    groups=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    data=st.data(),
)
def test_balanced_subset_takes_equal_numbers(groups: list[int], data: st.DataObject) -> None:
    n = len(groups)
    weights = torch.tensor(
        data.draw(st.lists(st.sampled_from([0.0, 0.05, 0.3, 1.0]), min_size=n, max_size=n))
    )
    result = balanced_subset(weights, torch.tensor(groups), generator())
    assert set(result.tolist()) <= {0.0, 1.0}
    budget = int((weights > KEEP_ABOVE).sum())
    assert result.sum() == budget
    taken = {
        key: sum(w for k, w in zip(groups, result.tolist(), strict=True) if k == key)
        for key in groups
    }
    # A group gives all it has, or as many as the others up to rounding.
    most = max(taken.values())
    assert all(n == groups.count(key) or n >= most - 1 for key, n in taken.items())


@pytest.mark.parametrize("small", [0, 1, 2])
def test_others_share_what_a_small_group_cannot_give(small: int) -> None:
    y = [label for label in range(3) for _ in range(2 if label == small else 20)]
    weights = torch.tensor([1.0] * 20 + [0.0] * 22)
    result = balanced_subset(weights, torch.tensor(y), generator())
    taken = [int(result[torch.tensor(y) == label].sum()) for label in range(3)]
    assert taken == [2 if label == small else 9 for label in range(3)]


def test_balanced_subset_draws_within_groups() -> None:
    group = torch.tensor([0] * 50 + [1] * 50)
    weights = torch.tensor([1.0] * 20 + [0.0] * 80)
    first, again, other = (balanced_subset(weights, group, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first[:50].sum() == first[50:].sum() == 10


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_every_weighting_leaves_its_input_alone(name: str) -> None:
    reweight = WEIGHTINGS[name].reweight
    assert WEIGHTINGS[name].summary
    assert (reweight is None) == (name == "none")
    if reweight is not None:
        weights = torch.linspace(0, 1, 12)
        before = weights.clone()
        result = reweight(weights, torch.tensor([0, 1] * 6), generator())
        assert result.shape == weights.shape
        assert torch.equal(weights, before)
