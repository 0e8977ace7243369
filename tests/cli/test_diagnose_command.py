"""Data is looked at before training; a model says whom new rows would hurt."""

from __future__ import annotations

import json

import pytest

from cli_outcome import Cli, WriteTable

QUICK = ("--set", "epochs=1", "hidden=8", "buffer_size=8")


def fit(cli: Cli, write_table: WriteTable, method: str, *words: str) -> str:
    known = write_table("known.csv", lambda row: row if row["job"] != "z" else None)
    roles = ("--label", "job", "--sensitive", "sex", "--ignore", "id")
    outcome = cli("fit", "--data", known, *roles, "--method", method, *words, "-o", method)
    assert outcome.code == 0, outcome.err
    return method


def new_rows(write_table: WriteTable) -> str:
    return write_table("new.csv", lambda row: row if row["job"] == "z" else None)


def test_a_table_is_looked_at(cli: Cli, write_table: WriteTable) -> None:
    people = write_table(
        "people.csv", lambda row: row if row["job"] != "z" or row["sex"] == "F" else None
    )
    words = ("diagnose", "--data", people, "--label", "job", "--sensitive", "sex", "--ignore", "id")
    outcome = cli(*words, "--set", "buffer_size=4")
    assert outcome.code == 0, outcome.err
    assert "in class 'z' all training rows have sex 'F'" in outcome.out
    assert "keeps 4 rows of each group" in outcome.out
    assert "smallest detectable gap in accuracy" in outcome.out
    document = json.loads(cli(*words, "--json").out)
    assert sum(one["train"] + one["test"] for one in document["groups"]) == 210
    assert document["readability"]["rows"] > 0


def test_a_dataset_is_looked_at(cli: Cli) -> None:
    outcome = cli("diagnose", "--dataset", "toy-groups", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["attribute"] == "z"


def test_a_replay_model_ranks_its_groups_and_is_left_as_it_was(
    cli: Cli, write_table: WriteTable
) -> None:
    model, new = fit(cli, write_table, "er", *QUICK), new_rows(write_table)
    before = cli("show", model, "--json").out
    outcome = cli("diagnose", model, "--data", new, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["new_classes"] == ["z"]
    assert len(document["groups"]) == 6
    falls = [one["fall"] for one in document["groups"]]
    assert falls == sorted(falls, reverse=True)
    assert all(-1 <= one["probability"] - one["fall"] <= 1 for one in document["groups"])
    assert cli("show", model, "--json").out == before
    assert "known groups" in cli("diagnose", model, "--data", new).out


def test_moments_forget_nothing(cli: Cli, write_table: WriteTable) -> None:
    model = fit(cli, write_table, "moments", "--set", "width=40")
    outcome = cli("diagnose", model, "--data", new_rows(write_table))
    assert outcome.code == 0, outcome.err
    assert "forgets nothing" in outcome.out
    assert "loss now" in outcome.out


def test_a_method_without_rows_is_refused(cli: Cli, write_table: WriteTable) -> None:
    model = fit(cli, write_table, "finetune", "--set", "epochs=1", "hidden=8")
    outcome = cli("diagnose", model, "--data", new_rows(write_table))
    assert outcome.code == 2
    assert "keeps no rows" in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ["nothing to inspect"]),
        (
            ("model", "--label", "job", "--seed", "1"),
            ["--label, --seed: the model already defines this", "--data"],
        ),
        (("--dataset", "digitz", "--method", "err"), ["did you mean 'digits'", "unknown method"]),
        (("model", "--data", "none.csv"), ["there is no model in model"]),
    ],
)
def test_mistakes_are_told_at_once(cli: Cli, words: tuple[str, ...], said: list[str]) -> None:
    outcome = cli("diagnose", *words)
    assert outcome.code in (1, 2)
    assert all(part in outcome.err for part in said), outcome.err
