from __future__ import annotations

import pytest

from faircil.metrics import METRICS
from faircil.report import Table, compare, legend, seed_table
from faircil.report.table import (
    chance_note,
    levelling_note,
    part_sizes,
    small_note,
    summary_note,
    too_small,
)
from run_summaries import make_run

# Class, attribute value, test samples, accuracy: F/lawyer is small, and so are nobody's totals.
GROUPS = (
    ("lawyer", "F", 4, 0.5),
    ("lawyer", "M", 60, 0.9),
    ("nurse", "F", 80, 0.9),
    ("nurse", "M", 30, 0.8),
    ("monk", "M", 3, 1.0),
)


def marked(table: Table) -> set[str]:
    return {
        name
        for name, cells in zip(table.header, zip(*table.cells, strict=True), strict=True)
        if any(cell.too_small for cell in cells)
    }


def test_metrics_rest_on_groups_classes_or_attribute_values() -> None:
    runs = [make_run("er", groups=GROUPS)]
    assert too_small(part_sizes(runs, "group")) == {"lawyer/F": 4}  # monk/M is compared with none
    assert too_small(part_sizes(runs, "class")) == {"monk": 3}
    assert too_small(part_sizes(runs, "value")) == {}
    (table,) = compare(runs)
    assert marked(table) == {"eo", "eo_gap", "eer", "eer_task"}
    assert (
        "†: rests on parts with fewer than 10 test samples, too few to judge: "
        "1 of 3 classes (monk n=3); 1 of 4 groups (lawyer/F n=4)"
    ) in legend(table).splitlines()
    assert marked(seed_table(runs)) == marked(table)


def test_fewest_samples_over_runs_count_and_ten_are_enough() -> None:
    def groups(n: int) -> list[tuple[str, str, int, float]]:
        return [("a", "F", n, 0.5), ("a", "M", 50, 0.5)]

    both = [make_run("er", groups=groups(12)), make_run("er", seed=1, groups=groups(10))]
    assert part_sizes(both, "group") == {"a/F": 10, "a/M": 50}
    assert small_note(both, list(METRICS)) == ""
    assert "a/F n=9" in small_note([*both, make_run("er", groups=groups(9))], list(METRICS))


def test_many_small_groups_are_counted_and_some_are_named() -> None:
    groups = [(f"c{number}", value, 5, 0.5) for number in range(10) for value in "FM"]
    note = small_note([make_run("er", groups=groups)], ["eo"])
    assert note.endswith("20 of 20 groups (c0/F n=5, c0/M n=5, c1/F n=5, c1/M n=5, c2/F n=5, "
                         "c2/M n=5, and 14 more)")  # fmt: skip


def test_nothing_is_said_of_runs_without_recorded_groups() -> None:
    (table,) = compare([make_run("er")])
    assert marked(table) == set()
    assert "†" not in legend(table)


def means(worst_group: float | None, eo_gap: float, final: float = 0.5) -> dict[str, float | None]:
    return {"worst_group": worst_group, "eo_gap": eo_gap, "final_accuracy": final}


def test_levelling_down_is_named_with_the_best_of_those_it_is_lower_than() -> None:
    rows = {
        "finetune": means(0.0, 0.1),
        "er": means(0.3, 0.4),
        "fsw": means(0.4, 0.3),
        "joint": means(0.8, 0.5),
    }
    note = levelling_note(rows, frozenset({"joint", "finetune"}))
    assert note.endswith(
        ": finetune against fsw in eo_gap (worst group (final) .000 against .400, accuracy (final) "
        ".500 against .500)"
    )


def test_levelling_down_of_others_than_the_worst_group_is_named() -> None:
    """The worst group is at 0 in both rows, and all others lose."""
    rows = {"er": means(0.0, 0.4, final=0.6), "fsw": means(0.0, 0.3, final=0.4)}
    assert "fsw against er in eo_gap" in levelling_note(rows, frozenset())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (means(0.5, 0.1), means(0.4, 0.3)),  # fairer, and its worst group fares better
        (means(0.5, 0.1, final=0.4), means(0.4, 0.3)),  # at a cost in accuracy
        (means(0.395, 0.1), means(0.4, 0.3)),  # hardly any difference
        (means(0.3, 0.295), means(0.4, 0.3)),
        (means(None, 0.1), means(0.4, 0.3)),
    ],
)
def test_levelling_down_is_not_claimed_without_reason(
    one: dict[str, float | None], other: dict[str, float | None]
) -> None:
    assert levelling_note({"one": one, "other": other}, frozenset()) == ""


def test_model_at_chance_is_named_and_its_disparity_is_not_the_best() -> None:
    groups = [("a", "F", 50, 1.0), ("a", "M", 50, 1.0), ("b", "F", 50, 0.0), ("b", "M", 50, 0.0)]
    runs = [
        make_run(method, seed=seed, groups=groups, final_accuracy=final, eo_gap=gap + seed / 1000)
        for method, final, gap in (("constant", 0.5, 0.0), ("er", 0.8, 0.2), ("fsw", 0.8, 0.1))
        for seed in range(8)
    ]
    (table,) = compare(runs)
    gap = [row[table.header.index("eo_gap")] for row in table.cells]
    assert [cell.best for cell in gap] == [False, False, True]
    assert legend(table).splitlines()[-1].endswith("always predicting one class): constant (.500)")
    assert chance_note({}, []) == ""


def test_what_is_a_mean_and_what_is_final_is_said() -> None:
    assert summary_note(["accuracy", "final_accuracy", "eo"]) == (
        "accuracy (final): after the last task; all other metrics: mean over tasks"
    )
    assert summary_note(["accuracy"]) == ""
