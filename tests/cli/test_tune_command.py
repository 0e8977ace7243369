from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli_outcome import Cli

TUNE = ("tune", "--dataset", "toy", "--set", "epochs=1", "hidden=8", "--quiet")
TRY = ("--try", "lr=0.001,0.01", "tau=0.1,1")


def test_ranking_choice_and_the_command_to_go_on_with(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*TUNE, "--method", "er", *TRY, "--out", "record")
    assert outcome.code == 0
    assert "er (epochs=1 hidden=8) on toy, measure eer: 4 of 4 configurations" in outcome.out
    best = json.loads((tmp_path / "record/tuning.json").read_text())["best"]["overrides"]
    lines = outcome.out.splitlines()
    assert f"chosen: {' '.join(best)}" in lines
    (first,) = [line for line in lines if line.startswith("│ 1 ")]
    assert first.split("│")[2].strip() == " ".join(best)
    command = "faircil run --dataset toy --method er --measure eer --set epochs=1 hidden=8"
    assert f"continue with: {command} {' '.join(best)} --seeds 0-4" in lines
    assert (tmp_path / "record/tuning.md").exists()
    assert (tmp_path / "record/pareto.png").exists()


@pytest.mark.usefixtures("nothing_drawn")
def test_methods_side_by_side_with_equal_budgets(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*TUNE, "--method", "er", "finetune", "--budget", "2", "--json")
    assert outcome.code == 0
    er, finetune = json.loads(outcome.out)["tuned"]
    assert [er["configurations"], finetune["configurations"]] == [12, 3]
    assert len(er["trials"]) == len(finetune["trials"]) == 2
    assert er["request"]["seeds"] == [10]
    assert {Path(run).name for trial in er["trials"] for run in trial["runs"]} == {"seed-10"}
    records = (tmp_path / "runs/tuning/toy").glob("*/tuning.json")
    assert sorted(path.parent.name.split("-")[0] for path in records) == ["er", "finetune"]


@pytest.mark.usefixtures("nothing_drawn")
def test_finished_trials_are_not_made_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cli(*TUNE, "--method", "er", *TRY)
    monkeypatch.setattr("faircil.sweep.processes.make_run", None)
    assert cli(*TUNE, "--method", "er", *TRY).out == first.out


@pytest.mark.usefixtures("nothing_drawn")
def test_selection_on_test_data_is_warned_about(cli: Cli) -> None:
    options = ("--method", "finetune", "--try", "lr=0.01")
    assert "too optimistic" in cli(*TUNE, *options, "--select-on", "test").err
    assert "too optimistic" not in cli(*TUNE, *options).err


@pytest.mark.usefixtures("nothing_drawn")
def test_an_impossible_constraint_is_an_error_with_a_record(cli: Cli, tmp_path: Path) -> None:
    objective = ("--objective", "accuracy with eer <= 0")
    outcome = cli(*TUNE, "--method", "finetune", *objective, "--out", "record")
    assert outcome.code == 1
    assert "none of 3 configurations, of 3 in all, meets eer <= 0; the closest has" in outcome.err
    assert "chosen" not in outcome.out
    assert json.loads((tmp_path / "record/tuning.json").read_text())["best"] is None


def test_all_mistakes_at_once_and_before_any_run(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(
        *TUNE, "--method", "er", "nope", "--try", "tau=x", "--strategy", "grit", "--budget", "0",
        "--seed", "a", "--jobs", "0", "--objective", "best",
    )  # fmt: skip
    assert outcome.code == 2
    for text in (
        "--seeds 'a' cannot be read",
        "--jobs is 0",
        "unknown method 'nope'",
        "setting tau=x is not allowed",
        "unknown strategy 'grit'",
        "--budget is 0",
        "objective 'best' cannot be read",
    ):
        assert outcome.err.count(text) == 1
    assert not (tmp_path / "runs").exists()


def test_without_optuna_nothing_is_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    outcome = cli(*TUNE, "--strategy", "optuna")
    assert outcome.code == 1
    assert "pip install optuna" in outcome.err
    assert not (tmp_path / "runs").exists()


def test_a_missing_dataset_is_named(cli: Cli) -> None:
    outcome = cli("tune", "--dataset", "drug", "--method", "joint", "--quiet")
    assert outcome.code == 1
    assert "joint on drug: nothing is chosen, since 3 of 3 trials are missing" in outcome.err
    assert "drug_consumption.data" in outcome.err


@pytest.mark.usefixtures("nothing_drawn")
def test_settings_for_own_data(cli: Cli, tmp_path: Path) -> None:
    rows = [f"{x},{c},{'mf'[x % 2]}" for c in "abcd" for x in range(20)]
    (tmp_path / "mine.csv").write_text("\n".join(["x,y,sex", *rows]), encoding="utf-8")
    own = ("--data", "mine.csv", "--label", "y", "--sensitive", "sex", "--tasks", "a,b|c,d")
    outcome = cli("tune", *own, "--method", "er", *TRY, "--set", "epochs=1", "--quiet")
    assert outcome.code == 0
    assert "er (epochs=1) on mine, measure eo: 4 of 4 configurations" in outcome.out
    expected = "faircil run --data mine.csv --label y --sensitive sex --tasks 'a,b|c,d' --method er"
    assert f"continue with: {expected} --measure eo --set epochs=1 " in outcome.out
    assert len(list((tmp_path / "runs/tuning/mine").glob("er-eo-*/tuning.json"))) == 1


def test_own_data_or_a_dataset_is_needed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("x,y\n", encoding="utf-8")
    neither = cli("tune", "--method", "er")
    assert neither.code == 2
    assert "with --dataset (see `faircil list datasets`)" in neither.err
    assert "give your own data with --data FILE --label COLUMN" in neither.err
    both = cli(*TUNE, "--data", "mine.csv", "--label", "y")
    assert "dataset 'toy' and own data mine.csv are given" in both.err
    unlabelled = cli("tune", "--data", "mine.csv", "--budget", "0")
    assert "--data needs --label COLUMN" in unlabelled.err
    assert "--budget is 0, expected at least 1 configuration" in unlabelled.err
