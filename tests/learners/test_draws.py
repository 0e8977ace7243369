from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.learners.replay import draw_by_share

quick = settings(deadline=None, max_examples=40)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(sizes: list[int]) -> torch.Tensor:
    """Return the groups of rows, mixed: sizes[g] of group g."""
    group = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return group[torch.randperm(len(group), generator=generator())]


@quick
@given(
    st.lists(st.floats(0.05, 1), min_size=1, max_size=8),
    st.sampled_from([16, 50, 128]),
    st.integers(0, 100),
)
def test_every_batch_has_every_group_in_its_share(
    shares: list[float], batch_size: int, seed: int
) -> None:
    group = rows_of([3 + 5 * number for number in range(len(shares))])
    drawn = group[draw_by_share(group, torch.tensor(shares), 10 * batch_size, generator(seed))]
    for batch in drawn.split(batch_size):
        counts = torch.bincount(batch, minlength=len(shares))
        expected = batch_size * torch.tensor(shares) / sum(shares)
        assert (counts - expected).abs().max() <= 3


def test_a_group_without_a_share_is_not_drawn() -> None:
    group = rows_of([5, 5, 0, 5, 5])
    for shares in ([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 0.1]):
        drawn = group[draw_by_share(group, torch.tensor(shares), 2000, generator())]
        assert set(drawn.tolist()) == {number for number, share in enumerate(shares) if share}


def test_nor_is_it_drawn_by_a_draw_of_exactly_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda n, **_: torch.zeros(n, dtype=torch.float64))
    group = torch.tensor([0, 1])
    assert draw_by_share(group, torch.tensor([0.0, 1.0]), 1, generator()).tolist() == [1]


def test_rows_of_a_group_are_drawn_alike_and_with_replacement() -> None:
    group = rows_of([4, 20, 6])
    rows = draw_by_share(group, torch.tensor([0.25, 0.5, 0.25]), 40_000, generator())
    counts = torch.bincount(rows, minlength=30)
    for number, share in enumerate([0.25, 0.5, 0.25]):
        expected = 40_000 * share / int((group == number).sum())
        assert (counts[group == number] - expected).abs().max() < 5 * expected**0.5
    # Not each once before any comes again.
    assert len(set(rows[group[rows] == 1][:20].tolist())) < 20


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64])
def test_draws_follow_the_generator(dtype: torch.dtype) -> None:
    group = rows_of([9, 9])
    first, again, other = (
        draw_by_share(group, torch.ones(2, dtype=dtype), 64, generator(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.int64
    assert not torch.equal(group[first], group[other])  # where the steps begin is drawn as well
