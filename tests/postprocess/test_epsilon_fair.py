from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from faircil.errors import DataError, UsageError
from faircil.metrics import dp
from faircil.postprocess import EpsilonFair, FittedRule

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def draw_scores(
    n: int, classes: int, groups: int, seed: int = 0, *, digits: int | None = None
) -> tuple[Floats, Integers]:
    """Draw probabilities that favour different classes in different groups, and the groups."""
    generator = np.random.default_rng(seed)
    z = np.concatenate([np.arange(groups), generator.integers(0, groups, n - groups)])
    logits = generator.normal(size=(n, classes)) + generator.normal(size=(groups, classes))[z]
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    if digits is not None:
        p = np.round(p, digits)
        p[np.arange(n), p.argmax(axis=1)] += 1 - p.sum(axis=1)
    return p, z


def gap_of(chances: Floats, z: Integers, weight: Floats | None = None) -> float:
    """Largest |P(k|z) − P(k)| with loops over groups and classes."""
    weight = np.ones(len(z)) if weight is None else weight
    gaps = [
        abs(
            np.average(chances[z == value, k], weights=weight[z == value])
            - np.average(chances[:, k], weights=weight)
        )
        for value in np.unique(z)
        for k in range(chances.shape[1])
    ]
    return max(gaps)


@given(
    n=st.integers(4, 60),
    classes=st.integers(2, 4),
    groups=st.integers(2, 4),
    epsilon=st.sampled_from([0.0, 0.02, 0.1, 1.0]),
    digits=st.sampled_from([None, 1]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_the_rule_itself_is_within_epsilon_and_optimal_on_the_pool(
    n: int, classes: int, groups: int, epsilon: float, digits: int | None, seed: int
) -> None:
    p, z = draw_scores(n, classes, groups, seed, digits=digits)
    rule = EpsilonFair(epsilon).fit(p, z)
    chances = rule.chances(p, z)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert gap_of(chances, z) <= epsilon + 1e-7
    assert rule.gap == pytest.approx(gap_of(chances, z), abs=1e-9)
    assert rule.value == pytest.approx((chances * p).sum() / n)
    assert -1e-9 <= rule.bound - rule.value <= 1e-6


def test_epsilon_0_gives_equal_rates_and_1_the_most_probable_class() -> None:
    p, z = draw_scores(500, 4, 3)
    assert gap_of(EpsilonFair(0).fit(p, z).chances(p, z), z) < 1e-8
    free = EpsilonFair(1).fit(p, z)
    assert free.predict(p, z).tolist() == p.argmax(axis=1).tolist()
    assert not free.offsets.any()


def test_accuracy_and_gap_grow_with_epsilon() -> None:
    p, z = draw_scores(400, 3, 2)
    rules = [EpsilonFair(epsilon).fit(p, z) for epsilon in (0, 0.02, 0.05, 0.1)]
    values = [rule.value for rule in rules]
    assert values == sorted(values)
    assert values[0] < values[-1]
    assert [rule.gap for rule in rules] == pytest.approx([0, 0.02, 0.05, 0.1], abs=1e-8)


def test_epsilon_bounds_each_cell_of_the_metric_dp() -> None:
    p, z = draw_scores(4000, 3, 2)
    y_pred = EpsilonFair(0.03).fit(p, z).predict(p, z)
    chances = np.eye(3)[y_pred]
    measured = dp(np.arange(4000) % 3, y_pred, z)
    # Predictions are drawn for the few samples at a tie, so that rates are off by a few samples.
    assert gap_of(chances, z) <= 0.03 + 5 / 2000
    assert measured is not None
    assert measured <= gap_of(chances, z)


def test_two_classes_and_groups_against_all_thresholds() -> None:
    p, z = draw_scores(60, 2, 2, seed=4)
    rule = EpsilonFair(0.04).fit(p, z)
    # The best that a group can gain at each rate of class 1: by a threshold on its probability,
    # with a draw where the rate is between two samples.
    rates = np.linspace(0, 1, 1001)
    gains = []
    for value in (0, 1):
        order = np.sort(p[z == value, 1])[::-1]
        taken = np.arange(len(order) + 1)
        right = [order[:count].sum() + (1 - order[count:]).sum() for count in taken]
        gains.append(np.interp(rates, taken / len(order), np.array(right) / 60))
    share = np.bincount(z) / 60
    common = share[0] * rates[:, None] + share[1] * rates
    gap = np.maximum(abs(rates[:, None] - common), abs(rates - common))
    best = np.where(gap <= 0.04 + 1e-12, gains[0][:, None] + gains[1], 0).max()
    assert best - 1e-9 <= rule.value <= best + 1e-3  # the grid is that coarse


def test_weights_stand_for_copies() -> None:
    p, z = draw_scores(80, 3, 2)
    times = np.random.default_rng(0).integers(1, 5, 80)
    weighted = EpsilonFair(0.02).fit(p, z, sample_weight=times)
    copied = EpsilonFair(0.02).fit(np.repeat(p, times, axis=0), np.repeat(z, times))
    assert weighted.value == pytest.approx(copied.value, abs=1e-9)
    np.testing.assert_allclose(weighted.offsets, copied.offsets, atol=1e-9)
    chances = weighted.chances(p, z)
    assert gap_of(chances, z, times.astype(float)) <= 0.02 + 1e-9
    assert gap_of(chances, z) > 0.021


def test_population_says_how_large_groups_are() -> None:
    p, z = draw_scores(80, 3, 2)
    counts = np.bincount(z)
    weight = np.where(z == 0, 900 / counts[0], 100 / counts[1])
    by_weight = EpsilonFair(0.05).fit(p, z, sample_weight=weight)
    by_share = EpsilonFair(0.05).fit(p, z, population={0: 0.9, 1: 0.1})
    assert by_weight.value == pytest.approx(by_share.value)
    np.testing.assert_allclose(by_weight.offsets, by_share.offsets, atol=1e-9)
    # The common rates are those of the large group, so it changes less.
    changed = by_share.predict(p, z) != p.argmax(axis=1)
    assert changed[z == 0].mean() < changed[z == 1].mean()


def test_a_large_tie_is_split_by_draws() -> None:
    # The model knows nothing but the group: no threshold can split a group, only luck.
    p = np.array([[0.9, 0.1]] * 100 + [[0.2, 0.8]] * 100)
    z = np.repeat([0, 1], 100)
    rule = EpsilonFair(0.1).fit(p, z)
    rates = rule.chances(p, z)[[0, -1], 0]
    assert rates == pytest.approx([1, 0.8])  # moving the unsure group costs less
    drawn = rule.predict(np.repeat(p, 50, axis=0), np.repeat(z, 50))
    assert (drawn[5000:] == 0).mean() == pytest.approx(0.8, abs=0.02)
    again = rule.predict(np.repeat(p, 50, axis=0), np.repeat(z, 50))
    other = rule.predict(np.repeat(p, 50, axis=0), np.repeat(z, 50), seed=1)
    assert (drawn == again).all()
    assert (drawn != other).any()


def test_groups_may_be_text_and_predicted_one_by_one() -> None:
    p, z = draw_scores(100, 3, 2)
    names = np.array(["F", "M"])[z]
    rule, numbered = EpsilonFair(0.01).fit(p, names), EpsilonFair(0.01).fit(p, z)
    objects = np.array(names.tolist(), dtype=object)
    assert (rule.predict(p, objects) == numbered.predict(p, z)).all()
    fixed = rule.chances(p, names).max(axis=1) == 1
    alone = [int(rule.predict(p[[i]], names[[i]])[0]) for i in np.flatnonzero(fixed)]
    assert alone == rule.predict(p, names)[fixed].tolist()


def test_small_groups_are_noted() -> None:
    p, z = draw_scores(200, 2, 2)
    few = np.concatenate([np.flatnonzero(z == 0), np.flatnonzero(z == 1)[:9]])
    notes = EpsilonFair(0.2).fit(p[few], z[few]).notes
    assert len(notes) == 1
    assert "9 sample(s) of group 1, fewer than 30" in notes[0]
    weight = np.where(np.arange(200) < 20, 100.0, 0.01)
    heavy = EpsilonFair(0.2).fit(p, z, sample_weight=weight).notes
    assert any("with their weights worth" in note for note in heavy)
    assert EpsilonFair(0.2).fit(p, z).notes == ()


def test_an_epsilon_below_the_sampling_error_is_noted() -> None:
    p, z = draw_scores(200, 2, 2)
    fitted = EpsilonFair(0.001).fit(p, z)
    assert 0.02 < fitted.error < 0.06
    assert "epsilon 0.001 is below the sampling error" in fitted.notes[0]


PROBABILITIES, GROUPS = draw_scores(40, 3, 2)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (np.log(PROBABILITIES), r"values from -\d.* to .*, expected 0 to 1; if these are logits"),
        (9 * PROBABILITIES, "if these are logits, give their softmax"),
        (PROBABILITIES[:, :2], r"do not sum to 1 in \d+ of 40 rows \(row \d+ sums to"),
        (np.where(PROBABILITIES > 0.8, np.nan, PROBABILITIES), r"NaN or infinite values in \d+ of"),
        (PROBABILITIES[:, :1], r"shape \(40, 1\), expected \(samples, classes\)"),
        (PROBABILITIES[:, 0], r"shape \(40,\), expected"),
        (PROBABILITIES[:0], r"shape \(0, 3\), expected"),
        (PROBABILITIES.astype(str), "expected numbers"),
    ],
)
def test_what_are_no_probabilities(p: Floats, message: str) -> None:
    with pytest.raises(DataError, match=message):
        EpsilonFair(0.1).fit(p, GROUPS[: len(p)])
    rule = EpsilonFair(0.1).fit(PROBABILITIES, GROUPS)
    with pytest.raises(DataError, match=message):
        rule.predict(p, GROUPS[: len(p)])


@pytest.mark.parametrize("epsilon", [-0.1, 1.5, float("nan")])
def test_epsilon_outside_0_to_1(epsilon: float) -> None:
    with pytest.raises(UsageError, match=r"epsilon is .*, expected 0 \(equal rates\) to 1"):
        EpsilonFair(epsilon)


def test_all_mistakes_at_once() -> None:
    with pytest.raises(DataError) as caught:
        EpsilonFair(0.1).fit(
            np.log(PROBABILITIES), GROUPS[:-1], sample_weight=np.zeros(40), population={0: 1}
        )
    message = str(caught.value)
    assert "logits" in message
    assert "sensitive has shape (39,), expected (40,)" in message
    assert "sample_weight has values that are not positive" in message
    with pytest.raises(DataError) as caught:
        EpsilonFair(0.1).fit(PROBABILITIES, GROUPS, population={0: 1, 7: -1})
    message = str(caught.value)
    assert "population has no share of 1" in message
    assert "the pool has no sample of 7" in message
    assert "not positive and finite" in message


@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        (np.zeros(40), r"1 distinct value\(s\); at least two"),
        (np.stack([GROUPS, GROUPS], axis=1), "join several attributes into one"),
        (np.where(GROUPS == 0, np.nan, 1.0), "missing values"),
        (np.array(["a", None] * 20, dtype=object), "missing values"),
        (np.array(["a", pd.NA] * 20, dtype=object), "missing values"),
        (["a", float("nan")] * 20, "missing values"),
        ([0, (1, 2)] * 20, "rows of several lengths"),
    ],
)
def test_what_are_no_groups(sensitive: NDArray[np.generic], message: str) -> None:
    with pytest.raises(DataError, match=message):
        EpsilonFair(0.1).fit(PROBABILITIES, sensitive)


@pytest.mark.parametrize("size", [1e-257, 1e308])
def test_groups_that_are_lost_beside_the_others(size: float) -> None:
    with pytest.raises(DataError, match=r"group .* is less than 1e-09 of the population"):
        EpsilonFair(0).fit(PROBABILITIES, GROUPS, population={0: 1e308, 1: size})


def test_samples_of_next_to_no_mass_get_chances_too() -> None:
    p = np.array([[1, 1, 1]] * 5 + [[0.1, 1.1, 1.1], [1, 1, 1]])
    p /= p.sum(axis=1, keepdims=True)
    groups, weight = list("aaaaaab"), [1, 1, 1, 1, 1, 1e-73, 1]
    chances = EpsilonFair(0).fit(p, groups, sample_weight=weight).chances(p, groups)
    assert np.allclose(chances.sum(axis=1), 1)


def test_rounding_of_the_solver_makes_no_negative_chances() -> None:
    p, groups = np.array([[2 / 3, 0, 0, 1 / 3], [0.25, 0.5, 0, 0.25]]), ["a", "b"]
    assert (EpsilonFair(1e-10).fit(p, groups).chances(p, groups) >= 0).all()


def test_seeds_below_0() -> None:
    with pytest.raises(UsageError, match="`seed` is -1, expected a whole number of at least 0"):
        EpsilonFair(0.1).fit(PROBABILITIES, GROUPS, seed=-1)


@pytest.fixture
def rule() -> FittedRule:
    return EpsilonFair(0.1).fit(PROBABILITIES, GROUPS)


@pytest.mark.parametrize("unknown", [np.full(40, 5), np.full(40, "0"), GROUPS - 1])
def test_groups_that_the_pool_did_not_have(rule: FittedRule, unknown: Integers) -> None:
    with pytest.raises(DataError, match=r"no sample of group .* \(it had 0, 1\).*fit on a pool"):
        rule.predict(PROBABILITIES, unknown)


def test_other_classes_than_those_of_the_pool(rule: FittedRule) -> None:
    four = np.column_stack([PROBABILITIES / 2, np.full(40, 0.5)])
    with pytest.raises(DataError, match="have 4 classes, and those of the pool had 3"):
        rule.predict(four, GROUPS)
