from __future__ import annotations

import pytest

import faircil.cli.run_seeds
from cli_outcome import Cli, Person, WriteTable

COMMAND = (
    "run", "--method", "fsw", "--data", "people.csv", "--label", "job", "--sensitive", "sex",
    "--set", "epochs=1",
)  # fmt: skip


def few_z_all_female(row: Person) -> Person | None:
    return None if row["job"] == "z" and (row["sex"] == "M" or int(str(row["id"])) > 60) else row


def test_absent_group_and_one_below_the_quota_work_with_a_note(
    cli: Cli, write_table: WriteTable
) -> None:
    write_table(change=few_z_all_female)
    outcome = cli(*COMMAND)
    assert outcome.code == 0
    assert "note: without a training sample" in outcome.err
    assert "class 'z' with sex 'M' (task 2)" in outcome.err
    assert "class 'z' with sex 'F' (6, task 2)" in outcome.err


def test_many_notes_are_cut(
    cli: Cli, write_table: WriteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faircil.cli.run_seeds, "MOST_NOTES", 1)
    write_table(change=few_z_all_female)
    said = cli(*COMMAND, "--baseline", "none").err
    notes = [line for line in said.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2
    assert "more of this kind in runs/people/fsw-eo-" in notes[-1]
