from __future__ import annotations

import pytest

from faircil.results.record import GroupWeights, WeightRecord
from faircil_lab.paper.weights import (
    WeightedEpoch,
    average_groups,
    compared,
    value_less_value,
    worse_gets_more,
    worse_less_better,
)


def epoch(*groups: tuple[int, int, float, float], task: int = 2) -> WeightedEpoch:
    """Make an epoch of groups given as class, attribute value, mean weight, loss."""
    made = tuple(GroupWeights(label, value, 10, mean, loss) for label, value, mean, loss in groups)
    return WeightedEpoch(task, WeightRecord(1, 1, 0, 0.0, 0.0, 0.0, 0.0, made))


# The worse value of class 2 gets more, that of class 3 less.
HALF = epoch((2, 0, 0.1, 1.0), (2, 1, 0.9, 2.0), (3, 0, 0.6, 1.0), (3, 1, 0.2, 3.0))
# All get the same, which says nothing of who gets more.
TIED = epoch((2, 0, 1.0, 1.0), (2, 1, 1.0, 2.0), (3, 0, 1.0, 1.0))


def test_eer_compares_classes_and_others_the_values_of_a_class() -> None:
    eer = epoch((2, 0, 0.1, 1.0), (3, 0, 0.9, 2.0)).weights.groups
    assert [len(members) for members in compared(eer, "eer")] == [2]
    assert compared(eer, "eo") == []
    groups = HALF.weights.groups
    assert [[g.label for g in members] for members in compared(groups, "dp")] == [[2, 2], [3, 3]]


def test_how_often_and_by_how_much_the_worse_group_gets_more() -> None:
    assert worse_gets_more([HALF], "eo") == 0.5
    assert worse_less_better([HALF], "eo") == pytest.approx((0.8 - 0.4) / 2)
    assert worse_gets_more([HALF, TIED], "eo") == 0.5
    assert worse_less_better([HALF, TIED], "eo") == pytest.approx((0.8 - 0.4 + 0) / 3)


def test_of_several_groups_the_worst_must_have_the_highest_weight() -> None:
    classes = [(2, 0, 0.2, 1.0), (3, 0, 0.9, 2.0), (4, 0, 0.5, 5.0)]
    assert worse_gets_more([epoch(*classes)], "eer") == 0.0
    assert worse_less_better([epoch(*classes)], "eer") == pytest.approx(0.5 - (0.2 + 0.9) / 2)


def test_nothing_to_compare_is_no_value() -> None:
    lonely = epoch((2, 0, 0.2, 1.0))
    assert worse_gets_more([lonely], "eo") is None
    assert worse_less_better([lonely], "eo") is None
    assert value_less_value([lonely], 1, 0) is None
    assert worse_gets_more([TIED], "eo") is None


def test_values_are_compared_within_classes() -> None:
    assert value_less_value([HALF, TIED], 1, 0) == pytest.approx((0.8 - 0.4 + 0) / 3)


def test_averages_are_over_epochs_then_seeds() -> None:
    # Seed 0 has two epochs, seed 1 one: each seed counts once.
    by_seed = {
        0: [
            epoch((2, 0, 0.0, 1.0), (2, 1, 0.4, 3.0)),
            epoch((2, 0, 0.2, 2.0), (2, 1, 0.6, 1.0)),
            epoch((4, 0, 0.7, 1.0), task=3),
        ],
        1: [epoch((2, 0, 0.9, 4.0), (2, 1, 0.5, 2.0))],
    }
    first, second, other = average_groups(by_seed, "eo")
    assert (first.task, first.label, first.attribute, first.samples) == (2, 2, 0, 10)
    assert first.weight.mean == pytest.approx((0.1 + 0.9) / 2)
    assert second.weight.mean == pytest.approx((0.5 + 0.5) / 2)
    assert (first.loss, second.loss) == (pytest.approx(2.75), pytest.approx(2.0))
    assert (first.worse, second.worse) == (True, False)
    assert (other.task, other.worse, other.weight.low) == (3, False, None)
