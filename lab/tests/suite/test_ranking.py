from __future__ import annotations

import pytest

from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.ranking import PLAIN_ROW, better_than, places, standings
from suite_rows import STREAM, SUITE, made_row


def test_rows_that_no_test_tells_apart_share_a_rank() -> None:
    noisy = {seed: 0.8 + 0.03 * (-1) ** seed for seed in range(5)}
    columns = {
        "good": {seed: 0.8 + 0.001 * seed for seed in range(5)},
        "as good": noisy,
        "bad": {seed: 0.5 + 0.0011 * seed for seed in range(5)},
        "two seeds": {0: 0.1, 1: 0.1},
    }
    found = better_than(columns, True)
    assert found["bad"] == {"good", "as good"}
    assert found["good"] == found["as good"] == found["two seeds"] == set()
    assert better_than(columns, False)["good"] == {"bad"}


def test_ranks_count_who_is_significantly_better() -> None:
    rows = [
        made_row(PLAIN_ROW, 0.8, 0.2, 0.4),
        made_row("fairer", 0.8, 0.1, 0.6),
        made_row("bound", 0.99, 0.01, 0.9, reference=True),
        made_row("costly", 0.99, 0.01, 0.9, other_budget="epochs=500"),
    ]
    found = standings(rows, STREAM, SUITE.seeds)
    assert found["fairer"].ranks["disparity"] == 1
    assert found[PLAIN_ROW].ranks == {"final_accuracy": 1, "disparity": 2, "worst_group": 2}
    assert found[PLAIN_ROW].dominated == {"fairer"}
    assert found["bound"].ranks == found["costly"].ranks == {}


def test_levelling_down_takes_the_last_rank_and_beats_nobody() -> None:
    rows = [
        made_row(PLAIN_ROW, 0.8, 0.2, 0.4),
        made_row("levels", 0.7, 0.05, 0.3),
        made_row("fair", 0.8, 0.1, 0.5),
    ]
    found = standings(rows, STREAM, SUITE.seeds)
    assert found["levels"].levelled
    assert not found["fair"].levelled
    assert found["levels"].ranks["disparity"] == 3
    assert found["fair"].ranks["disparity"] == 1
    assert found[PLAIN_ROW].dominated == {"fair"}
    assert found["levels"].dominated == {PLAIN_ROW, "fair"}


def test_a_model_at_chance_is_not_fair() -> None:
    rows = [made_row(PLAIN_ROW, 0.8, 0.2, 0.4), made_row("chance", 0.25, 0.0, 0.0)]
    found = standings(rows, STREAM, SUITE.seeds)["chance"]
    assert found.at_chance
    assert found.ranks["disparity"] == 2


def test_a_row_without_all_seeds_is_not_ranked() -> None:
    found = standings([made_row("some", seeds=(0, 1, 2))], STREAM, SUITE.seeds)
    assert found["some"].ranks == {}


@pytest.mark.parametrize("weak", ["accuracy", "disparity", "worst"])
def test_the_order_is_by_the_weakest_side(weak: str) -> None:
    sides = {"accuracy": 0.9, "disparity": 0.1, "worst": 0.6}
    low = {"accuracy": 0.6, "disparity": 0.3, "worst": 0.2}
    rows = [
        made_row("one-sided", **(sides | {weak: low[weak]})),
        made_row("balanced", accuracy=0.85, disparity=0.15, worst=0.5),
        made_row("weak", 0.65, 0.25, 0.3),
    ]
    found = places(rows, SUITE, {STREAM.dataset: standings(rows, STREAM, SUITE.seeds)})
    assert [place.name for place in found] == ["balanced", "one-sided", "weak"]


def test_only_core_streams_count_and_incomplete_rows_come_last() -> None:
    extra = SuiteStream("toy", "extra", "points", "eer", (1, 2, 0, 0), ("",), "", core=False)
    suite = Suite("two", 1, (STREAM, extra), SUITE.seeds)
    rows = [made_row("partial", seeds=(0,)), made_row("whole")]
    by_stream = {STREAM.dataset: standings(rows, STREAM, suite.seeds), "toy": {}}
    found = places(rows, suite, by_stream)
    assert [place.name for place in found] == ["whole", "partial"]
    assert found[0].means
    assert not found[1].means
