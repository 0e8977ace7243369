from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from faircil.errors import UsageError
from faircil.metrics import evaluate
from faircil.tuning.request import Objective, parse_objective, parse_target, usual_objective
from faircil.weighting.measures import MEASURES, Measure
from run_summaries import make_run

share = st.floats(0, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accuracy - eo", Objective("eo")),
        (" accuracy-eer_task ", Objective("eer_task")),
        ("accuracy − dp", Objective("dp")),
        ("accuracy with eo_gap <= 0.05", Objective("eo_gap", 0.05)),
        ("accuracy with eo ≤ .1", Objective("eo", 0.1)),
        ("accuracy with eer <= 0", Objective("eer", 0.0)),
        ("accuracy + worst_group", Objective("worst_group")),
        ("accuracy with worst_group >= .6", Objective("worst_group", 0.6)),
    ],
)
def test_forms(text, expected):
    assert parse_objective(text) == expected
    assert parse_objective(expected.text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acc - eo", "objective 'acc - eo' cannot be read; write 'accuracy - eo' or"),
        ("accuracy", "cannot be read"),
        ("accuracy with eo < 0.05", "cannot be read"),
        ("accuracy - eoo", "unknown metric 'eoo': did you mean 'eo'?"),
        ("accuracy - worst_group", "more of worst_group is better; write 'accuracy + worst_group'"),
        ("accuracy + eo", "less of eo is better; write 'accuracy - eo'"),
        ("accuracy with eo >= 0.05", "less of eo is better; write eo<=0.05"),
        ("accuracy with eo <= five", "'five' is not a valid bound; write a number"),
        ("accuracy with eo <= -1", "'-1' is not a valid bound"),
        ("accuracy with eo <= inf", "'inf' is not a valid bound"),
        ("accuracy with eo <= nan", "'nan' is not a valid bound"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(UsageError) as caught:
        parse_objective(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eo_gap<=0.05", Objective("eo_gap", 0.05)),
        (" worst_group ≥ .6 ", Objective("worst_group", 0.6)),
    ],
)
def test_targets(text, expected):
    assert parse_target(text) == expected
    assert parse_target(expected.requirement) == expected


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("eo_gap", ["target 'eo_gap' cannot be read; write 'eo_gap<=0.05' or 'worst_group>=0.6'"]),
        ("eo_gap<0.05", ["cannot be read"]),
        ("eo_gap>=0.05", ["less of eo_gap is better; write eo_gap<=0.05"]),
        (
            "eo_gab<=x",
            ["unknown metric 'eo_gab': did you mean 'eo_gap'?", "'x' is not a valid bound"],
        ),
        ("worst_group<=2x", ["more of worst_group is better", "'2x' is not a valid bound"]),
    ],
)
def test_mistakes_of_targets_at_once(text, messages):
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert all(message in str(caught.value) for message in messages)
    assert len(caught.value.args) == len(messages)


def test_more_of_the_worst_group_is_better():
    assert Objective("worst_group").score(0.75, 0.5) == 1.25
    bounded = Objective("worst_group", 0.5)
    assert (bounded.score(0.75, 0.5), bounded.score(0.75, 0.25)) == (0.75, -0.25)
    assert "worst_group .250, .250 too little, at accuracy .750" in bounded.shortfall(0.75, 0.25)


@given(share, share, share, share, share)
def test_a_bound_is_worth_more_than_any_accuracy(bound, accuracy, disparity, other, its_disparity):
    objective = Objective("eo", bound)
    one, two = objective.score(accuracy, disparity), objective.score(other, its_disparity)
    assert objective.is_met(one) == (disparity <= bound)
    if disparity <= bound < its_disparity:
        assert one > two
    elif its_disparity <= bound and disparity <= bound:
        assert (one > two) == (accuracy > other)
    elif min(disparity, its_disparity) > bound and disparity < its_disparity:
        assert one >= two


def test_accuracy_less_disparity():
    assert Objective("eo").score(0.75, 0.5) == 0.25
    assert Objective("eo").is_met(-1.0)


def test_measure_without_a_metric_has_an_objective():
    assert usual_objective("eo") == "accuracy - eo"
    assert usual_objective("worst") == "accuracy + worst_group"
    with MEASURES.temporarily("mine", Measure(MEASURES["eo"])):
        assert parse_objective(usual_objective("mine")) == Objective("eo")


def test_values_are_means_over_runs():
    runs = [
        make_run("er", accuracy=0.5, eer=0.25, eo=None),
        make_run("er", accuracy=1.0, eer=0.75, eo=None),
    ]
    assert Objective("eer").values(runs) == (0.75, 0.5)
    assert Objective("eo").values(runs) is None


def test_accuracy_is_averaged_over_groups_so_that_the_majority_does_not_decide():
    """Half of the groups are the minority, whatever their size and what a run calls accuracy."""
    right = {(0, 0): (95, 95), (0, 1): (5, 2), (1, 0): (95, 95), (1, 1): (5, 0)}
    rows = [
        (y, y if k < hits else 1 - y, z) for (y, z), (n, hits) in right.items() for k in range(n)
    ]
    y_true, y_pred, z = zip(*rows, strict=True)
    after = evaluate(y_true, y_pred, task=[0] * len(rows), sensitive=z)
    assert after.accuracy == pytest.approx(0.96)
    assert after.balanced_accuracy == pytest.approx((1 + 0.4 + 1 + 0) / 4)
    run = make_run("er", accuracy=0.96, balanced_accuracy=after.balanced_accuracy, eo=0.4)
    assert Objective("eo").values([run]) == (pytest.approx(0.6), 0.4)
