from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import stats

from faircil.report.statistics import PairedComparison, against_published, interval, paired

values = st.integers(0, 1000).map(lambda number: number / 1000)
samples = st.lists(values, min_size=2, max_size=12)


def by_seed(*numbers: float) -> dict[int, float]:
    return dict(enumerate(numbers))


@given(samples, st.sampled_from([0.8, 0.95, 0.99]))
def test_interval_is_that_of_students_t(numbers: list[float], level: float) -> None:
    assume(len(set(numbers)) > 1)
    found = interval(numbers, level)
    expected = stats.t.interval(
        level, len(numbers) - 1, loc=np.mean(numbers), scale=stats.sem(numbers)
    )
    assert found.mean == pytest.approx(np.mean(numbers))
    assert (found.low, found.high) == pytest.approx(expected)


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = interval([0.4])
    assert (found.mean, found.low, found.high) == (0.4, None, None)


@given(st.lists(st.tuples(values, values), min_size=2, max_size=12))
def test_paired_is_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    assume(np.ptp(a - b) > 1e-9)
    found = paired(by_seed(*a), by_seed(*b))
    expected = stats.ttest_rel(a, b)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert (found.n, found.difference) == (len(a), pytest.approx(np.mean(a - b)))


def test_only_common_seeds_are_compared() -> None:
    a = {0: 0.9, 1: 0.8, 2: 0.7, 9: 0.0}
    b = {2: 0.6, 1: 0.5, 0: 0.9, 7: 1.0}
    assert paired(a, b) == paired(by_seed(0.9, 0.8, 0.7), by_seed(0.9, 0.5, 0.6))


def test_fewer_than_two_common_seeds_tell_nothing() -> None:
    assert paired({0: 1.0, 1: 0.5}, {2: 1.0}) == PairedComparison(0, None, None, None, None)
    assert paired({0: 1.0, 1: 0.5}, {1: 0.25}) == PairedComparison(1, 0.25, None, None, None)


def test_equal_values_do_not_differ() -> None:
    same = by_seed(0.1, 0.7, 0.3)
    assert paired(same, same) == PairedComparison(3, 0.0, 0.0, 0.0, 1.0)
    nearly = by_seed(0.1 + 1e-17, 0.3 + 0.4, 0.1 + 0.2)
    assert paired(same, nearly).p_value == 1.0


@pytest.mark.parametrize("n", [2, 5, 6])
def test_equal_differences_leave_only_the_sign(n: int) -> None:
    """0.1 k is not exact, so neither are the differences; that must not make a p-value of 0."""
    a, b = by_seed(*(0.1 * k for k in range(1, n + 1))), by_seed(*(0.1 * k for k in range(n)))
    found = paired(a, b)
    assert found.difference == pytest.approx(0.1)
    assert (found.low, found.high) == (None, None)
    assert found.p_value == stats.binomtest(n, n).pvalue


@given(samples, values, st.integers(1, 200).map(lambda number: number / 1000), st.integers(2, 9))
def test_published_figure_is_compared_by_welchs_test(
    numbers: list[float], mean: float, deviation: float, n: int
) -> None:
    found = against_published(numbers, mean, deviation, n, rounding=1e-12)
    ours = (np.mean(numbers), np.std(numbers, ddof=1), len(numbers))
    expected = stats.ttest_ind_from_stats(*ours, mean, deviation, n, equal_var=False)
    assert found.difference == pytest.approx(np.mean(numbers) - mean)
    assert found.p_value == pytest.approx(expected.pvalue, abs=1e-6)
    assert found.same == (found.p_value >= 0.05) == (found.low <= 0 <= found.high)


def test_rounding_of_the_printed_mean_is_no_difference() -> None:
    ours = [0.93049, 0.93051, 0.93048, 0.93047, 0.9305]
    printed = against_published(ours, 0.930, 0.0)
    assert printed.same
    assert printed.p_value == 1.0
    assert not against_published(ours, 0.930, 0.0001, rounding=1e-6).same
    assert not against_published(ours, 0.929, 0.0).same


def test_deviation_printed_as_0_may_be_as_large_as_the_rounding() -> None:
    """Ours do not vary at all: without it, any difference beyond the rounding would be proven."""
    assert against_published([0.931] * 5, 0.930, 0.0).same


def test_single_value_is_taken_to_vary_like_the_published_ones() -> None:
    """Then ours − theirs has the variance s²(1 + 1/n): a prediction interval."""
    half = stats.t.ppf(0.975, 4) * 0.01 * np.sqrt(1 + 1 / 5) + 0.0005
    found = against_published([0.95], 0.9, 0.01)
    assert (found.low, found.high) == pytest.approx((0.05 - half, 0.05 + half))
    assert not found.same
    assert against_published([0.92], 0.9, 0.01).same
