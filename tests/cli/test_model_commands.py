"""From a table to a model, predictions, a new class, and rows that are forgotten."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_outcome import Cli, Outcome, WriteTable
from faircil.cli.predict import CsvWriter
from faircil.model import table_models
from faircil.model.saved import load_model

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
    assert "new classes: 'z'; 4 classes in all" in outcome.err
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


def test_a_model_is_not_replaced_unless_that_is_wanted(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    fit = (*FIT, "--data", write_table("people.csv", seed=1), "-o", model)
    refused = cli(*fit)
    assert refused.code == 2
    assert "already has a model; continue with `faircil update model`" in refused.err
    assert len(json.loads(cli("show", model, "--json").out)["classes"]) == 3
    outcome = cli(*fit, "--force", "--classes-per-task", "1", "--ignore", "b")
    assert outcome.code == 1  # the first lesson would have a single class
    assert "the first rows are all of one class" in outcome.err
    outcome = cli(*fit, "--force", "--classes-per-task", "2", "--ignore", "b")
    assert "learned 240 rows" in outcome.err
    shown = json.loads(cli("show", model, "--json").out)
    assert [len(lesson["new_classes"]) for lesson in shown["lessons"]] == [2, 2]
    assert shown["inputs"] < 3


def test_new_classes_that_look_like_known_ones_are_told(cli: Cli, write_table: WriteTable) -> None:
    jobs = {"w": "teacher", "x": "nurse", "y": "cook", "z": "teacher"}
    known = write_table("known.csv", lambda row: row | {"job": jobs[row["job"]]})
    assert cli(*FIT, "--data", known, "-o", "jobs").code == 0
    new = write_table("new.csv", lambda row: row | {"job": "techer"} if row["a"] else None)
    assert "new class 'techer' looks like 'teacher'" in cli("update", "jobs", "--data", new).err


def test_groups_too_small_to_compare_are_told(cli: Cli, write_table: WriteTable) -> None:
    many = write_table("many.csv", lambda row: row | {"sex": f"group {row['id']}"})
    assert "have fewer than 10 rows" in cli(*FIT, "--data", many, "-o", "tiny").err


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
        (("update", model, "--data", wrong), "are not numbers, such as 'much'"),
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


def test_an_update_waits_for_another_one(
    cli: Cli, write_table: WriteTable, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = pytest.importorskip("fcntl", reason="Windows has other locks")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "waiting" in line:
            locks.flock(other, locks.LOCK_UN)

    monkeypatch.setattr("faircil.cli.models.say", say)
    with Path(model, ".lock").open("w") as other:
        locks.flock(other, locks.LOCK_EX)
        assert cli("update", model, "--data", "known.csv").code == 0
    assert said[0] == "another process is changing model; waiting for it"
    assert len(json.loads(cli("show", model, "--json").out)["lessons"]) == 2
    assert cli("update", "nothing", "--data", "known.csv").code == 1
    assert not Path("nothing").exists()


def test_predictions_do_not_replace_a_file(cli: Cli, write_table: WriteTable, model: str) -> None:
    people = write_table("people.csv")
    outcome = cli("predict", model, "--data", people, "-o", people)
    assert outcome.code != 0
    assert "already exists" in outcome.err


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


RUN = ("run", "--label", "job", "--sensitive", "sex", "--method", "moments", "--set", "width=40")


def test_a_run_keeps_a_model_that_predicts_learns_and_forgets(
    cli: Cli, write_table: WriteTable
) -> None:
    known = write_table("known.csv", lambda row: row if row["job"] != "z" else None)
    outcome = cli(*RUN, "--data", known, "-o", "runs", "--json")
    assert outcome.code == 0, outcome.err
    assert re.search(r"model of seed 0: 0\.\d MB in runs/seed-0/model", outcome.err)
    (run,) = json.loads(outcome.out)["runs"]
    assert run["model"] == "runs/seed-0/model"
    shown = json.loads(cli("show", run["model"], "--json").out)
    (measured,) = shown["measured"]
    assert measured["on"] == "test rows of its run"
    assert measured["metrics"]["eo_gap"] == run["per_task"][-1]["eo_gap"]
    assert [g["accuracy"] for g in measured["groups"]] == [g["accuracy"] for g in run["groups"]]
    assert "known.csv" not in Path("runs/seed-0/model/model.json").read_text()
    assert cli("predict", run["model"], "--data", known, "-o", "out.csv").code == 0
    truth = [row["job"] for row in rows_of(known)]
    right = [row["prediction"] == job for row, job in zip(rows_of("out.csv"), truth, strict=True)]
    assert sum(right) / len(right) > 0.6
    new = write_table("new.csv", lambda row: row if row["job"] == "z" else None)
    assert "new classes: 'z'" in cli("update", run["model"], "--data", new).err
    assert "not measured since it learned or forgot 60 more rows" in cli("show", run["model"]).err
    assert "60 rows forgotten" in cli("forget", run["model"], "--data", new).err
    # The run is the same, whatever becomes of its model.
    assert "not run again: seed 0" in cli(*RUN, "--data", known, "-o", "runs").err
    assert cli("compare", "runs").code == 0
    shutil.rmtree(run["model"])
    again = cli(*RUN, "--data", known, "-o", "runs", "--json")
    assert "model of seed 0: none is kept; run it again with --force" in again.err
    assert json.loads(again.out)["runs"][0]["model"] is None
    assert cli(*RUN, "--data", known, "-o", "runs", "--force").code == 0
    assert Path(run["model"]).is_dir()


def test_runs_keep_no_models_where_nobody_needs_them(cli: Cli, write_table: WriteTable) -> None:
    data = ("--data", write_table())
    assert "MB" not in cli(*RUN, *data, "-o", "less", "--no-model").err
    assert cli(*RUN, *data, "-o", "trial", "--evaluate-on", "validation").code == 0
    assert not list(Path().rglob("model.json"))
    # The same run, found again by one that would have kept a model.
    assert "not run again: seed 0" in cli(*RUN, *data, "-o", "less").err


def test_models_of_datasets_take_arrays(cli: Cli, write_table: WriteTable) -> None:
    assert (
        cli("run", "--dataset", "toy", "--method", "er", "--set", "epochs=1", "-o", "r").code == 0
    )
    model = "r/seed-0/model"
    refused = cli("predict", model, "--data", write_table(), "-o", "out.csv")
    assert refused.code == 2
    assert "an .npz file with an array `x` of shape (n, 2)" in refused.err
    refused = cli("update", model, "--data", write_table())
    assert "made from arrays of 'toy'" in refused.err
    assert "partial_fit" in refused.err
    np.savez("rows.npz", x=np.zeros((3, 2), dtype=np.float32))
    outcome = cli("predict", model, "--data", "rows.npz", "-o", "out.csv", "--json")
    assert outcome.code == 0, outcome.err
    assert sum(json.loads(outcome.out)["predicted"].values()) == 3


def test_rows_that_are_held_out_measure_the_model(cli: Cli, write_table: WriteTable) -> None:
    outcome = cli(*FIT, "--data", write_table(), "-o", "model", "--holdout", "0.25", "--json")
    assert outcome.code == 0, outcome.err
    assert "on 64 rows held out of fitting: accuracy ." in outcome.err
    document = json.loads(outcome.out)
    assert document.keys() == {"model", "bytes", "lesson", "notes", "summary"}
    assert document["lesson"]["rows"] == 176
    (measured,) = document["summary"]["measured"]
    assert measured["rows"] == sum(group["n"] for group in measured["groups"]) == 64
    assert measured["lessons"] == 1
    shown = cli("show", "model")
    assert "How fair it was when measured" in shown.out
    assert "measured on" in shown.out
    assert "not measured" not in shown.err
    # What the model would have learned of these rows is not in it: they cannot be forgotten.
    assert "64 of 240 rows to remove (row " in cli("forget", "model", "--data", "people.csv").err
    marked = write_table("marked.csv", lambda row: row | {"test": int(row["id"]) % 8 < 4})  # type: ignore[call-overload]
    fit = ("fit", "--method", "moments", "--set", "width=40", "--label", "job", "-o", "marked")
    assert cli(*fit, "--data", marked, "--test-column", "test").code == 0
    summary = json.loads(cli("show", "marked", "--json").out)
    assert summary["measured"][0]["rows"] == 120
    assert sum(group["rows"] for group in summary["groups"]) == 120
    # Marks count in an update as well.
    for name in ("update", "forget"):
        document = json.loads(cli(name, "marked", "--data", marked, "--json").out)
        assert abs(document["lesson"]["rows"]) == 120
    assert [one["rows"] for one in document["summary"]["measured"]] == [120, 120]
    none = write_table("none.csv", lambda row: row | {"test": 0})
    assert "learned 240 rows" in cli("update", "marked", "--data", none).err
    every = write_table("all.csv", lambda row: row | {"test": 1})
    assert "left to learn: all are marked" in cli("update", "marked", "--data", every).err


def test_a_model_that_nobody_measured_says_so(cli: Cli, model: str) -> None:
    assert "the model is not measured" in cli("show", model).err
    assert json.loads(cli("show", model, "--json").out)["measured"] == []


def test_documents_of_all_commands(cli: Cli, write_table: WriteTable, model: str) -> None:
    new = write_table("new.csv", lambda row: row if row["job"] == "z" else None)
    for command, rows in (("update", 60), ("forget", -60)):
        outcome = cli(command, model, "--data", new, "--json", "--quiet")
        assert outcome.err == ""
        document = json.loads(outcome.out)
        assert document.keys() == {"model", "bytes", "lesson", "notes", "summary"}
        assert document["lesson"].keys() == {"at", "rows", "new_classes", "seconds"}
        assert document["lesson"]["rows"] == rows
    outcome = cli("predict", model, "--data", new, "-o", "out.csv", "--json", "--quiet")
    document = json.loads(outcome.out)
    assert document.keys() == {"model", "out", "rows", "predicted", "notes"}
    assert document["predicted"].keys() == set("wxyz")
    assert document["predicted"]["z"] == 0
    shown = json.loads(cli("show", model, "--json").out)
    assert shown["bytes"] == sum(path.stat().st_size for path in Path(model).iterdir())


def test_all_mistakes_of_a_fit_at_once(cli: Cli, write_table: WriteTable) -> None:
    fit = ("fit", "--data", write_table(), "--label", "job", "-o", ".", "--measure", "eoo")
    outcome = cli(*fit, "--set", "gamma=3", "nosuch=1", "--weighting", "fsw", "--device", "tpu")
    assert outcome.code == 2
    for said in (
        "other files",
        "unknown measure 'eoo'",
        "has no setting 'gamma'",
        "unknown setting 'nosuch'",
        "--weighting is for a method that you choose; name one with --method",
        "tpu",
    ):
        assert said in outcome.err
    assert outcome.err.count("'nosuch'") == 1  # though three candidates know different settings
    assert "--holdout: for your own data" in cli("fit", "--holdout", "0.2", "-o", "m").err
    outcome = cli(*FIT, "--data", "people.csv", "-o", "m", "--holdout", "2")
    assert "--holdout is 2.0, expected a number between 0 and 1" in outcome.err


def test_altered_models_are_refused_by_every_command(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    path = Path(model, "model.json")
    path.write_text(path.read_text().replace('"seed"', '"sead"'))
    people = ("--data", write_table())
    for command in (("show",), ("predict", "-o", "o.csv", *people), ("update", *people)):
        outcome = cli(command[0], model, *command[1:])
        assert outcome.code == 1
        assert outcome.err.count("\n") == 1
        assert "model.json is not what was saved: it is damaged or altered" in outcome.err


def test_columns_of_text_stay_text_whatever_a_file_has(cli: Cli, write_table: WriteTable) -> None:
    def coded(row: dict[str, object]) -> dict[str, object]:
        number = int(str(row["id"]))
        return row | {
            "id": f"{number:05}",
            "ward": ("01", "02", "A1")[number % 3],
            "asked": ("true", "false", "maybe")[number // 2 % 3],
            "job": f"0{row['job']}" if row["job"] == "w" else f"0{ord(str(row['job'])) - 119}",
        }

    known = write_table("known.csv", coded)
    assert cli(*FIT, "--data", known, "-o", "model").code == 0
    classes = json.loads(cli("show", "model", "--json").out)["classes"]
    assert classes == ["01", "02", "03", "0w"]
    plain = write_table(
        "plain.csv",
        lambda row: (
            found
            if "A1" not in (found := coded(row)).values() and "0w" not in found.values()
            else None
        ),
    )
    outcome = cli("update", "model", "--data", plain)
    assert outcome.code == 0, outcome.err
    assert "new classes" not in outcome.err
    assert "does not know" not in outcome.err
    for name in ("known", "plain"):
        written = f"{name}-out.csv"
        outcome = cli("predict", "model", "--data", f"{name}.csv", "--keep", "id", "-o", written)
        assert "does not know" not in outcome.err
    every = {row["id"]: row["probability"] for row in rows_of("known-out.csv")}
    some = {row["id"]: row["probability"] for row in rows_of("plain-out.csv")}
    assert "00001" in every
    assert {name: every[name] for name in some} == some
    # Rows can be forgotten as they were learned.
    assert cli("forget", "model", "--data", plain).code == 0


def test_columns_that_are_left_out_or_cannot_be_kept_are_named(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    more = write_table("more.csv", lambda row: row | {"row": 1, "extra": 2})
    outcome = cli("predict", model, "--data", more, "-o", "out.csv", "--keep", "id", "extra")
    assert "not fitted with, left out: row\n" in outcome.err
    outcome = cli("predict", model, "--data", more, "-o", "other.csv", "--keep", "row")
    assert outcome.code == 2
    assert "column 'row' cannot be kept" in outcome.err


def test_other_rows_that_are_as_many_are_not_said_to_be_what_was_learned(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    others = write_table("o.csv", lambda row: row if row["job"] != "z" else None, seed=1)
    outcome = cli("forget", model, "--data", others)
    assert outcome.code == 1
    assert "these are 180 rows, as many as the model has learned" in outcome.err


def test_a_model_with_its_audit_beside_it_goes_on_learning(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    people = write_table("people.csv", lambda row: row if row["job"] != "z" else None, seed=1)
    assert cli("audit", model, "--data", people, "-o", model).code == 0
    outcome = cli("update", model, "--data", people)
    assert outcome.code == 0, outcome.err
    assert (Path(model) / "audit.json").exists()


@pytest.mark.parametrize("rows", [60, 300])
def test_a_table_that_is_replaced_while_it_is_read_is_not_mixed(
    cli: Cli, write_table: WriteTable, model: str, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    people = write_table("people.csv", seed=1)
    real = table_models.read_table
    reads = list[object]()

    def read(path: Path, *given: object, **named: object) -> pd.DataFrame:
        table: pd.DataFrame = real(path, *given, **named)
        if not reads:
            every = pd.read_csv(path)
            pd.concat([every, every])[::-1][:rows].to_csv(path, index=False)
        reads.append(path)
        return table

    monkeypatch.setattr(table_models, "read_table", read)
    outcome = cli("predict", model, "--data", people, "--keep", "id", "-o", "mixed.csv")
    assert outcome.code == 1
    assert "people.csv changed while it was being read; start again" in outcome.err
    assert not Path("mixed.csv").exists()


def test_a_model_is_no_place_for_runs(cli: Cli, model: str) -> None:
    outcome = cli("run", "--dataset", "toy", "--method", "er", "--out", model)
    assert outcome.code == 1
    assert "model is a model; choose another folder with --out" in outcome.err


def test_a_model_of_which_a_part_was_copied(cli: Cli, model: str) -> None:
    next(Path(model).glob("tensors-*")).unlink()
    outcome = cli("show", model)
    assert outcome.code == 1
    assert "safetensors is missing: the folder has a part of the model only" in outcome.err


def test_two_commands_that_write_the_same_predictions(
    cli: Cli, write_table: WriteTable, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_table("rows.csv", lambda row: row)
    predict = ("predict", model, "--data", rows, "-o", "out.csv")
    real, others = CsvWriter.write, list[Outcome]()

    def write(writer: CsvWriter, table: pd.DataFrame) -> None:
        if not others:
            others.append(cli(*predict))
        real(writer, table)

    Path(f".out.csv.{'a' * 8}.partial").touch()  # of a process that was killed
    monkeypatch.setattr(CsvWriter, "write", write)
    outcome = cli(*predict)
    assert outcome.code == 0, outcome.err
    (other,) = others
    assert other.code == 2
    assert "another process is writing out.csv; wait for it" in other.err
    assert len(rows_of("out.csv")) == len(rows_of(rows))
    assert not [path for path in Path().iterdir() if path.name.startswith(".out")]


def test_rows_with_gaps_can_be_learned_later(cli: Cli, write_table: WriteTable, model: str) -> None:
    gaps = write_table(
        "gaps.csv",
        lambda row: (
            row
            | {
                "sex": "" if row["job"] == "x" else row["sex"],
                "job": "" if row["job"] == "y" else row["job"],
                "empty": "",  # not of the model
            }
        ),
    )
    refused = cli("update", model, "--data", gaps)
    assert "--drop-missing" in refused.err
    assert "--unknown-group" in refused.err
    dropped = cli("update", model, "--data", gaps, "--drop-missing", "-o", "dropped")
    assert "learned 120 rows" in dropped.err
    assert cli("update", model, "--data", gaps, "--drop-missing", "--unknown-group").code == 0
    groups = json.loads(cli("show", model, "--json").out)["groups"]
    assert [group["rows"] for group in groups if group["value"] is None] == [60]
    forget = ("forget", model, "--data", gaps, "--drop-missing", "--unknown-group")
    forgotten = cli(*forget).err
    assert "180 rows forgotten" in forgotten
    assert "left out: 60 (row " in forgotten
    infinite = write_table("infinite.csv", lambda row: row | {"a": "inf"})
    refused = cli("predict", model, "--data", infinite, "-o", "out.csv")
    assert "column 'a' has 240 value(s) that are infinite" in refused.err


def test_small_groups_are_told_and_can_be_pooled(cli: Cli, write_table: WriteTable) -> None:
    count = {"rare": 0}

    def with_few(row: dict[str, str]) -> dict[str, str]:
        count["rare"] += row["job"] == "w"
        return row | {"sex": "x"} if row["job"] == "w" and count["rare"] <= 3 else row

    table = write_table("people.csv", with_few)
    outcome = cli(*FIT, "--data", table, "-o", "exact")
    said = "the smallest group has 3 rows (class 'w', 'x')"
    assert said in outcome.err
    assert "fit it again with `faircil fit --min-cell 10`" in outcome.err
    assert said in cli("show", "exact").err
    fit = cli(*FIT, "--data", table, "-o", "pooled", "--min-cell", "10", "--json")
    assert fit.code == 0, fit.err
    document = json.loads(fit.out)
    assert min(group["rows"] for group in document["summary"]["groups"]) >= 10
    assert any(note.startswith("3 row(s) of groups") for note in document["notes"])
    lines = Path(table).read_text().splitlines(keepends=True)
    rare = Path("one.csv")
    rare.write_text("".join([lines[0], next(line for line in lines if ",x" in line)]))
    update = cli("update", "pooled", "--data", rare)
    assert update.code == 1
    assert "none of the classes has 10 rows here" in update.err
    forgotten = cli("forget", "pooled", "--data", rare)
    assert forgotten.code == 0, forgotten.err
    assert "anyone who has an earlier copy" in forgotten.err
    roles = ("--data", table, "--label", "job", "--sensitive", "sex")
    run = cli("run", *roles, "--set", "width=20", "min_cell=10", "-o", "runs")
    assert "method moments, since other methods keep rows of people" in run.err
    content = json.loads(Path("runs/seed-0/model/card.json").read_text())
    assert content["summary"]["small_groups"] == {"groups": 0, "rows": 0}
    lessons = load_model(Path("runs/seed-0/model")).lessons
    assert min(group.rows for lesson in lessons for group in lesson.groups) >= 10
    refused = cli(*FIT, "--data", table, "-o", "other", "--min-cell", "-1")
    assert refused.code == 2
    assert "min_cell=-1 is not allowed" in refused.err


def test_predictions_go_to_no_place_where_they_do_harm(
    cli: Cli, write_table: WriteTable, model: str, tmp_path: Path
) -> None:
    people = write_table("people.csv")
    before = (tmp_path / people).read_bytes()
    words = ("predict", model, "--data", people, "--keep", "job", "job", "--force", "-o")
    for place, says in {
        people: "people.csv is an input of this command",
        f"{model}/mine.csv": "would be among the files of a model; choose another place",
    }.items():
        outcome = cli(*words, place)
        assert outcome.code == 2
        assert says in outcome.err
    assert (tmp_path / people).read_bytes() == before
    assert cli(*words, "new/folder/mine.csv").code == 0
    assert list(rows_of("new/folder/mine.csv")[0]) == ["row", "job", "prediction", "probability"]


def test_a_place_for_a_model_is_checked_before_it_learns(
    cli: Cli, write_table: WriteTable, model: str, tmp_path: Path
) -> None:
    (tmp_path / model / "mine.txt").write_text("mine")
    outcome = cli("update", model, "--data", write_table("people.csv"))
    assert outcome.code == 2
    assert "has other files, such as mine.txt" in outcome.err
    assert "learning" not in outcome.err
    assert (tmp_path / model / "mine.txt").read_text() == "mine"
