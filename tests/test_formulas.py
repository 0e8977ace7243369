from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from hypothesis import given, settings, strategies as st

from faircil.errors import DataError
from faircil.metrics import (
    METRICS,
    ClassAccuracy,
    GroupAccuracy,
    accuracy,
    dp,
    dp_predicted,
    eer,
    eer_task,
    eo,
    eo_gap,
    evaluate,
    forgetting,
)
from prediction_rows import binary, columns, quick, samples

FAVOURED = (1, 4, 9)  # 9 never occurs


def mean(values):
    return sum(values) / len(values)


def right(rows):
    return mean([y == p for y, p, _ in rows])


def by_class(rows):
    return {c: [row for row in rows if row[0] == c] for c in sorted({y for y, _, _ in rows})}


def by_value(rows):
    return {v: [row for row in rows if row[2] == v] for v in sorted({z for _, _, z in rows})}


def slow_tasks(rows):
    per_class = {c: right(of_class) for c, of_class in by_class(rows).items()}
    return [
        mean([a for c, a in per_class.items() if c // 2 == t])
        for t in sorted({c // 2 for c in per_class})
    ]


def slow_eo_and_gap(rows):
    deviations, gaps = [], []
    for of_class in by_class(rows).values():
        rates = [right(group) for group in by_value(of_class).values()]
        if len(rates) > 1:
            deviations += [abs(rate - mean(rates)) for rate in rates]
            gaps.append(max(rates) - min(rates))
    return (mean(deviations), mean(gaps)) if gaps else (None, None)


def slow_dp(rows, classes):
    values = by_value(rows)
    if len(values) < 2:
        return None
    return mean(
        [
            abs(mean([p == c for _, p, _ in group]) - mean([p == c for _, p, _ in rows]))
            for c in classes
            for group in values.values()
        ]
    )


@quick
@given(samples)
def test_every_metric_equals_the_obvious_loop(rows):
    y, p, z = columns(rows)
    tasks, classes = slow_tasks(rows), by_class(rows)
    slow_eo, slow_gap = slow_eo_and_gap(rows)
    slow_eopp, slow_eopp_gap = slow_eo_and_gap([row for row in rows if row[0] in FAVOURED])
    judged = [right(g) for of in classes.values() for g in by_value(of).values() if len(g) >= 10]
    expected = {
        "accuracy": mean(tasks),
        "final_accuracy": mean(tasks),
        "balanced_accuracy": mean(
            [right(g) for of in classes.values() for g in by_value(of).values()]
        ),
        "worst_group": min(judged, default=None),
        "eer": mean([abs(right(of) - right(rows)) for of in classes.values()])
        if len(classes) > 1
        else None,
        "eer_task": mean([abs(a - mean(tasks)) for a in tasks]),
        "eo": slow_eo,
        "eo_gap": slow_gap,
        "eopp": slow_eopp,
        "eopp_gap": slow_eopp_gap,
        "dp": slow_dp(rows, classes),
        "dp_predicted": slow_dp(rows, {p for _, p, _ in rows}),
        "forgetting": None,
    }
    got = evaluate(y, p, task=y // 2, sensitive=z, favoured=FAVOURED)
    assert got.per_test_task == pytest.approx(tuple(tasks), abs=1e-12)
    assert got.classes == tuple(ClassAccuracy(c, len(of), right(of)) for c, of in classes.items())
    assert got.groups == tuple(
        GroupAccuracy(c, v, len(group), right(group))
        for c, of in classes.items()
        for v, group in by_value(of).items()
    )
    assert got.values.keys() == expected.keys() == METRICS.keys()
    for name, value in expected.items():
        wanted = None if value is None else pytest.approx(value, abs=1e-12)
        assert got.values[name] == wanted, name
        assert getattr(got, name) == got.values[name]


@quick
@given(samples)
def test_single_functions_give_what_evaluate_gives(rows):
    y, p, z = columns(rows)
    got = evaluate(y, p, task=y // 2, sensitive=z)
    assert accuracy(y, p, y // 2) == got.accuracy
    assert eer(y, p) == got.eer
    assert eer_task(y, p, y // 2) == got.eer_task
    assert (eo(y, p, z), eo_gap(y, p, z)) == (got.eo, got.eo_gap)
    assert (dp(y, p, z), dp_predicted(y, p, z)) == (got.dp, got.dp_predicted)


@quick
@given(samples)
def test_eo_gap_is_exactly_twice_eo_for_two_values(rows):
    y, p, z = columns(rows)
    half = eo(y, p, z > 0)
    assert eo_gap(y, p, z > 0) == (None if half is None else 2 * half)


@settings(quick, max_examples=20)  # fairlearn takes its time
@given(binary)
def test_fairlearn_agrees_on_two_classes(rows):
    y, p, z = columns(rows)
    odds = equalized_odds_difference(y, p, sensitive_features=z, agg="mean")
    assert eo_gap(y, p, z) == pytest.approx(odds, abs=1e-12)
    parity = demographic_parity_difference(y, p, sensitive_features=z > 0)
    assert 2 * dp(y, p, z > 0) == pytest.approx(parity, abs=1e-12)


def test_hand_example():
    y = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    p = [0, 0, 1, 9, 1, 0, 1, 2, 2, 2]
    z = [0, 0, 0, 1, 0, 1, 1, 0, 0, 0]
    # Class accuracies 1/2, 2/3, 1; all samples 7/10; groups of 0: 2/3, 0; of 1: 1, 1/2.
    got = evaluate(y, p, task=[0] * 4 + [1] * 6, sensitive=z)
    assert got.per_test_task == pytest.approx((1 / 2, 5 / 6))
    assert got.accuracy == pytest.approx(2 / 3)
    assert got.eer == pytest.approx((1 / 5 + 1 / 30 + 3 / 10) / 3)
    assert got.eer_task == pytest.approx(1 / 6)
    # Class 2 has only value 0 and takes no part.
    assert got.eo == pytest.approx((1 / 3 + 1 / 3 + 1 / 4 + 1 / 4) / 4)
    assert got.eo_gap == pytest.approx((2 / 3 + 1 / 2) / 2)
    # Shares predicted as 0, 1, 2, 9: value 0 (7 samples) 2/7 2/7 3/7 0, value 1 (3) 1/3 1/3 0 1/3;
    # for two values the two distances of a class add up to the difference of its shares.
    assert got.dp == pytest.approx((1 / 21 + 1 / 21 + 3 / 7) / 6)
    assert got.dp_predicted == pytest.approx((1 / 21 + 1 / 21 + 3 / 7 + 1 / 3) / 8)
    assert got.classes[1] == ClassAccuracy(1, 3, 2 / 3)
    assert got.groups[-1] == GroupAccuracy(2, 0, 3, 1.0)
    assert len(got.groups) == 5


def test_ideal_fine_tuning_knows_only_the_last_task():
    after = []
    for last in range(1, 6):
        y = np.arange(2 * last).repeat(3)
        p = np.where(y // 2 == last - 1, y, 2 * last - 1)
        after.append(evaluate(y, p, task=y // 2))
    assert [m.accuracy for m in after] == pytest.approx([1 / n for n in range(1, 6)])
    ideal = [2 * (n - 1) / n**2 for n in range(1, 6)]
    assert [m.eer for m in after] == pytest.approx(ideal)
    assert [m.eer_task for m in after] == pytest.approx(ideal)


@pytest.mark.parametrize("share", [0, 3, 10])
def test_measured_and_equal_is_zero(share):
    y = np.arange(6).repeat(30)
    z = np.tile(np.arange(3).repeat(10), 6)
    wrong = np.arange(180) % 10 >= share
    p = np.where(wrong, (y + 1) % 6, y)
    got = evaluate(y, p, task=y // 2, sensitive=z)
    assert (got.eer, got.eer_task, got.eo, got.eo_gap, got.dp, got.dp_predicted) == (0,) * 6


def test_what_is_undefined_is_none():
    y, p = [0, 0, 1, 1], [0, 1, 1, 1]
    for sensitive in (None, [7, 7, 7, 7]):
        got = evaluate(y, p, task=[0] * 4, sensitive=sensitive)
        assert (got.eo, got.eo_gap, got.dp, got.dp_predicted) == (None,) * 4
        assert len(got.groups) == (0 if sensitive is None else 2)
    each_class_its_own_value = evaluate(y, p, task=[0] * 4, sensitive=y)
    assert each_class_its_own_value.eo is None
    assert each_class_its_own_value.dp == 1 / 4
    assert eer([3, 3], [3, 0]) is None


def test_forgetting():
    nan = np.nan
    matrix = [[0.9, nan, nan], [0.95, 0.8, nan], [0.5, 0.85, 1.0]]
    assert forgetting(matrix) == pytest.approx(((0.95 - 0.5) + (0.8 - 0.85)) / 2)
    with_values_above = np.where(np.isnan(matrix), 1.0, matrix)
    assert forgetting(with_values_above) == forgetting(matrix)
    assert forgetting([[0.9]]) is None


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5]], r"shape \(1, 2\), expected \(tasks, tasks\)"),
        ([[1.0, 1.0], [np.nan, 1.0]], "NaN on or below its diagonal"),
    ],
)
def test_forgetting_refuses_a_matrix_that_is_not_whole(matrix, message):
    with pytest.raises(DataError, match=message):
        forgetting(matrix)


def test_favoured_classes_are_a_list():
    with pytest.raises(DataError, match=r"expected a list of classes: \['yes'\]"):
        evaluate(["no", "yes"], ["no", "yes"], favoured="yes")


def test_without_favoured_classes_there_is_no_equal_opportunity():
    y, z = [0, 0, 1, 1], [0, 1, 0, 1]
    got = evaluate(y, [0, 1, 1, 1], task=y, sensitive=z)
    assert (got.eopp, got.eopp_gap) == (None, None)
    assert evaluate(y, [0, 1, 1, 1], task=y, sensitive=z, favoured=[1]).eopp_gap == 0.0
    assert evaluate(y, [0, 1, 1, 1], task=y, sensitive=z, favoured=[0]).eopp_gap == 1.0
    assert evaluate(y, [0, 1, 1, 1], task=y, sensitive=z, favoured=[7]).eopp_gap is None


def test_worst_group_is_among_those_large_enough_to_judge():
    y, z = np.repeat([0, 0, 1, 1], [10, 9, 10, 30]), np.repeat([0, 1, 0, 1], [10, 9, 10, 30])
    p = np.where(z == 1, 7, y)  # value 1 is always wrong
    got = evaluate(y[:29], p[:29], task=y[:29], sensitive=z[:29])
    assert got.worst_group == 1.0  # nine samples are too few to judge
    assert evaluate(y, p, task=y, sensitive=z).worst_group == 0.0
    assert evaluate(y, p, task=y).worst_group == 0.25  # without an attribute, the worst class
    assert evaluate(y[:9], p[:9], task=y[:9]).worst_group is None


def test_forgetting_needs_the_evaluations_before():
    first = evaluate([0, 0], [0, 0], task=[0, 0])
    second = evaluate([0, 0, 1], [0, 1, 1], task=[0, 0, 1], before=first)
    third = evaluate([0, 0, 1, 2], [2, 2, 1, 2], task=[0, 0, 1, 2], before=second)
    assert (first.forgetting, second.forgetting, third.forgetting) == (None, 0.5, 0.5)
    assert evaluate([0, 0, 1], [0, 1, 1], task=[0, 0, 1]).forgetting is None
    with pytest.raises(DataError, match="of 3 tasks and those of the task before are of 1, expec"):
        evaluate([0, 1, 2], [0, 1, 2], task=[0, 1, 2], before=first)


@quick
@given(samples, st.integers(0, 2**32 - 1))
def test_samples_of_unknown_value_count_for_their_class_and_for_no_group(rows, seed):
    y, predicted, z = columns(rows)
    known = np.random.default_rng(seed).random(len(y)) < 0.7
    hidden = np.where(known, z, -1)
    found = evaluate(y, predicted, task=y % 2, sensitive=hidden)
    for name in ("accuracy", "eer", "eer_task"):
        expected = evaluate(y, predicted, task=y % 2, sensitive=z).values[name]
        assert found.values[name] == pytest.approx(expected)
    compared = [name for name, metric in METRICS.items() if metric.by_attribute]
    if not known.any():
        assert all(found.values[name] is None for name in (*compared, "worst_group"))
        assert found.balanced_accuracy is None
        assert found.groups == ()
        return
    rest = evaluate(y[known], predicted[known], task=y[known] % 2, sensitive=z[known])
    assert found.groups == rest.groups
    for name in (*compared, "balanced_accuracy", "worst_group"):
        assert found.values[name] == rest.values[name]
