from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faircil.data.datasets import load_dataset
from faircil_lab.suite.row_index import index_of_stream, read_aligned
from suite_rows import made_index, made_predictions, table_rows, write_table

INDEX = made_index(per_group=2)
PREDICTED = made_predictions(INDEX, 0.7)


def read(rows: list[dict[str, str]], tmp_path: Path) -> tuple[object, list[str]]:
    mistakes: list[str] = []
    found = read_aligned(write_table(tmp_path / "predictions.csv", rows), INDEX, mistakes)
    return found, mistakes


def test_rows_are_found_by_number_or_by_order(tmp_path: Path) -> None:
    rows = table_rows(INDEX, PREDICTED)
    in_order = [{k: v for k, v in row.items() if k != "row"} for row in rows]
    shuffled = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    for given in (rows, in_order, shuffled):
        found, mistakes = read(given, tmp_path)
        assert mistakes == []
        assert np.array_equal(found, PREDICTED)  # type: ignore[arg-type]


def without(name: str):
    return lambda rows: [{k: v for k, v in row.items() if k != name} for row in rows]


def changed(place: int, **values: str):
    def change(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        return [row | values if n == place else row for n, row in enumerate(rows)]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("after_task"), "no column after_task"),
        (without("y_pred"), "no column y_pred"),
        (without("y_true"), "no column y_true"),
        (lambda rows: rows[:-1], "15 rows after task 2, expected 16"),
        (lambda rows: rows[:8], "no predictions after task 2"),
        (changed(3, y_pred="e"), "unknown classes are predicted after task 1: 'e' (1 rows)"),
        (
            changed(3, y_true="b"),
            "y_true differs from that of the test rows in 1 rows after task 1",
        ),
        (changed(3, row="8"), "row has '8' after task 1, expected numbers from 0 to 7"),
        (changed(3, row="9" * 5000), "9' after task 1, expected numbers from 0 to 7"),
        (changed(3, row="2"), "rows 2 are there more than once after task 1"),
        (changed(3, after_task="0"), "after_task has values that are no task from 1 to 2: 0"),
    ],
)
def test_what_is_wrong_is_said(change, said: str, tmp_path: Path) -> None:
    found, mistakes = read(change(table_rows(INDEX, PREDICTED)), tmp_path)
    assert found is None
    assert said in "\n".join(mistakes)
    assert str(tmp_path) in mistakes[0]


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    rows = table_rows(INDEX, PREDICTED)
    rows = changed(12, y_pred="x")(changed(0, y_true="d")(rows))[:-2]
    _, mistakes = read(rows, tmp_path)
    assert len(mistakes) == 3


def test_rows_without_numbers_that_are_out_of_order_are_noticed(tmp_path: Path) -> None:
    rows = without("row")(table_rows(INDEX, PREDICTED))
    _, mistakes = read(rows[::-1], tmp_path)
    assert any("put rows in the order of the test rows" in mistake for mistake in mistakes)


def test_the_digest_sees_tasks_classes_and_values() -> None:
    others = [
        replace(INDEX, task=np.where(INDEX.task == 2, 3, 1)),
        replace(INDEX, label=INDEX.label[::-1]),
        replace(INDEX, value=None),
    ]
    assert len({INDEX.digest, *(other.digest for other in others)}) == 4


def test_the_rows_of_a_stream_are_in_the_order_of_its_tasks() -> None:
    stream = load_dataset("toy-groups", 0)
    index = index_of_stream(stream)
    assert index.tasks == 2
    assert index.seen(1) == 1000
    assert index.label[:3] == ("0", "0", "0")
    assert index.value is not None
    assert set(index.value[1000:]) == {"1"}
