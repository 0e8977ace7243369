from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.results.folder import write_run
from faircil.results.record import EpochRecord, GroupWeights, RunSummary, WeightRecord
from faircil.sweep.work import Work
from faircil_lab.paper import weights_page
from faircil_lab.paper.exhibit import Page, Verdict
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.weights import (
    WeightedEpoch,
    average_groups,
    compared,
    value_less_value,
    worse_gets_more,
    worse_less_better,
)
from faircil_lab.paper.weights_page import Weights
from figure_runs import results_of
from run_results import make_result

Groups = Callable[[int], tuple[GroupWeights, ...]]
TARGETS = (Target("biased-mnist", "eo"), Target("biasbios", "eo"))


def weights_of_worse(seed: int) -> tuple[GroupWeights, ...]:
    """Own and other colours of class c; weights differ a little from seed to seed."""
    other = 0.6 + 0.01 * seed
    return (GroupWeights(2, 0, 100, 0.1, 1.0), GroupWeights(2, 1, 10, other, 2.0))


def worse_gets_less(seed: int) -> tuple[GroupWeights, ...]:
    return (GroupWeights(2, 0, 100, 0.7 + 0.01 * seed, 1.0), GroupWeights(2, 1, 10, 0.2, 2.0))


def no_groups(seed: int) -> tuple[GroupWeights, ...]:
    return ()


def written(folder: Path, work: Work, groups: Groups, dropped: int = 8970) -> RunSummary:
    """Write a run of two tasks, the second weighted in two epochs."""
    config = work.config.model_dump(mode="json")
    result = make_result(work.seed, **config)
    record = WeightRecord(2860, dropped - work.seed, 2, 0, 0, 0, 0, groups(work.seed))
    epochs = (
        result.epochs[0],
        EpochRecord(2, 1, 11832, 2862, 45, 0.1, record),
        EpochRecord(2, 2, 11832, 2862, 45, 0.1, replace(record, kept=2858)),
    )
    return write_run(folder / str(work.seed), replace(result, epochs=epochs), {})


@pytest.fixture
def page_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    monkeypatch.setattr(weights_page, "TARGETS", TARGETS)

    def make(groups: Groups, seeds: tuple[int, ...] = (0, 1, 2), dropped: int = 8970) -> Page:
        exhibit = Weights(settings="shipped", seeds=seeds)
        results = results_of(exhibit, lambda work: written(tmp_path, work, groups, dropped))
        return exhibit.page(results)

    return make


def rows(page: Page, section: int) -> list[tuple[str, ...]]:
    table = page.sections[section].table
    assert table is not None
    return list(table.rows)


def test_counts_stand_beside_the_published_ones(page_of: Callable[..., Page]) -> None:
    page = page_of(weights_of_worse)
    binary, others, kept, *absent = rows(page, 0)
    assert binary[2:4] == ("11,831.9", "11,828.0 ± 1.0")
    assert binary[-1] == "different"
    assert others[1:] == ("weights between 0 and 1", "1.9", "2.0 ± 0.0", "+0.1", "different")
    assert kept[1:] == (
        "samples with a weight above 0",
        "2,863.4",
        "2,861.0 ± 0.0",
        "−2.4",
        "different",
    )
    assert [row[-1] for row in absent] == ["not run: files absent"] * 2 + ["–"]


def test_a_count_within_the_interval_is_the_same(page_of: Callable[..., Page]) -> None:
    page = page_of(weights_of_worse, seeds=(0, 1, 2, 3, 4), dropped=8974)
    binary, *_ = rows(page, 0)
    assert binary[3:] == ("11,831.0 ± 1.6", "−0.9", "same")


def test_the_worse_group_gets_more(page_of: Callable[..., Page]) -> None:
    page = page_of(weights_of_worse)
    by_loss, by_colour, absent = rows(page, 1)
    assert by_loss[1:4] == ("mean weight, worse less better (above 0 in 100 %)", "above 0", ".510")
    assert (by_loss[-1], by_colour[-1]) == ("same", "same")
    assert absent[-1] == "not run: files absent"
    assert page.answer.startswith("The worse group gets the higher mean weight in 1 of 1")
    assert "at most 2.0 per optimisation" in page.answer


def test_a_claim_that_fails_is_said_to(page_of: Callable[..., Page]) -> None:
    page = page_of(worse_gets_less)
    by_loss, by_colour, _ = rows(page, 1)
    assert (by_loss[-1], by_colour[-1]) == ("different", "different")
    assert page.answer.startswith("The worse group gets the higher mean weight in 0 of 1")
    assert Verdict.SAME not in page.verdicts


def test_one_seed_proves_no_claim(page_of: Callable[..., Page]) -> None:
    page = page_of(weights_of_worse, seeds=(0,))
    by_loss, *_ = rows(page, 1)
    assert by_loss[-1] == "undefined with one seed"
    assert page.answer == "Nearly all weights are 0 or 1: at most 2.0 per optimisation are not."


def test_many_partial_weights_are_not_called_few(page_of: Callable[..., Page]) -> None:
    # 2 of some 62 are between 0 and 1.
    answer = page_of(weights_of_worse, dropped=-2800).answer
    assert answer.endswith("Up to 2.0 weights per optimisation are neither 0 nor 1.")


def test_groups_are_shown_task_by_task(page_of: Callable[..., Page], tmp_path: Path) -> None:
    page = page_of(weights_of_worse)
    section = page.sections[2]
    assert rows(page, 2) == [
        ("2", "c", "F", "100", ".100", "1.000"),
        ("2", "c", "M", "10", ".610", "2.000"),
    ]
    assert section.commands == (
        "faircil run --dataset biased-mnist --method fsw --measure eo --seeds 0-2",
    )
    assert section.picture is not None
    section.picture.draw(tmp_path / "weights.png")
    assert (tmp_path / "weights.png").stat().st_size > 5000
    assert page.sections[3].text == "Not run: files absent (all)."


def test_runs_without_groups_are_named(page_of: Callable[..., Page]) -> None:
    page = page_of(no_groups)
    assert page.sections[2].text.startswith("An earlier version wrote these runs")
    assert rows(page, 1)[0][-1].startswith("not run")


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
