from __future__ import annotations

from typing import Any

import pytest
from run_summaries import make_run

from faircil.report import Table, as_markdown, compare, format_value, group_runs, seed_table


def column(table: Table, name: str) -> list[str]:
    position = table.header.index(name)
    return [row[position].text + "*" * row[position].best for row in table.cells]


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


def test_best_is_the_highest_accuracy_and_the_lowest_disparity_but_no_bound() -> None:
    (table,) = compare(
        [
            make_run("finetune", accuracy=0.2, eer=0.0),
            make_run("er", accuracy=0.8, eer=0.2),
            make_run("fsw", accuracy=0.7, eer=0.1),
            make_run("joint", accuracy=0.9, eer=0.3),
        ]
    )
    assert column(table, "accuracy") == [".200", ".800*", ".700", ".900"]
    assert column(table, "eer") == [".000", ".200", ".100*", ".300"]
    assert column(table, "seeds") == ["1"] * 4


def test_nothing_is_best_alone_and_ties_share_it() -> None:
    (alone,) = compare([make_run("er"), make_run("joint")])
    assert not any(cell.best for row in alone.cells for cell in row)
    (tied,) = compare([make_run("er", accuracy=0.5), make_run("fsw", accuracy=0.5)])
    assert column(tied, "accuracy") == [".500*", ".500*"]


def test_missing_values_are_dashes_and_empty_columns_are_left_out() -> None:
    (table,) = compare([make_run("er", eo=None, dp=None), make_run("fsw", eo=0.1, dp=None)])
    assert column(table, "eo") == ["–", ".100"]
    assert "dp" not in table.header


def test_value_that_one_seed_lacks_has_no_mean() -> None:
    table = seed_table([make_run("er", eo=0.2), make_run("er", seed=1, eo=None)])
    assert column(table, "eo") == [".200", "–", "–"]


def test_seed_table() -> None:
    table = seed_table([make_run("er", accuracy=0.8), make_run("er", seed=4, accuracy=0.9)])
    assert table.title == "made, er, measure eo"
    assert column(table, "seed") == ["0", "4", "mean ± std"]
    assert column(table, "accuracy") == [".800", ".900", ".850 ± .071"]
    assert len(seed_table([make_run("er")]).cells) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, ".000"), (1.0, "1.000"), (0.9996, "1.000"), (-0.0001, ".000"), (-1.25, "−1.250")],
)
def test_format(value: float, text: str) -> None:
    assert format_value(value) == text


def test_markdown_marks_the_best_and_keeps_bars_apart() -> None:
    (table,) = compare(
        [
            make_run("er", accuracy=0.8),
            make_run("fsw", accuracy=0.7, own={"path": "a", "tasks": "x|y"}),
            make_run("fsw", accuracy=0.6, own={"path": "a", "tasks": "y|x"}),
        ]
    )
    lines = as_markdown(table).splitlines()
    assert lines[0].startswith("| method | seeds | accuracy |")
    assert lines[1] == "|" + "---|" * len(table.header)
    assert lines[2].startswith("| er | 1 | **.800** |")
    assert lines[3].startswith(r"| fsw tasks=x\|y | 1 | .700 |")
