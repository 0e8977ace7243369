from __future__ import annotations

import torch
from hypothesis import given, strategies as st

from faircil.text.passes import cut, cut_steady, in_order, row_lengths

LENGTHS = st.lists(st.integers(1, 128), max_size=200).map(
    lambda values: torch.tensor(values, dtype=torch.int32)
)
BUDGETS = st.integers(1, 600)


@given(LENGTHS, BUDGETS)
def test_every_row_is_in_one_chunk(lengths: torch.Tensor, budget: int) -> None:
    rows = [row for chunk in cut(lengths, budget) for row in chunk.rows.tolist()]
    assert sorted(rows) == list(range(len(lengths)))


@given(LENGTHS, BUDGETS)
def test_no_chunk_is_above_the_budget_but_for_a_single_row(
    lengths: torch.Tensor, budget: int
) -> None:
    for chunk in cut(lengths, budget):
        assert chunk.width == lengths[chunk.rows].max()
        assert len(chunk.rows) == 1 or len(chunk.rows) * chunk.width <= budget


@given(LENGTHS, BUDGETS)
def test_a_chunk_ends_where_the_next_row_would_not_fit(lengths: torch.Tensor, budget: int) -> None:
    chunks = cut(lengths, budget)
    for chunk in chunks[:-1]:
        assert (len(chunk.rows) + 1) * chunk.width > budget
    widths = [chunk.width for chunk in chunks]
    assert widths == sorted(widths, reverse=True)


@given(LENGTHS.filter(len), BUDGETS)
def test_results_come_back_in_the_order_of_the_rows(lengths: torch.Tensor, budget: int) -> None:
    values = torch.arange(3 * len(lengths)).view(-1, 3)
    chunks = cut(lengths, budget)
    assert torch.equal(in_order([values[chunk.rows] for chunk in chunks], chunks), values)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), max_size=20), st.integers(0, 3)
)
def test_lengths_reach_to_the_last_token(rows: list[list[int]], pad: int) -> None:
    ids = torch.tensor(rows, dtype=torch.int32).view(-1, 6)
    expected = [max([k + 1 for k in range(6) if row[k] != pad], default=1) for row in rows]
    assert row_lengths(ids, pad).tolist() == expected


@given(LENGTHS, BUDGETS, st.integers(128, 140))
def test_the_shape_of_a_steady_chunk_is_told_by_each_of_its_rows(
    lengths: torch.Tensor, budget: int, longest: int
) -> None:
    chunks = cut_steady(lengths, budget, longest)
    rows = [row for chunk in chunks for row in chunk.rows.tolist()]
    assert sorted(rows) == list(range(len(lengths)))
    for chunk in chunks:
        for length in lengths[chunk.rows].tolist():
            (alone,) = cut_steady(torch.tensor([length]), budget, longest)
            assert alone.width == chunk.width
            assert length <= chunk.width <= longest
            assert len(alone.rows) + alone.spare == len(chunk.rows) + chunk.spare
        size = len(chunk.rows) + chunk.spare
        assert size == 1 or size * chunk.width <= budget
