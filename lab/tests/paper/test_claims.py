from __future__ import annotations

from dataclasses import replace

from faircil_lab.paper.claims import Pair, claims_of, claims_section, findings_of, summaries_of
from faircil_lab.paper.contenders import Entry
from faircil_lab.paper.metrics import Target
from made_tables import MNIST, TABLE
from run_summaries import make_run

PAIRS = (Pair("FSW", "replay"), Pair("FSW", "replay, random weights"), Pair("FSW", "nobody"))


def entry(position: int, *values: float, diverged: int = 0) -> Entry:
    runs = [make_run("m", seed=s, accuracy=1 - v, eer_task=v) for s, v in enumerate(values)]
    contender = TABLE.rows[position].contender
    return Entry(contender, tuple(runs), "faircil run", diverged=diverged)


ENTRIES = [
    entry(1, 0.10, 0.11, 0.12, 0.13),
    entry(2, 0.20, 0.212, 0.221, 0.23),
    entry(3, 0.10, 0.09, 0.13, 0.12),
]


def test_pairs_are_tested_metric_by_metric_and_unknown_rows_left_out():
    claims = claims_of(MNIST, ENTRIES, PAIRS)
    found = {(claim.pair.right, claim.metric): claim for claim in claims}
    assert len(found) == len(claims) == 4
    assert found["replay", "eer_task"].reading == "better"
    assert found["replay", "accuracy"].reading == "better"
    assert found["replay, random weights", "eer_task"].reading == "not significantly different"


def test_p_values_are_corrected_for_the_pairs_of_a_metric():
    both = claims_of(MNIST, ENTRIES, PAIRS)
    alone = claims_of(MNIST, ENTRIES, PAIRS[:1])
    raw = next(claim.p_value for claim in alone if claim.metric == "eer_task")
    corrected = next(c.p_value for c in both if (c.metric, c.pair) == ("eer_task", PAIRS[0]))
    assert corrected == 2 * raw


def test_the_other_way_round_is_worse():
    claims = claims_of(MNIST, ENTRIES, [Pair("replay", "FSW")])
    assert {claim.reading for claim in claims} == {"worse"}
    assert summaries_of(claims, [Pair("replay", "FSW")]) == [
        "replay against FSW: disparity better on 0 of 1, worse on 1; "
        "accuracy better on 0 of 1, worse on 1."
    ]
    assert findings_of(claims, [Pair("replay", "FSW")]) == [
        "**replay against FSW**: disparity is worse on MNIST (EER); "
        "accuracy is worse on MNIST (EER)."
    ]


def test_one_common_seed_shows_nothing():
    assert claims_of(MNIST, [entry(1, 0.1), entry(2, 0.2, 0.3)], PAIRS) == []
    assert findings_of([], PAIRS) == []


def test_a_row_has_difference_interval_and_p():
    table = claims_section(claims_of(MNIST, ENTRIES, PAIRS)).table
    assert table is not None
    first = table.rows[0]
    assert first[:4] == ("FSW − replay", "MNIST (EER)", "accuracy", "+.101")
    assert first[4].startswith("+.09")


def test_a_method_with_a_diverged_seed_is_not_judged_on_the_others():
    """Four seeds far better than replay do not make up for the fifth."""
    lost = entry(1, 0.01, 0.011, 0.012, 0.013, diverged=1)
    claims = claims_of(MNIST, [lost, *ENTRIES[1:]], PAIRS[:1])
    assert {claim.reading for claim in claims} == {"not compared: a seed diverged"}
    assert summaries_of(claims, PAIRS[:1]) == [
        "FSW against replay: disparity better on 0 of 1, worse on 0, not compared on 1 (a seed "
        "diverged); accuracy better on 0 of 1, worse on 0, not compared on 1 (a seed diverged)."
    ]


def test_a_dataset_that_ranks_nothing_is_shown_and_not_counted():
    drug = replace(MNIST, target=Target("drug", "eo"))
    claims = [*claims_of(MNIST, ENTRIES, PAIRS[:1]), *claims_of(drug, ENTRIES, PAIRS[:1])]
    (summary,) = summaries_of(claims, PAIRS[:1])
    assert "disparity better on 1 of 1" in summary
    assert "DRUG" not in findings_of(claims, PAIRS[:1])[0]
    table = claims_section(claims).table
    assert table is not None
    assert [row[-1] for row in table.rows if row[1] == "DRUG (EO)"] == ["better; not counted"] * 2
