from __future__ import annotations

from typing import Any

import pytest

from faircil.report import group_runs
from run_summaries import make_run


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
