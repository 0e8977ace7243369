from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import stats

from faircil.report.statistics import (
    PairedComparison,
    Ranking,
    against_published,
    best_of,
    holm,
    interval,
    paired,
)

NOBODY = Ranking(None, frozenset())
p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def by_seed(numbers: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(numbers))


def slow_holm(p_values: list[float]) -> list[float]:
    """By definition: the adjusted p is the lowest level at which Holm's procedure rejects."""

    def rejected(level: float) -> set[int]:
        open_ones, found = set(range(len(p_values))), set()
        while open_ones:
            smallest = min(open_ones, key=lambda position: p_values[position])
            if p_values[smallest] * len(open_ones) > level:
                break
            open_ones.remove(smallest)
            found.add(smallest)
        return found

    levels = sorted({min(p * k, 1.0) for p in p_values for k in range(1, len(p_values) + 1)})
    return [
        next((level for level in levels if position in rejected(level)), 1.0)
        for position in range(len(p_values))
    ]


@given(p_lists)
def test_holm_equals_its_definition(p_values: list[float]) -> None:
    assert holm(p_values).tolist() == slow_holm(p_values)


@given(p_lists)
def test_holm_keeps_the_order_and_lies_between_the_raw_value_and_bonferroni(
    p_values: list[float],
) -> None:
    raw, adjusted = np.array(p_values), holm(p_values)
    assert (raw <= adjusted).all()
    assert (adjusted <= np.minimum(raw * len(raw), 1)).all()
    assert (np.diff(adjusted[np.argsort(raw)]) >= 0).all()


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("higher", [True, False])
def test_best_must_beat_every_other(higher: bool) -> None:
    sign = 1 if higher else -1
    clear = {"a": [0.90, 0.91, 0.92], "b": [0.81, 0.81, 0.83], "c": [0.70, 0.72, 0.72]}
    columns = {name: by_seed([sign * value for value in v]) for name, v in clear.items()}
    assert best_of(columns, higher) == Ranking("a", frozenset())
    columns["near"] = by_seed([sign * value for value in [0.91, 0.90, 0.91]])
    assert best_of(columns, higher) == Ranking(None, frozenset({"a", "near"}))


def test_holm_is_over_the_comparisons_with_the_leader() -> None:
    """Raw p of b and c is .03: enough with one comparison, not with two."""
    leader, other = by_seed([1.0, 1.0, 1.0, 1.0]), by_seed([0.9, 0.8, 0.85, 0.95])
    assert best_of({"a": leader, "b": other}, True).best == "a"
    names = frozenset({"a", "b", "c"})
    assert best_of({"a": leader, "b": other, "c": other}, True) == Ranking(None, names)


def test_two_seeds_or_no_common_seeds_mark_nothing() -> None:
    assert best_of({}, True) == NOBODY
    assert best_of({"a": by_seed([0.9, 0.8, 0.9])}, True) == NOBODY
    assert best_of({"a": {0: 0.9}, "b": {0: 0.1}}, True) == NOBODY
    assert best_of({"a": by_seed([0.9, 0.8]), "b": by_seed([0.1, 0.2])}, True) == NOBODY
    three = {0: 0.9, 1: 0.9, 2: 0.8}
    assert best_of({"a": three, "b": {1: 0.1, 2: 0.2, 3: 0.2}}, True) == NOBODY


def test_who_cannot_be_compared_with_the_leader_keeps_it_from_being_the_best() -> None:
    columns = {
        "a": by_seed([0.90, 0.91, 0.92]),
        "b": by_seed([0.50, 0.52, 0.52]),
        "once": {0: 0.99},
        "elsewhere": {7: 0.1, 8: 0.2},
    }
    assert best_of(columns, True) == Ranking(None, frozenset({"a", "once"}))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_no_worse_mean_has_a_mark_that_a_better_one_lacks(seeds: int) -> None:
    """The steady second is significantly worse; the third, with a worse mean, varies too much."""
    noise = np.array([0.0, 0.001, -0.001, 0.0005, -0.0005])[:seeds]
    wild = np.array([0.3, -0.3, 0.1, -0.2, 0.1])[:seeds]
    columns = {
        "leader": by_seed((0.90 + noise).tolist()),
        "steady": by_seed([0.85] * seeds),
        "wild": by_seed((0.84 + wild - wild.mean()).tolist()),
    }
    found = best_of(columns, True)
    assert found == (NOBODY if seeds == 2 else Ranking(None, frozenset({"leader"})))


values = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=5).map(by_seed)


@given(st.dictionaries(st.sampled_from("abcdef"), values), st.booleans())
def test_marks_follow_the_order_of_the_means(
    columns: dict[str, dict[int, float]], higher: bool
) -> None:
    sign = 1 if higher else -1
    found = best_of(columns, higher)
    means = {name: sign * np.mean(list(c.values())) for name, c in columns.items()}
    marked = [means[name] for name in found.among_best]
    unmarked = [means[name] for name in columns.keys() - found.among_best]
    if marked:
        assert min(marked) >= max(unmarked, default=-np.inf) - 1e-9


def test_leader_that_loses_over_common_seeds_is_not_the_best() -> None:
    a = {0: 0.50, 1: 0.51, 2: 0.50, 3: 1.0, 4: 1.0, 5: 1.0}
    b = {0: 0.60, 1: 0.611, 2: 0.601}
    assert best_of({"a": a, "b": b}, True) == Ranking(None, frozenset({"a", "b"}))


def false_claims(equals: int, worse: int, tables: int = 400) -> tuple[float, float]:
    """Return how often an equal is called the best, and how often the first equal is left out."""
    draw = np.random.default_rng(7)
    claimed = left_out = 0
    for _ in range(tables):
        noise = draw.normal(size=(equals + worse, 5)) + draw.normal(size=5)
        noise[equals:] -= 100
        found = best_of({str(k): by_seed(row) for k, row in enumerate(noise)}, True)
        claimed += found.best is not None
        left_out += "0" not in found.among_best | {found.best}
    return claimed / tables, left_out / tables


@pytest.mark.parametrize(("equals", "worse"), [(2, 0), (3, 0), (8, 0), (2, 4)])
def test_equal_methods_are_seldom_found_different(equals: int, worse: int) -> None:
    claimed, left_out = false_claims(equals, worse)
    chance = 3 * np.sqrt(0.05 * 0.95 / 400)  # of the simulation
    assert claimed <= 0.05 + chance
    assert left_out <= 0.05


def test_test_is_not_needlessly_timid() -> None:
    """Of two equal methods one is called the best in about 5 % of tables, not in none."""
    assert false_claims(2, 0)[0] == pytest.approx(0.05, abs=0.03)


thousandths = st.integers(0, 1000).map(lambda number: number / 1000)
samples = st.lists(thousandths, min_size=2, max_size=12)


def numbered(*numbers: float) -> dict[int, float]:
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


@given(st.lists(st.tuples(thousandths, thousandths), min_size=2, max_size=12))
def test_paired_is_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    assume(np.ptp(a - b) > 1e-9)
    found = paired(numbered(*a), numbered(*b))
    expected = stats.ttest_rel(a, b)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert (found.n, found.difference) == (len(a), pytest.approx(np.mean(a - b)))


def test_only_common_seeds_are_compared() -> None:
    a = {0: 0.9, 1: 0.8, 2: 0.7, 9: 0.0}
    b = {2: 0.6, 1: 0.5, 0: 0.9, 7: 1.0}
    assert paired(a, b) == paired(numbered(0.9, 0.8, 0.7), numbered(0.9, 0.5, 0.6))


def test_fewer_than_two_common_seeds_tell_nothing() -> None:
    assert paired({0: 1.0, 1: 0.5}, {2: 1.0}) == PairedComparison(0, None, None, None, None)
    assert paired({0: 1.0, 1: 0.5}, {1: 0.25}) == PairedComparison(1, 0.25, None, None, None)


def test_equal_values_do_not_differ() -> None:
    same = numbered(0.1, 0.7, 0.3)
    assert paired(same, same) == PairedComparison(3, 0.0, 0.0, 0.0, 1.0)
    nearly = numbered(0.1 + 1e-17, 0.3 + 0.4, 0.1 + 0.2)
    assert paired(same, nearly).p_value == 1.0


@pytest.mark.parametrize("n", [2, 5, 6])
def test_equal_differences_leave_only_the_sign(n: int) -> None:
    """0.1 k is not exact, so neither are the differences; that must not make a p-value of 0."""
    a, b = numbered(*(0.1 * k for k in range(1, n + 1))), numbered(*(0.1 * k for k in range(n)))
    found = paired(a, b)
    assert found.difference == pytest.approx(0.1)
    assert (found.low, found.high) == (None, None)
    assert found.p_value == stats.binomtest(n, n).pvalue


@given(
    samples, thousandths, st.integers(1, 200).map(lambda number: number / 1000), st.integers(2, 9)
)
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
