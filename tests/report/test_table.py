from __future__ import annotations

from typing import Any

import pytest

from faircil.errors import DataError
from faircil.metrics import METRICS
from faircil.moments import Price
from faircil.report import (
    Cell,
    Table,
    as_markdown,
    compare,
    format_value,
    group_runs,
    legend,
    seed_table,
)
from faircil.report.table import (
    chance_note,
    group_name,
    levelling_note,
    part_sizes,
    price_note,
    small_note,
    summary_note,
    too_small,
)
from faircil.results.record import Names
from run_summaries import make_run

PROVEN, OPEN, PLAIN = Cell(".9", best=True), Cell(".8", among_best=True), Cell(".7")
TEST = "(paired t-test over at least 3 common seeds, Holm, 5 %)"
AMONG = "°: the best mean and the next ones, down to the first that is significantly worse"


def table(*cells: Cell, ranked: bool = True) -> Table:
    return Table("numbers", ("method", "accuracy"), tuple((Cell("er"), c) for c in cells), ranked)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, ".000"), (1.0, "1.000"), (0.9996, "1.000"), (-0.0001, ".000"), (-1.25, "−1.250")],
)
def test_format(value: float, text: str) -> None:
    assert format_value(value) == text


def test_markdown_marks_values_and_keeps_bars_apart() -> None:
    bars = Table("numbers", ("method",), ((Cell("fsw tasks=x|y"),),))
    assert as_markdown(table(PROVEN, OPEN, PLAIN)).splitlines() == [
        "| method | accuracy |", "|---|---|", "| er | **.9** |", "| er | .8 ° |", "| er | .7 |",
    ]  # fmt: skip
    assert as_markdown(bars).splitlines()[2] == r"| fsw tasks=x\|y |"


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([PROVEN, PLAIN], f"bold: significantly better than all others {TEST}"),
        ([OPEN, PLAIN], f"{AMONG} {TEST}"),
        (
            [PROVEN, OPEN],
            f"bold: significantly better than all others; {AMONG} {TEST}",
        ),
        (
            [PLAIN, PLAIN],
            "nothing is marked: methods are tested only over 3 or more common seeds",
        ),
    ],
)
def test_legend_explains_the_marks_that_are_there(cells: list[Cell], text: str) -> None:
    assert legend(table(*cells)) == text


def test_legend_names_the_mark_of_the_best() -> None:
    assert legend(table(PROVEN), best="*").startswith("*: significantly better than all others")


def test_table_that_ranks_nothing_has_no_legend() -> None:
    assert legend(table(PLAIN, ranked=False)) == ""


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (
            Price(False, 0.21, 0.012, 0.006, 0.25, 0.214, 0.008),
            "disparity of losses .012 at mean loss .210; evening out further, with lam=0.25, would "
            "leave .008 and change the mean loss to .214",
        ),
        (
            Price(False, 0.21, 0.012, 0.0, 0.25, 0.21, 0.012),
            "disparity of losses .012 at mean loss .210: within its standard errors, so it is not "
            "evened out further",
        ),
        (
            Price(True, 0.21, 0.4, 0.39, 0.25, 0.21, 0.4),
            "largest loss of a group .400 at mean loss .210: a smaller lam does not make it "
            "smaller",
        ),
    ],
)
def test_what_more_evenness_costs_is_said_in_words(price: Price, expected: str) -> None:
    assert price_note(price) == expected


def test_names_from_data_are_plain_text_in_markdown() -> None:
    hostile = "<script>|[x](javascript:y)\\\n# no heading\x1b[31m"
    text = as_markdown(Table("t", (hostile,), ((Cell(hostile),), (Cell(hostile, best=True),))))
    shown = "&lt;script>\\|\\[x\\](javascript:y)\\\\ # no heading\ufffd\\[31m"
    assert text == f"| {shown} |\n|---|\n| {shown} |\n| **{shown}** |\n"


def test_groups_beyond_the_names_of_a_run_are_refused() -> None:
    names = Names(("a", "b"), attribute_values=("f", "m"))
    assert group_name(1, (0,), names) == "b, f"
    with pytest.raises(DataError, match=r"names 2 classes and 2 .* numbers 1, 7: its files were"):
        group_name(1, (7,), names)


def test_seeds_of_a_configuration_share_a_row() -> None:
    runs = [make_run("er", seed=1), make_run("fsw"), make_run("er", seed=0)]
    rows = group_runs(runs)
    assert [(row.name, [run.seed for run in row.runs]) for row in rows] == [
        ("er", [0, 1]),
        ("fsw", [0]),
    ]


def test_copy_of_a_run_does_not_count_twice() -> None:
    (row,) = group_runs([make_run("er"), make_run("er")])
    assert len(row.runs) == 1


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{"lam": 0.1}, {"lam": 1}], ["fsw lam=0.1", "fsw lam=1"]),
        ([{"hidden": [4]}, {"hidden": [8, 8]}], ["fsw hidden=4", "fsw hidden=8,8"]),
        ([{"floor": True}, {"floor": False}], ["fsw floor=true", "fsw floor=false"]),
        ([{"measure": "eo"}, {"measure": "dp"}], ["fsw eo", "fsw dp"]),
        ([{"code": "old"}, {"code": "new"}], ["fsw code=old", "fsw code=new"]),
        (
            [{"own": {"path": "a.csv", "tasks": "x|y"}}, {"own": {"path": "a.csv", "tasks": None}}],
            ["fsw tasks=x|y", "fsw tasks=None"],
        ),
        (
            [{"data_sha256": "0123456789"}, {"data_sha256": "abcdefghij"}],
            ["fsw content=01234567", "fsw content=abcdefgh"],
        ),
    ],
)
def test_name_says_what_differs(changes: list[dict[str, Any]], names: list[str]) -> None:
    rows = group_runs([make_run("fsw", **change) for change in changes] + [make_run("er")])
    assert [row.name for row in rows] == [*names, "er"]


def test_names_need_differ_on_one_dataset_only() -> None:
    rows = group_runs([make_run("fsw", lam=1), make_run("fsw", dataset="other", lam=2)])
    assert [row.name for row in rows] == ["fsw", "fsw"]


SAME, OTHER = "0123456789", "abcdefghij"


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{"encoder": "a"}, {"encoder": "a"}], ["er", "fsw"]),
        ([{"encoder": "a"}, {"encoder": "b"}], ["er encoder=a", "fsw encoder=b"]),
        (
            [
                {"encoder": "a", "encoder_sha256": SAME},
                {"encoder": "b", "encoder_sha256": OTHER},
            ],
            ["er encoder=a", "fsw encoder=b"],
        ),
        (
            [
                {"encoder": "a", "encoder_sha256": SAME},
                {"encoder": "a", "encoder_sha256": OTHER},
            ],
            ["er encoder content=01234567", "fsw encoder content=abcdefgh"],
        ),
        ([{"finetune": True}, {"finetune": False}], ["er finetune=true", "fsw finetune=false"]),
    ],
)
def test_methods_on_other_encoders_say_so(changes: list[dict[str, Any]], names: list[str]) -> None:
    runs = [make_run(label, **change) for label, change in zip(("er", "fsw"), changes, strict=True)]
    assert [row.name for row in group_runs(runs)] == names


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
