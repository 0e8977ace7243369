from __future__ import annotations

from faircil_lab.paper.table import Line, Pair
from faircil_lab.paper.table_page import claim_grid, claims_of, findings_of, summaries_of
from made_tables import MNIST, TABLE
from run_summaries import make_run

PAIRS = (Pair("FSW", "replay"), Pair("FSW", "replay, random weights"), Pair("FSW", "nobody"))


def line(position: int, *values: float) -> Line:
    runs = [make_run("m", seed=s, accuracy=1 - v, eer_task=v) for s, v in enumerate(values)]
    return Line(TABLE.rows[position], tuple(runs), "faircil run")


LINES = [
    line(1, 0.10, 0.11, 0.12, 0.13),
    line(2, 0.20, 0.212, 0.221, 0.23),
    line(3, 0.10, 0.09, 0.13, 0.12),
]


def test_pairs_are_tested_metric_by_metric_and_unknown_rows_left_out():
    claims = claims_of(MNIST, LINES, PAIRS)
    found = {(claim.pair.right, claim.metric): claim for claim in claims}
    assert len(found) == len(claims) == 4
    assert found["replay", "eer_task"].reading == "better"
    assert found["replay", "accuracy"].reading == "better"
    assert found["replay, random weights", "eer_task"].reading == "not told apart"


def test_p_values_are_corrected_for_the_pairs_of_a_metric():
    both = claims_of(MNIST, LINES, PAIRS)
    alone = claims_of(MNIST, LINES, PAIRS[:1])
    raw = next(claim.p_value for claim in alone if claim.metric == "eer_task")
    corrected = next(c.p_value for c in both if (c.metric, c.pair) == ("eer_task", PAIRS[0]))
    assert corrected == 2 * raw


def test_the_other_way_round_is_worse():
    claims = claims_of(MNIST, LINES, [Pair("replay", "FSW")])
    assert {claim.reading for claim in claims} == {"worse"}
    assert summaries_of(claims, [Pair("replay", "FSW")]) == [
        "replay against FSW: disparity better on 0 of 1, worse on 1; "
        "accuracy better on 0 of 1, worse on 1."
    ]
    assert findings_of(claims, [Pair("replay", "FSW")]) == [
        "**replay against FSW**: disparity is worse on MNIST (EER); "
        "accuracy is worse on MNIST (EER)."
    ]


def test_one_common_seed_tells_nothing():
    assert claims_of(MNIST, [line(1, 0.1), line(2, 0.2, 0.3)], PAIRS) == []
    assert findings_of([], PAIRS) == []


def test_a_row_has_difference_interval_and_p():
    first = claim_grid(claims_of(MNIST, LINES, PAIRS)).rows[0]
    assert first[:4] == ("FSW − replay", "MNIST (EER)", "accuracy", "+.101")
    assert first[4].startswith("+.09")
