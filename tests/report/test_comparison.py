from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from faircil.metrics import METRICS
from faircil.report import Table, compare, heading, legend, seed_table
from faircil.results.record import RunSummary
from run_summaries import make_run

# Five seeds that move all methods alike: what differs between methods is not the seed.
SHARED = (0.00, 0.03, -0.02, 0.05, 0.01)
NOISE = (0.001, -0.002, 0.0005, 0.001, 0.002)


def column(table: Table, name: str) -> list[str]:
    position = table.header.index(heading(name) if name in METRICS else name)
    return [
        cell.text + "*" * cell.best + "°" * cell.among_best
        for cell in (row[position] for row in table.cells)
    ]


def marks(table: Table, name: str) -> str:
    """Return the mark of each row, a space where there is none."""
    return "".join(text[-1] if text[-1] in "*°" else " " for text in column(table, name))


def runs_of(label: str, seeds: Sequence[int] = range(5), **means: float) -> list[RunSummary]:
    """Make runs whose values scatter around the means: much by seed, little by method."""
    own = sum(map(ord, label))
    values = [
        {k: mean + SHARED[s % 5] + NOISE[(s + own) % 5] for k, mean in means.items()} for s in seeds
    ]
    return [make_run(label, seed=s, **v) for s, v in zip(seeds, values, strict=True)]


def unmarked(table: Table) -> bool:
    return not any(cell.best or cell.among_best for row in table.cells for cell in row)


def test_best_is_the_highest_accuracy_and_the_lowest_disparity_but_no_bound() -> None:
    (table,) = compare(
        [
            *runs_of("finetune", accuracy=0.2, eer=0.0),
            *runs_of("er", accuracy=0.8, eer=0.2),
            *runs_of("fsw", accuracy=0.7, eer=0.1),
            *runs_of("joint", accuracy=0.9, eer=0.3),
        ]
    )
    assert marks(table, "accuracy") == " *  "
    assert marks(table, "eer") == "  * "
    assert marks(table, "steps") == marks(table, "seconds") == "    "
    assert column(table, "seeds") == ["5"] * 4


def test_bound_stays_a_bound_with_post_processing() -> None:
    bound = [replace(run, label="joint+eps-fair") for run in runs_of("joint", accuracy=0.9)]
    (table,) = compare([*bound, *runs_of("er", accuracy=0.8), *runs_of("fsw", accuracy=0.7)])
    assert marks(table, "accuracy") == " * "


def test_those_not_significantly_worse_than_the_best_mean_share_a_mark() -> None:
    (table,) = compare(
        [
            *runs_of("er", accuracy=0.8),
            *runs_of("fsw", accuracy=0.8005),
            *runs_of("gss", accuracy=0.7),
        ]
    )
    assert marks(table, "accuracy") == "°° "


def test_seeds_are_paired() -> None:
    """The deviation over seeds is ten times the difference, which is the same on every seed."""
    (table,) = compare([*runs_of("er", accuracy=0.80), *runs_of("fsw", accuracy=0.81)])
    assert marks(table, "accuracy") == " *"
    (lower,) = compare([*runs_of("er", eer=0.20), *runs_of("fsw", eer=0.21)])
    assert marks(lower, "eer") == "* "


def test_rows_with_other_seeds_are_compared_over_common_seeds() -> None:
    best = runs_of("er", accuracy=0.9)
    (some,) = compare([*best, *runs_of("fsw", seeds=range(1, 4), accuracy=0.5)])
    assert marks(some, "accuracy") == "* "
    (others,) = compare([*best, *runs_of("fsw", seeds=range(4, 9), accuracy=0.5)])
    assert unmarked(others)


def test_one_run_keeps_the_others_from_being_proven_best() -> None:
    one = runs_of("gss", seeds=[0], accuracy=0.95)
    (table,) = compare([*runs_of("er", accuracy=0.9), *runs_of("fsw", accuracy=0.5), *one])
    assert marks(table, "accuracy") == "° °"


def test_one_seed_tells_nothing_and_the_legend_says_so() -> None:
    (table,) = compare([make_run("er", accuracy=0.9), make_run("fsw", accuracy=0.1)])
    assert unmarked(table)
    assert "3 or more common seeds" in legend(table)


def test_nothing_is_best_alone() -> None:
    (alone,) = compare([*runs_of("er", accuracy=0.5), *runs_of("joint", accuracy=0.1)])
    assert unmarked(alone)
    assert "marked" not in legend(alone)


def test_value_that_one_seed_lacks_takes_no_part() -> None:
    gaps: list[Any] = [0.1, 0.2, None]
    partly = [make_run("gss", seed=seed, eo=eo) for seed, eo in enumerate(gaps)]
    (table,) = compare([*partly, *runs_of("er", eo=0.3), *runs_of("fsw", eo=0.4)])
    assert marks(table, "eo") == " * "


def test_other_data_is_another_table() -> None:
    made = [make_run("er"), make_run("er", dataset="other")]
    contents = [make_run("er", dataset="mine", data_sha256=digit * 64) for digit in "ab"]
    tried = make_run("er")
    validation = replace(tried, config={**tried.config, "evaluate_on": "validation"})
    tables = compare([*made, *contents, validation])
    assert [(table.title, column(table, "method")) for table in tables] == [
        ("made", ["er"]),
        ("other", ["er"]),
        ("mine, content aaaaaaaa", ["er"]),
        ("mine, content bbbbbbbb", ["er"]),
        ("made, on validation data", ["er"]),
    ]


def own(**roles: Any) -> dict[str, Any]:
    return {"path": "mine.csv", "label": "job", "sensitive": ["sex"], "test_share": 0.3} | roles


@pytest.mark.parametrize(
    ("roles", "why", "titles"),
    [
        (
            {"sensitive": ["sex", "race"]},
            "other sensitive attribute",
            ["made, sensitive attribute sex", "made, sensitive attribute sex × race"],
        ),
        ({"sensitive": []}, "other sensitive attribute", None),
        (
            {"tasks": "a|b,c"},
            "other tasks",
            ["made, tasks two classes each", "made, tasks a|b,c"],
        ),
        ({"label": "income"}, "other label", ["made, label job", "made, label income"]),
        ({"test_share": 0.5}, "other test rows", None),
        ({"test_column": "test"}, "other test rows", None),
    ],
)
def test_runs_that_cannot_be_compared_are_kept_apart_and_a_note_says_why(
    roles: dict[str, Any], why: str, titles: list[str] | None
) -> None:
    runs = [make_run("er", seed=s, own=own(), accuracy=0.9) for s in range(3)]
    runs += [make_run("fsw", seed=s, own=own(**roles), accuracy=0.1) for s in range(3)]
    tables = compare(runs)
    assert [column(table, "method") for table in tables] == [["er"], ["fsw"]]
    for table in tables:
        assert unmarked(table)
        assert table.notes[-1].startswith("not compared with other runs on made")
        assert table.notes[-1].endswith(why)
    if titles:
        assert [table.title for table in tables] == titles


@pytest.mark.parametrize(
    "settings", [{"class_order": "shuffled"}, {"stream": {"classes_per_task": 1}}]
)
def test_other_tasks_by_settings_are_kept_apart(settings: dict[str, Any]) -> None:
    usual = {"class_order": "sorted", "stream": {"classes_per_task": 2}}
    tables = compare([make_run("er", **usual), make_run("fsw", **usual | settings)])
    assert len(tables) == 2


def test_other_number_of_tasks_is_kept_apart() -> None:
    run = make_run("er")
    tables = compare([run, replace(run, per_task=[*run.per_task, run.per_task[-1]])])
    assert [table.title for table in tables] == ["made, 2 tasks", "made, 3 tasks"]


def test_path_and_features_do_not_keep_runs_apart() -> None:
    other = own(path="copy/mine.csv", use_sensitive=True)
    runs = [make_run("er", own=own()), make_run("er", own=other)]
    (table,) = compare(runs)
    assert len(table.cells) == 2


def test_content_is_named_only_where_there_are_several() -> None:
    (table,) = compare([make_run("er", data_sha256="a" * 64)])
    assert table.title == "made"


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
