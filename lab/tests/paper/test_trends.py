from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from scipy.stats import spearmanr

from faircil_lab.paper.comparison import UNTOLD, rank_correlation, trend_of
from faircil_lab.paper.exhibit import Verdict


@given(st.lists(st.integers(0, 5), min_size=3, max_size=6).filter(lambda v: len(set(v)) > 1))
def test_rank_correlation_is_spearmans(values: list[float]) -> None:
    expected = spearmanr(range(len(values)), values).statistic
    assert rank_correlation(values) == pytest.approx(expected)


def by_seed(*rows: Sequence[float]) -> list[dict[int, float]]:
    """Turn a row of values for each seed into a mapping for each place."""
    return [dict(enumerate(place)) for place in zip(*rows, strict=True)]


GROWS = by_seed([1, 2, 3, 4], [1, 3, 2, 4], [0, 2, 3, 5])
FALLS = by_seed([4, 3, 2, 1], [4, 2, 3, 1], [5, 3, 2, 0])
NEITHER = by_seed([1, 2, 3, 4], [4, 3, 2, 1], [1, 3, 1, 3])


@pytest.mark.parametrize(
    ("values", "grows", "verdict"),
    [
        (GROWS, True, Verdict.SAME),
        (GROWS, False, Verdict.DIFFERENT),
        (GROWS, None, Verdict.DIFFERENT),
        (FALLS, False, Verdict.SAME),
        (NEITHER, None, Verdict.SAME),
        (NEITHER, True, Verdict.DIFFERENT),
    ],
)
def test_a_claim_holds_where_the_interval_agrees(
    values: list[dict[int, float]], grows: bool | None, verdict: Verdict
) -> None:
    trend = trend_of(("x",), values, grows, claimed=True)
    assert trend.verdict is verdict
    assert trend.texts[-1] == verdict.value


def test_what_is_not_claimed_is_only_read() -> None:
    trend = trend_of(("x",), FALLS, True, claimed=False)
    assert (trend.verdict, trend.reading) == (None, "falls")


def test_one_seed_cannot_tell() -> None:
    trend = trend_of(("x",), by_seed([1, 2, 3, 4]), True, claimed=True)
    assert (trend.verdict, trend.reading) == (None, UNTOLD)


def test_seeds_that_are_not_everywhere_take_no_part() -> None:
    values = [*GROWS[:-1], {0: 4.0}]
    assert trend_of(("x",), values, True, claimed=True).reading == UNTOLD
    assert trend_of(("x",), [*values, {}], True, claimed=True).verdict is Verdict.NOT_RUN
