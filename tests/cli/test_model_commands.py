"""From a table to a model, predictions, a new class, and rows that are forgotten."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli_outcome import Cli, WriteTable

FIT = ("fit", "--label", "job", "--sensitive", "sex", "--method", "moments", "--set", "width=40")


@pytest.fixture
def model(cli: Cli, write_table: WriteTable) -> str:
    known = write_table("known.csv", lambda row: row if row["job"] != "z" else None)
    outcome = cli(*FIT, "--data", known, "-o", "model")
    assert outcome.code == 0, outcome.err
    assert "learned 180 rows" in outcome.err
    return "model"


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_a_table_to_predictions_of_a_new_class(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    people = write_table("people.csv", seed=1)
    outcome = cli("predict", model, "--data", people, "--keep", "job", "-o", "first.csv")
    assert outcome.code == 0, outcome.err
    assert {row["prediction"] for row in rows_of("first.csv")} == {"w", "x", "y"}
    new = write_table("new.csv", lambda row: row if row["job"] == "z" else None)
    outcome = cli("update", model, "--data", new)
    assert outcome.code == 0, outcome.err
    assert "new classes: z; 4 classes in all" in outcome.err
    # Neither class nor attribute is needed.
    bare = write_table("bare.csv", lambda row: {n: row[n] for n in ("id", "a", "b")}, seed=1)
    assert cli("predict", model, "--data", bare, "-o", "bare-out.csv", "--probabilities").code == 0
    found = rows_of("bare-out.csv")
    truth = [row["job"] for row in rows_of(people)]
    right = [row["prediction"] == job for row, job in zip(found, truth, strict=True)]
    assert sum(right) / len(right) > 0.5
    assert found[0]["row"] == "1"
    told = sum(float(found[0][f"probability of {job}"]) for job in "wxyz")
    assert told == pytest.approx(1)


def test_what_was_learned_is_shown_and_forgotten(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    shown = json.loads(cli("show", model, "--json").out)
    assert sum(group["rows"] for group in shown["groups"]) == 180
    some = write_table("known.csv", lambda row: row if row["job"] == "x" else None)
    assert cli("forget", model, "--data", some).code == 0
    shown = json.loads(cli("show", model, "--json").out)
    assert sum(group["rows"] for group in shown["groups"]) == 120
    assert [lesson["rows"] for lesson in shown["lessons"]] == [180, -60]
    again = cli("forget", model, "--data", some)
    assert again.code != 0
    assert "were not added" in again.err
    assert "From whom" in cli("show", model).out


def test_mistakes_leave_the_model_as_it_was(cli: Cli, write_table: WriteTable, model: str) -> None:
    before = {path.name: path.read_bytes() for path in Path(model).iterdir()}
    other = write_table("other.csv", lambda row: {"a": row["a"], "job": row["job"], "sex": "F"})
    wrong = write_table("wrong.csv", lambda row: row | {"a": "much"})
    for arguments, message in (
        (("update", model, "--data", other), "no column 'b'"),
        (("update", model, "--data", wrong), "are no numbers, such as 'much'"),
        (("update", model, "--data", "nowhere.csv"), "there is no file"),
        (("predict", model, "--data", other, "-o", "out.csv"), "no column 'b'"),
        (("predict", model, "--data", wrong, "-o", "out.txt"), "ends in .csv or .parquet"),
        (("predict", "nothing", "--data", other, "-o", "out.csv"), "there is no model"),
        ((*FIT, "--data", wrong, "-o", "."), "other files"),
        ((*FIT, "--data", wrong, "-o", model, "--measure", "eoo"), "unknown measure 'eoo'"),
        (("fit", "-o", "new"), "give a table with --data"),
    ):
        outcome = cli(*arguments)
        assert outcome.code != 0
        assert message in outcome.err, outcome.err
    assert {path.name: path.read_bytes() for path in Path(model).iterdir()} == before
    assert not Path("out.csv").exists()


def test_predictions_do_not_replace_a_file(cli: Cli, write_table: WriteTable, model: str) -> None:
    people = write_table("people.csv")
    outcome = cli("predict", model, "--data", people, "-o", people)
    assert outcome.code != 0
    assert "is there already" in outcome.err


def test_tasks_are_lessons_and_may_come_from_a_file(cli: Cli, write_table: WriteTable) -> None:
    Path("tasks.txt").write_text("y,z\n\nw,x\n")
    outcome = cli(*FIT, "--data", write_table(), "-o", "model", "--tasks", "@tasks.txt")
    assert outcome.code == 0, outcome.err
    lessons = json.loads(cli("show", "model", "--json").out)["lessons"]
    assert [lesson["new_classes"] for lesson in lessons] == [["y", "z"], ["w", "x"]]
    assert "cannot be read" in cli(*FIT, "--data", "people.csv", "-o", "m", "--tasks", "@no").err


def test_rows_without_an_attribute_are_people_of_an_unknown_group(
    cli: Cli, write_table: WriteTable
) -> None:
    gaps = write_table(change=lambda row: row | {"sex": "" if row["job"] == "x" else row["sex"]})
    refused = cli(*FIT, "--data", gaps, "-o", "model")
    assert refused.code != 0
    assert "--unknown-group" in refused.err
    assert "--drop-missing" in refused.err
    assert cli(*FIT, "--data", gaps, "-o", "model", "--unknown-group").code == 0
    groups = json.loads(cli("show", "model", "--json").out)["groups"]
    assert [group["rows"] for group in groups if group["value"] is None] == [60]
    assert cli(*FIT, "--data", gaps, "-o", "less", "--drop-missing").code == 0
