from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from faircil.report import sentences
from faircil.report.comparison import Row
from faircil.report.study import Method, Study
from faircil.results.over_time import Timeline, timeline_of
from faircil.results.record import EpochRecord, GroupWeights, Names, WeightRecord
from run_summaries import make_run

NO_NAMES = Names(())


def method(name: str, style: int = 0, seeds: int = 5, **values: Sequence[float] | float) -> Method:
    """Make a method; a sequence gives a value for each seed."""
    runs = tuple(
        make_run(
            name,
            seed=seed,
            **{k: v if isinstance(v, float) else v[seed] for k, v in values.items()},
        )
        for seed in range(seeds)
    )
    return Method(Row(name, runs), style, (), (), NO_NAMES, {})


def study(*methods: Method) -> Study:
    return Study("made", "", methods, "eo_gap")


NEAR = np.array([0.0, 0.001, 0.002, -0.001, 0.0015])
REPLAY = {
    "final_accuracy": [0.6] * 5,
    "worst_group": [0.3] * 5,
    "eo_gap": [0.3] * 5,
}


def shifted(**by: float) -> Mapping[str, list[float]]:
    """Values of replay, moved by so much and a little noise."""
    return {name: [*(np.array(REPLAY[name]) + by.get(name, 0.0) + NEAR)] for name in REPLAY}


def verdicts(found: Study) -> dict[str, str]:
    return {one.metric: one.verdict for one in found.differences}


def test_better_worse_and_open() -> None:
    other = method("fsw", **shifted(worst_group=0.2, final_accuracy=-0.1))
    found = study(method("er", **REPLAY), other)
    assert verdicts(found) == {"final_accuracy": "worse", "worst_group": "better", "eo_gap": "open"}
    (text,) = sentences.helped(found)
    assert "better in the accuracy of the worst group, but <strong>worse in the accuracy" in text


def test_a_method_that_made_things_worse_is_named() -> None:
    found = study(method("er", **REPLAY), method("fsw", **shifted(eo_gap=0.1)))
    (text,) = sentences.helped(found)
    assert "<strong><bdi>fsw</bdi> made things worse</strong>" in text
    assert "the gap between groups" in text
    # A run says so, too, on the terminal.
    (line,) = sentences.helped_as_text(found)
    assert line == "fsw made things worse than er: the gap between groups."
    odd = study(method("er", **REPLAY), method("<b>&", **shifted(eo_gap=0.1)))
    assert sentences.helped_as_text(odd)[0].startswith("<b>& made things worse than er")
    assert sentences.helped_as_text(study(method("fsw", **shifted()))) == []


def test_two_seeds_tell_nothing() -> None:
    two = {name: values[:2] for name, values in shifted(eo_gap=-0.2).items()}
    base = {name: values[:2] for name, values in REPLAY.items()}
    found = study(method("er", seeds=2, **base), method("fsw", seeds=2, **two))
    assert set(verdicts(found).values()) == {"open"}
    assert "cannot tell whether" in sentences.helped(found)[0]
    assert "2 common runs cannot show whether a difference is due to chance" in sentences.few_seeds(
        found
    )


def test_levelling_down_is_named() -> None:
    lower = shifted(eo_gap=-0.2, worst_group=-0.05, final_accuracy=-0.2)
    found = study(method("er", **REPLAY), method("fsw", **lower))
    (gap,) = [one for one in found.differences if one.metric == "eo_gap"]
    assert gap.levelled
    assert "levelled down" in sentences.changed(gap)


def test_without_replay_nothing_is_compared() -> None:
    found = study(method("fsw", **REPLAY), method("moments", **REPLAY))
    assert found.baseline is None
    assert found.differences == ()


def test_front_leaves_out_what_is_beaten_in_both_and_references() -> None:
    points = {"er": (0.6, 0.3), "fsw": (0.65, 0.2), "moments": (0.6, 0.05), "joint": (0.9, 0.01)}
    made = [method(name, final_accuracy=a, eo_gap=d) for name, (a, d) in points.items()]
    found = study(*made)
    assert found.front == {"fsw", "moments"}
    assert "Others are better than <bdi>er</bdi> in both" in sentences.traded(found)


def test_intervals_stay_within_what_a_metric_can_be() -> None:
    found = method("er", seeds=2, worst_group=[0.0, 0.3]).interval("worst_group")
    assert found is not None
    assert (found.low, found.high) == (0.0, 1.0)


def timeline(order: Sequence[str], right: int) -> Timeline:
    """Two tasks of a class each, ten samples of both groups; some of the first are lost."""
    first, second = order
    truth, values = [first] * 20, ["f", "m"] * 10
    later = [first if place >= right else second for place in range(20)]
    return timeline_of(
        [
            {"y_true": truth, "y_pred": truth, "task": [1] * 20, "sensitive": values},
            {
                "y_true": truth + [second] * 20,
                "y_pred": later + [second] * 20,
                "task": [1] * 20 + [2] * 20,
                "sensitive": values * 2,
            },
        ]
    )


def test_groups_are_means_over_seeds() -> None:
    made = replace(method("er", seeds=2), timelines=(timeline("ab", 0), timeline("ab", 10)))
    a_f, a_m, b_f, b_m = made.groups
    assert [one.name for one in (a_f, a_m, b_f, b_m)] == ["a, f", "a, m", "b, f", "b, m"]
    assert a_f.path == (1.0, 0.75)
    assert a_f.lost == 0.25
    assert b_f.lost is None
    assert b_f.path == (None, 1.0)
    assert "from 100.0\u202f% at its best to 75.0\u202f% at the end" in sentences.forgotten(made)


def test_where_the_order_of_classes_differs_one_seed_is_followed() -> None:
    made = replace(method("er", seeds=2), timelines=(timeline("ab", 0), timeline("ba", 10)))
    assert made.followed == made.timelines[:1]
    assert made.groups[0].lost == 0.0


def epoch(task: int, number: int, means: Sequence[float]) -> EpochRecord:
    groups = tuple(
        GroupWeights(2 * (task - 1) + place // 2, place % 2, 10, mean, 0.1)
        for place, mean in enumerate(means)
    )
    weights = WeightRecord(1, 1, 0, 0.5, 0.5, 0.1, 0.1, groups)
    return EpochRecord(task, number, 20, 20, 1, 0.1, weights)


def test_weights_are_means_over_epochs_of_a_task() -> None:
    made = replace(
        method("fsw", seeds=1),
        epochs=(epoch(2, 1, [1.0, 0.5]), epoch(2, 2, [0.5, 0.5])),
        names=Names(("a", "b", "c", "d"), None, ("f", "m")),
    )
    assert [(one.name, one.weights) for one in made.weights] == [
        ("c, f", (None, 0.75)),
        ("c, m", (None, 0.5)),
    ]
    assert "<bdi>c, m</bdi> is held back most (0.50)" in sentences.weighed(made)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        ([[0.1, np.nan], [0.3, 0.2]], "an earlier task is worse by 20.0\xa0points (fairness"),
        ([[0.3, np.nan], [0.1, 0.2]], "have improved by 20.0\xa0points"),
        ([[0.1, np.nan], [0.1, 0.2]], "as good as at their best"),
        ([[np.nan, np.nan], [np.nan, 0.2]], "is unknown"),
    ],
)
def test_what_later_tasks_did(matrix: Sequence[Sequence[float]], text: str) -> None:
    assert text in sentences.moved(np.array(matrix), "eo_gap")
