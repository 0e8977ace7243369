"""Audits: values, state, noise floors, and what a gate decides."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations, product
from math import prod
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equalized_odds_difference,
    selection_rate,
)
from hypothesis import given, settings, strategies as st
from scipy.stats import binom
from sklearn.metrics import accuracy_score

import faircil
from faircil.auditing import Audit, audit
from faircil.auditing.disparities import DISPARITIES, FAMILIES, MEASURES, Trials
from faircil.auditing.findings import Finding, Report, levelled_down, report_of
from faircil.auditing.gate import Condition, Decision, decide, parse_conditions
from faircil.auditing.intervals import Tails, combined_tails, directions_of, gap_limits, noise_floor
from faircil.auditing.rate_intervals import rate_limits, worst_limits
from faircil.errors import DataError, UsageError
from faircil.formulas import mean_gap
from faircil.metrics import METRICS, evaluate

ROUNDING = 1e-12  # sums of a few rates, in another order
quick = settings(deadline=None, max_examples=8)
rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from("fm"), st.integers(-1, 2)),
    min_size=30,
    max_size=80,
).map(lambda found: found + [(y, y, sex, z) for y in (0, 1) for sex in "fm" for z in (0, 1)] * 10)


def audit_of(table: list[tuple[int, int, str, int]], **options: object) -> Audit:
    true, predicted, sex, region = (list(column) for column in zip(*table, strict=True))
    features = {"sex": sex, "region": region}
    return audit(true, predicted, sensitive_features=features, draws=100, **options)


@quick
@given(rows)
def test_values_are_those_of_the_metrics(table: list[tuple[int, int, str, int]]) -> None:
    report = audit_of(table, favoured=[1]).report()
    true, predicted, *values = zip(*table, strict=True)
    for name, column in zip(("sex", "region"), values, strict=True):
        expected = evaluate(true, predicted, sensitive=list(column), favoured=[1]).values
        found = {one.measure: one for one in report.findings if one.scope in ((), (name,))}
        assert set(found) == set(MEASURES)
        for measure in set(found) & set(METRICS):
            assert found[measure].value == pytest.approx(expected[measure], abs=ROUNDING)


@quick
@given(rows)
def test_the_statistic_that_is_drawn_is_the_metric(table: list[tuple[int, int, str, int]]) -> None:
    for counts in audit_of(table, favoured=[0]).scopes().values():
        for family in FAMILIES.values():
            trials = family.trials(counts)
            for name in family.measures if trials is not None else ():
                value = float(DISPARITIES[name].statistic(trials, counts)(trials.rates))
                if name in METRICS:
                    assert value == pytest.approx(METRICS[name].of(counts), abs=ROUNDING)


@quick
@given(rows)
def test_intervals_are_in_order_and_nothing_is_called_zero(
    table: list[tuple[int, int, str, int]],
) -> None:
    report = audit_of(table).report()
    for one in report.findings:
        if one.value is None:
            assert one.low is one.high is one.p_value is None
        else:
            assert 0 <= one.low <= one.high <= 1
    for rate in report.rates:
        assert (rate.low is None) == (rate.n < 10)


@quick
@given(rows, st.integers(0, 80), st.randoms())
def test_parts_merge_to_the_whole_in_any_order(
    table: list[tuple[int, int, str, int]], cut: int, chance: object
) -> None:
    whole = audit_of(table)
    shuffled = list(table)
    chance.shuffle(shuffled)
    first, second = shuffled[: cut + 1], shuffled[cut + 1 :]
    parts = audit_of(second).merge(audit_of(first)) if second else audit_of(first)
    assert parts.n == len(table)
    for found, expected in zip(parts.scopes().items(), whole.scopes().items(), strict=True):
        assert found[0] == expected[0]
        for name in ("classes", "attributes", "samples", "hits", "predicted", "members"):
            assert np.array_equal(getattr(found[1], name), getattr(expected[1], name)), name


def test_the_same_counts_give_the_same_report() -> None:
    table = [(y, y, sex, z) for y in (0, 1) for sex in "fm" for z in (0, 1)] * 12
    assert audit_of(table).report() == audit_of(table[::-1]).report()


def test_fairlearn_agrees_on_two_classes() -> None:
    draw = np.random.default_rng(0)
    true, sex = draw.integers(0, 2, 400), draw.choice(["f", "m", "x"], 400)
    predicted = np.where(draw.random(400) < np.where(sex == "f", 0.6, 0.85), true, 1 - true)
    report = audit(true, predicted, sensitive_features=pd.Series(sex, name="sex")).report()
    found = {one.measure: one for one in report.findings}
    frame = MetricFrame(
        metrics={"accuracy": accuracy_score, "selected": selection_rate},
        y_true=true,
        y_pred=predicted,
        sensitive_features=sex,
    )
    expected = {
        "accuracy_gap": frame.difference()["accuracy"],
        "dp_worst": frame.difference()["selected"],
        "eo_gap": equalized_odds_difference(true, predicted, sensitive_features=sex, agg="mean"),
        "eo_worst": equalized_odds_difference(true, predicted, sensitive_features=sex),
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=ROUNDING)
        assert found[name].low <= value <= found[name].high
    assert found["dp_worst"].value == pytest.approx(
        demographic_parity_difference(true, predicted, sensitive_features=sex), abs=ROUNDING
    )
    assert found["accuracy_gap"].worst.low == "f"
    assert report.unfair == (("sex",),)


# The example of fairlearn's user guide, "Common fairness metrics" and "Intersecting groups".
GUIDE_TRUE = [0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1]
GUIDE_PREDICTED = [0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0]
GUIDE_FEATURES = pd.DataFrame({"SF 0": [*"bbabbcccaacabccbcc"], "SF 1": [*"868888666866668666"]})


def test_fairlearns_example_has_too_few_samples_and_ten_times_as_many_agree() -> None:
    few = audit(GUIDE_TRUE, GUIDE_PREDICTED, sensitive_features=GUIDE_FEATURES["SF 0"]).report()
    assert all(one.value is None for one in few.findings if one.measure.startswith(("eo", "dp")))
    many = audit(
        GUIDE_TRUE * 10,
        GUIDE_PREDICTED * 10,
        sensitive_features=pd.concat([GUIDE_FEATURES] * 10, ignore_index=True),
    ).report()
    for scope in (("SF 0",), ("SF 1",)):
        found = {one.measure: one.value for one in many.findings if one.scope == scope}
        rows = {"sensitive_features": GUIDE_FEATURES[list(scope)]}
        odds = equalized_odds_difference(GUIDE_TRUE, GUIDE_PREDICTED, **rows)
        parity = demographic_parity_difference(GUIDE_TRUE, GUIDE_PREDICTED, **rows)
        assert found["eo_worst"] == pytest.approx(odds, abs=ROUNDING)
        assert found["dp_worst"] == pytest.approx(parity, abs=ROUNDING)
    frame = MetricFrame(
        metrics=accuracy_score,
        y_true=GUIDE_TRUE,
        y_pred=GUIDE_PREDICTED,
        sensitive_features=GUIDE_FEATURES,
    )
    (crossed,) = [
        one for one in many.findings if len(one.scope) == 2 and one.measure == "accuracy_gap"
    ]
    assert crossed.value == pytest.approx(frame.difference(), abs=ROUNDING)


def test_permutations_are_those_of_all_orders() -> None:
    """Seven samples: every way to deal out the values, against hypergeometric draws."""
    hits, values = [1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]

    def gap(order: tuple[int, ...]) -> float:
        rates = [np.mean([h for h, z in zip(hits, order, strict=True) if z == v]) for v in (0, 1)]
        return float(abs(rates[0] - rates[1]))

    exact = np.array([gap(order) for order in permutations(values)])
    observed = gap(tuple(values))
    trials = Trials(np.array([[3, 1]]), np.array([[3, 4]]), None, np.arange(2))
    draws = 40_000
    floor = noise_floor(trials, {"gap": mean_gap}, draws, np.random.default_rng(0))["gap"]
    # Five standard errors of a share, and of a mean of numbers from 0 to 1.
    error = 5 * 0.5 / draws**0.5
    assert floor.p_value == pytest.approx((exact >= observed - ROUNDING).mean(), abs=error)
    assert floor.mean == pytest.approx(exact.mean(), abs=error)


def test_limits_of_a_rate_cover_it() -> None:
    """Exact, of 31 outcomes: as these are discrete, coverage is around 95 % for rates near by."""
    hits = np.arange(31)
    low, high = rate_limits(hits, np.full(31, 30))
    rates = np.linspace(0.2, 0.9, 141)[:, None]
    covered = np.where((low <= rates) & (rates <= high), binom.pmf(hits, 30, rates), 0).sum(axis=1)
    assert covered.mean() == pytest.approx(0.95, abs=0.01)
    assert covered.min() >= 0.91


@pytest.mark.parametrize(("first", "second"), [(0.7, 0.7), (0.6, 0.9), (0.8, 0.85)])
def test_limits_of_the_worst_cover_it(first: float, second: float) -> None:
    """All outcomes of two groups of 12, with their probabilities."""
    covered = 0.0
    for a in range(13):
        for b in range(13):
            low, high = worst_limits(np.array([a, b]), np.array([12, 12]))
            chance = binom.pmf(a, 12, first) * binom.pmf(b, 12, second)
            covered += chance * (low <= min(first, second) <= high)
    assert covered >= 0.93


@pytest.mark.parametrize(
    ("hits", "sizes"), [([9, 10, 10], [12, 12, 12]), ([5, 9, 14], [8, 10, 15]), ([3, 30], [5, 40])]
)
def test_lower_limit_of_the_worst_by_all_outcomes(hits: list[int], sizes: list[int]) -> None:
    """Below the limit no group can be the lowest; at the limit one just can."""
    shares = [(h + 0.5) / (n + 1) for h, n in zip(hits, sizes, strict=True)]
    errors = [s * (1 - s) / n for s, n in zip(shares, sizes, strict=True)]
    worst = min(h / n for h, n in zip(hits, sizes, strict=True))

    def chance(group: int, rate: float) -> float:
        """P(all seen as high as the worst was), ties half, if this group is the lowest."""
        others = [i for i in range(len(hits)) if i != group]
        first = min(others, key=lambda i: shares[i])
        near = [
            i for i in others if shares[i] - shares[first] <= 2 * (errors[i] + errors[first]) ** 0.5
        ]
        pooled = sum(shares[i] * sizes[i] for i in near) / sum(sizes[i] for i in near)
        rates = [
            rate if i == group else pooled if i in near else shares[i] for i in range(len(hits))
        ]
        found = 0.0
        for outcome in product(*(range(n + 1) for n in sizes)):
            lowest = min(h / n for h, n in zip(outcome, sizes, strict=True))
            weight = 0.5 if abs(lowest - worst) < ROUNDING else float(lowest > worst)
            if weight:
                each = (binom.pmf(h, n, r) for h, n, r in zip(outcome, sizes, rates, strict=True))
                found += weight * prod(each)
        return found

    own, _ = rate_limits(np.array(hits), np.array(sizes))
    low, _ = worst_limits(np.array(hits), np.array(sizes))

    def is_possible(group: int, rate: float) -> bool:
        return own[group] <= rate and chance(group, rate) >= 0.025

    groups = range(len(hits))
    assert any(is_possible(group, low + 1e-6) for group in groups)
    assert not any(is_possible(group, low - 1e-6) for group in groups)


def test_nearly_tied_groups_are_not_judged_as_if_each_were_alone() -> None:
    """With the others as high as they are, the lowest of the groups' own limits is too low."""
    hits, sizes = np.array([80, 81, 82, 83]), np.full(4, 100)
    low, high = worst_limits(hits, sizes)
    assert rate_limits(hits, sizes)[0].min() + 0.01 < low < 0.8 < high
    alone = worst_limits(hits[:1], sizes[:1])
    assert alone[0] == rate_limits(hits, sizes)[0][0]


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.4])
def test_limits_of_a_gap_cover_it(gap: float) -> None:
    """All outcomes of two groups of 12, without those of a probability below .001."""
    rates, covered, whole = (0.8, 0.8 - gap), 0.0, 0.0
    draw = np.random.default_rng(0)
    for a in range(13):
        for b in range(13):
            chance = binom.pmf(a, 12, rates[0]) * binom.pmf(b, 12, rates[1])
            if chance > 1e-3:
                trials = Trials(np.array([[a, b]]), np.array([[12, 12]]), None, np.arange(2))
                low, high = gap_limits(trials, {"gap": mean_gap}, 200, draw)["gap"]
                covered, whole = covered + chance * (low <= gap <= high), whole + chance
    assert covered / whole >= 0.93


def test_tails_of_directions_are_taken_together() -> None:
    first = Tails(np.array([0.0, 0.2, 0.4]), np.array([0.01, 0.1, 0.9]), *[np.ones(3)] * 2)
    second = Tails(np.array([0.0, 0.1]), np.array([0.03, 0.3]), *[np.full(2, 0.5)] * 2)
    found = combined_tails([first, second], 1e-4)
    assert found.true.tolist() == [0.0, 0.1, 0.2, 0.4]
    between = (0.01 * 0.1) ** 0.5  # halfway on the scale of logarithms
    expected = [(0.02 + 0.03) / 2, ((between + 0.3) / 2 + 0.3) / 2, 0.1, 0.9]
    assert found.above == pytest.approx(expected)
    assert found.below == pytest.approx([0.875, 0.875, 1.0, 1.0])
    assert found.power == pytest.approx([0.75, 0.75, 1.0, 1.0])
    alone = combined_tails([first], 1e-4)
    assert alone.above == pytest.approx(first.above)


def test_the_centre_of_many_small_cells_is_not_drawn_to_the_middle() -> None:
    trials = Trials(np.full((1, 50), 9), np.full((1, 50), 10), None, np.arange(50))
    centre, _ = directions_of(trials)
    assert centre == pytest.approx(np.full((1, 50), 450.5 / 501))


def test_shares_are_permuted_with_all_margins() -> None:
    hits = np.array([[5, 2, 1], [1, 4, 0], [0, 0, 3]])
    sizes = np.broadcast_to(hits.sum(axis=0), hits.shape)
    trials = Trials(hits, sizes, np.arange(3), np.arange(3), shares=True)
    dealt = trials.permuted(2000, np.random.default_rng(0)) * sizes
    assert (np.round(dealt.sum(axis=1)) == sizes[0]).all()
    assert (np.round(dealt.sum(axis=2)) == hits.sum(axis=1)).all()
    expected = hits.sum(axis=1)[:, None] * sizes / hits.sum()
    assert dealt.mean(axis=0) == pytest.approx(expected, abs=5 * 1.5 / 2000**0.5)


def test_limits_where_nothing_differs() -> None:
    """Equal rates leave a gap possible; a single class that is always predicted does not."""
    report = audit([0, 1] * 40, [0, 1] * 40, sensitive_features=["f", "f", "m", "m"] * 20).report()
    (equal,) = report.find("eo_gap")
    assert (equal.value, equal.low) == (0.0, 0.0)
    assert 0.02 < equal.high < 0.3
    report = audit(["a"] * 80, ["a"] * 80, sensitive_features=["f", "m"] * 40).report()
    (single,) = report.find("dp")
    assert (single.value, single.low, single.high) == (0.0, 0.0, 0.0)
    assert report.find("eer")[0].value is None


def test_rates_at_their_ends_leave_the_observed_value_possible() -> None:
    """Rates of 1 and 0 cannot be further apart, so that a larger θ is never tried."""
    true = [0, 1, 2, 0] * 10
    (found,) = audit(true, [0, 1, 1, 0] * 10).report().find("eer")
    # Errors are 0, 0 and 1, that of all is 1/4: distances 1/4, 1/4 and 3/4.
    assert found.value == pytest.approx(5 / 12)
    assert found.low < found.value <= found.high


def test_without_an_attribute_classes_are_compared() -> None:
    true = [0, 1] * 40
    made = audit(true, [0, 1] * 30 + [0, 0] * 10, favoured=[1])
    report = made.report()
    assert {one.measure: one.scope for one in report.findings} == {
        "accuracy": (), "eer": (), "worst_group": ()
    }  # fmt: skip
    assert [(rate.label, rate.attribute, rate.n) for rate in report.rates] == [
        (0, None, 40), (1, None, 40)
    ]  # fmt: skip
    assert "only classes are compared" in report.notes[0]
    assert report.find("eer")[0].value == pytest.approx(
        evaluate(true, [0, 1] * 30 + [0, 0] * 10).eer
    )
    assert made.merge(made).n == 160
    assert decide(report, ["eer>0.5"]).exit_code == 0
    with pytest.raises(UsageError, match="needs sensitive attributes"):
        decide(report, ["eo_gap>0.1"])


def test_groups_that_are_too_small_cannot_be_told() -> None:
    true = [0, 1] * 7
    report = audit(true, true, sensitive_features=["f", "f", "m", "m"] * 3 + ["f", "m"]).report()
    for one in report.findings:
        if one.measure in ("eo", "eo_gap", "eo_worst", "dp", "accuracy_gap", "worst_group"):
            assert one.value is None, one.measure
    assert all(rate.low is None for rate in report.rates)
    (check, *_) = decide(report, ["eo_gap>0.1"]).checks
    assert check.decision is Decision.CANNOT_TELL
    assert "is unknown with so few samples" in check.sentence


def test_random_attributes_are_seldom_called_unfair() -> None:
    draw = np.random.default_rng(1)
    called = 0
    for _ in range(20):
        true = draw.integers(0, 2, 200)
        predicted = np.where(draw.random(200) < 0.8, true, 1 - true)
        found = audit(true, predicted, sensitive_features=draw.integers(0, 3, 200), draws=400)
        called += bool(found.report().unfair)
    assert called <= 5  # of a binomial of 20 and 5 %, more has a probability of .0003


def test_too_few_draws_are_noted() -> None:
    table = [(y, y, sex, z) for y in (0, 1) for sex in "fm" for z in (0, 1)] * 12
    assert "no difference can be significant" in " ".join(audit_of(table).report().notes)


def finding(low: float, high: float, measure: str = "eo_gap") -> Report:
    one = Finding(measure, ("sex",), (low + high) / 2, low, high)
    return Report(100, 2000, (one,), (), ())


@pytest.mark.parametrize(
    ("report", "condition", "policy", "code"),
    [
        (finding(0.0, 0.1), "eo_gap>0.1", "report", 0),
        (finding(0.11, 0.2), "eo_gap > 0.10", "report", 3),
        (finding(0.1, 0.2), "eo_gap>=0.1", "report", 4),
        (finding(0.05, 0.2), "eo_gap>0.1", "pass", 0),
        (finding(0.05, 0.2), "eo_gap>0.1", "fail", 3),
        (finding(0.11, 0.2), "eo_gap[sex]>0.1", "pass", 3),
        (finding(0.6, 0.69, "worst_group"), "worst_group<0.7", "report", 3),
        (finding(0.7, 0.8, "worst_group"), "worst_group<0.7", "report", 0),
        (finding(0.6, 0.8, "worst_group"), "worst-group<0.7", "report", 4),
    ],
)
def test_a_gate_decides_by_the_interval(
    report: Report, condition: str, policy: str, code: int
) -> None:
    gate = decide(report, [condition], cannot_tell=policy)
    assert gate.exit_code == code
    suite = ElementTree.fromstring(gate.as_junit())
    assert suite.get("failures") == str(int(code == 3))
    assert suite.get("skipped") == str(int(code == 4))
    assert len(suite) == len(gate.as_dict()["checks"]) == 1


def test_conditions_that_cannot_be_read_are_told_at_once() -> None:
    texts = ["eo_gab>0.1", "eo_gap>ten", "eo_gap", "accuracy>0.9", "eo_gap>10", "eo_gap<0.1"]
    mistakes: list[str] = []
    assert parse_conditions([*texts, "eo[sex, race]>.1"], mistakes) == [
        Condition("eo[sex, race]>.1", "eo", ("sex", "race"), 0.1)
    ]
    assert len(mistakes) == len(texts)
    assert "did you mean 'eo_gap'" in " ".join(mistakes)
    assert "expected accuracy<0.9" in " ".join(mistakes)
    with pytest.raises(UsageError) as error:
        decide(finding(0, 1), [*texts, "eo_gap[race]>0.1"], cannot_tell="maybe")
    assert len(error.value.args) == len(texts) + 2
    with pytest.raises(UsageError, match="not audited"):
        decide(finding(0, 1), ["eo_gap[race]>0.1"])
    with pytest.raises(UsageError, match=r"needs favoured classes \(`favoured`\); name them"):
        decide(finding(0, 1), ["eopp>0.1"])
    with pytest.raises(UsageError, match="cannot_tell"):
        decide(finding(0, 1), ["eo_gap>0.1"], cannot_tell="maybe")


def test_levelling_down_is_named() -> None:
    true, sex = [0] * 400 + [1] * 400, (["f"] * 200 + ["m"] * 200) * 2

    def predicted(f: int, m: int) -> list[int]:
        return [0] * f + [1] * (200 - f) + [0] * m + [1] * (200 - m) + [1] * 400

    before = audit(true, predicted(140, 190), sensitive_features={"sex": sex})
    fell = audit(true, predicted(142, 150), sensitive_features={"sex": sex})
    rose = audit(true, predicted(180, 190), sensitive_features={"sex": sex})
    (named,) = fell.levelled_down(before)
    assert (named.label, named.better, named.worse) == (0, "m", "f")
    assert named.gap_before == pytest.approx(0.25)
    assert named.gap_after == pytest.approx(0.04)
    assert named.p_value < 0.001
    assert rose.levelled_down(before) == ()
    assert levelled_down(before.scopes(), before.scopes()) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitive_features": ["f"] * 4}, "has only the value 'f', expected two or more"),
        ({"sensitive_features": [None] * 4}, "has no known value"),
        ({"favoured": ["c"]}, "the favoured class 'c' is never true"),
        ({"y_pred": ["x"] * 4}, "none could be correct"),
        ({"y_true": ["a", None, "b", "b"]}, "y_true has 1 missing values"),
        ({"y_pred": [0.5, 0.1, 0.2, 0.3]}, "give classes instead of scores"),
        ({"y_true": [], "y_pred": [], "sensitive_features": []}, "expected shape"),
        ({"task": ["one", "one", "two", "two"]}, "number the tasks"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    given = {"y_true": list("aabb"), "y_pred": list("abab"), "sensitive_features": list("fmfm")}
    with pytest.raises(DataError, match=message):
        audit(**given | change).report()


def test_an_identifier_is_no_attribute() -> None:
    numbers = np.arange(2000)
    with pytest.raises(DataError, match=r"sensitive person has 2,000 different values.*identifier"):
        audit(numbers % 2, numbers % 2, sensitive_features={"person": numbers})


def test_too_many_groups_are_left_out_or_refused() -> None:
    numbers = np.arange(4000)
    features = {"a": numbers % 60, "b": numbers // 60 % 60}
    report = audit(numbers % 2, numbers % 2, sensitive_features=features, draws=100).report()
    assert {one.scope for one in report.findings} == {(), ("a",), ("b",)}
    assert "a × b has 3,600 values: too many" in report.notes[0]
    with pytest.raises(DataError, match="expected at most 5,000 groups"):
        audit(numbers % 100, numbers % 100, sensitive_features={"a": numbers % 61}).report()


def test_attributes_may_have_any_name() -> None:
    true, predicted, value = [0, 1] * 20, [0, 0] * 20, ["a", "b"] * 20
    report = audit(true, predicted, sensitive_features={"y_true": value, "task": value}).report()
    (first, *_) = report.find("accuracy_gap")
    assert (first.scope, first.value) == (("y_true",), 1.0)


def test_updates_need_the_same_attributes() -> None:
    made = Audit(["sex"])
    with pytest.raises(DataError, match="no samples yet"):
        made.report()
    with pytest.raises(UsageError, match="expected sex"):
        made.update([0], [0], sensitive_features={"race": [1]})
    with pytest.raises(UsageError, match="cannot be merged"):
        made.merge(Audit(["race"]))
    with pytest.raises(UsageError, match="each once"):
        Audit(["sex", "sex"], draws=3)
    with pytest.raises(UsageError, match="the attributes are none, expected sex"):
        made.update([0], [0])


def test_audits_start_without_torch() -> None:
    code = "import sys; from faircil import audit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert faircil.audit is audit


def test_one_class_without_a_mistake_and_a_small_group() -> None:
    report = audit([0] * 36, [0] * 36, sensitive_features=[0] * 25 + [1] * 10 + [2]).report()
    found = {one.measure: one for one in report.findings}
    assert found["accuracy"].value == 1
    assert found["dp"].value in (0, None)


def test_some_disparities_alone_are_those_of_a_whole_report() -> None:
    truth = ["a", "b"] * 60
    wrong = ["b" if n % 7 == 0 else label for n, label in enumerate(truth)]
    counts = evaluate(truth, wrong, sensitive=["f", "f", "m"] * 40).counts
    whole, some = (
        report_of({("sex",): counts}, draws=200, only=only) for only in (None, {"eo_gap"})
    )
    assert {one.measure for one in some.findings} == {"accuracy", "worst_group", "eo_gap"}
    for one in some.findings:
        (same,) = whole.find(one.measure)
        assert one.value == same.value
    # Limits are drawn, so they differ a little; those without draws are the same.
    assert some.find("accuracy")[0] == whole.find("accuracy")[0]
    assert report_of({("sex",): counts}, draws=200, only={"eer"}).find("eo_gap") == ()
