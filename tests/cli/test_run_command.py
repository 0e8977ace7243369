from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd
import pytest

import faircil.sweep.work
from cli_outcome import Cli, WriteTable, run_words
from faircil.metrics import METRICS, evaluate, forgetting

TOY = run_words("fsw", "toy", "--out", "out", epochs=1)
OWN = ("run", "--method", "fsw", "--label", "job", "--set", "epochs=1", "--out", "o")
GROUPS = run_words("fsw", "toy-groups", "--out", "out", epochs=1)
CONTRACT = {
    "seed", "accuracy", "eer", "eer_task", "eo", "eo_gap", "dp", "forgetting", "seconds",
    "per_task", "dir",
}  # fmt: skip
PARTS = ("gradient", "lp", "train", "eval")
FILES = {
    "model",
    "config.json", "environment.json", "summary.json", "metrics.jsonl", "epochs.jsonl",
    "predictions.csv", "probabilities.npz", "SHA256SUMS",
}  # fmt: skip


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_table_on_stdout_progress_and_place_on_stderr(cli: Cli) -> None:
    outcome = cli(*TOY)
    assert outcome.code == 0
    for text in ("toy, fsw, measure eer", "seed", "accuracy", "eer_task", "forgetting", "seconds"):
        assert text in outcome.out
    assert "toy fsw seed 0: task 1/2  accuracy" in outcome.err
    assert "toy fsw seed 0: task 2/2  accuracy" in outcome.err
    assert "kept" in outcome.err
    assert "saved in out" in outcome.err
    assert not set("\x1b\r\b") & set(outcome.out + outcome.err)


def test_quiet_prints_the_result_only(cli: Cli) -> None:
    outcome = cli(*GROUPS, "--quiet")
    assert outcome.code == 0
    assert outcome.err == ""
    assert "accuracy" in outcome.out


def test_json_document_of_one_seed(cli: Cli) -> None:
    outcome = cli(*TOY, "--json")
    document = json.loads(outcome.out)
    assert document.keys() == {"runs", "mean", "std"}
    (run,) = document["runs"]
    assert run.keys() >= CONTRACT
    assert run["dir"] == "out/seed-0"
    assert [run[name] for name in ("eo", "eo_gap", "dp")] == [None, None, None]
    assert run["seconds"].keys() == {*PARTS, "total"}
    assert run["seconds"]["total"] >= sum(run["seconds"][part] for part in PARTS) > 0
    assert [task.keys() for task in run["per_task"]] == [set(METRICS)] * 2
    assert run["accuracy"] == pytest.approx(mean(task["accuracy"] for task in run["per_task"]))
    assert run["per_task"][0]["forgetting"] is None
    assert run["forgetting"] == run["per_task"][1]["forgetting"]
    assert document["mean"]["accuracy"] == run["accuracy"]
    assert document["std"] == {
        **dict.fromkeys((*METRICS, "steps")),
        "seconds": dict.fromkeys((*PARTS, "total")),
    }


def test_json_document_of_two_seeds(cli: Cli) -> None:
    document = json.loads(cli(*GROUPS, "--json", "--seeds", "0-1").out)
    assert [run["seed"] for run in document["runs"]] == [0, 1]
    for name in METRICS.keys() - {"eopp", "eopp_gap"}:  # they need favoured classes
        values = [run[name] for run in document["runs"]]
        assert document["mean"][name] == pytest.approx(mean(values))
        assert document["std"][name] == pytest.approx(stdev(values))
    totals = [run["seconds"]["total"] for run in document["runs"]]
    assert document["mean"]["seconds"]["total"] == pytest.approx(mean(totals))


def test_run_folder(cli: Cli, tmp_path: Path) -> None:
    cli(*GROUPS, "--seeds", "3", "--quiet")
    folder = tmp_path / "out" / "seed-3"
    assert {path.name for path in folder.iterdir()} == FILES
    config = read_json(folder / "config.json")
    assert config["seed"] == 3
    assert config["config"]["dataset"] == "toy-groups"
    assert (config["config"]["method"], config["config"]["weighting"]) == ("er", "fsw")
    assert config["config"]["measure"] == "eo"
    assert config["config"]["settings"]["epochs"] == 1
    assert config["config"]["settings"]["hidden"] == [64]
    environment = read_json(folder / "environment.json")
    assert environment["command"] == (
        "faircil run --method fsw --dataset toy-groups --set epochs=1 --out out --seeds 3 --quiet"
    )
    assert environment["device"] in ("cpu", "cuda")
    assert "torch" in environment["packages"]
    epochs = pd.read_json(folder / "epochs.jsonl", lines=True)
    assert epochs[["task", "epoch"]].to_numpy().tolist() == [[1, 1], [2, 1]]
    assert epochs["weights"][0] is None
    assert epochs["weights"][1]["kept"] > 0


def test_tidy_metrics_agree_with_the_summary(cli: Cli, tmp_path: Path) -> None:
    cli(*GROUPS, "--quiet")
    folder = tmp_path / "out" / "seed-0"
    rows = pd.read_json(folder / "metrics.jsonl", lines=True)
    per_task = read_json(folder / "summary.json")["per_task"]
    for position, values in enumerate(per_task, start=1):
        here = rows[rows["task"] == position].set_index("metric")["value"]
        for name in METRICS:
            expected = np.nan if values[name] is None else values[name]
            assert here[name] == pytest.approx(expected, nan_ok=True)
    groups = rows[(rows["metric"] == "group_accuracy") & (rows["task"] == 2)]
    assert groups[["class", "attribute", "n"]].to_numpy().tolist() == [
        [0, 0, 500], [0, 1, 500], [1, 1, 500],
    ]  # fmt: skip


@pytest.mark.parametrize("command", [TOY, GROUPS])
def test_metrics_can_be_recomputed_from_predictions(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    cli(*command, "--quiet")
    folder = tmp_path / "out" / "seed-0"
    predictions = pd.read_csv(folder / "predictions.csv")
    summary = read_json(folder / "summary.json")
    accuracies = np.full((2, 2), np.nan)
    for position, expected in enumerate(summary["per_task"]):
        part = predictions[predictions["after_task"] == position + 1]
        again = evaluate(
            part["y_true"],
            part["y_pred"],
            task=part["task"],
            sensitive=part.get("attribute"),
        )
        accuracies[position, : position + 1] = again.per_test_task
        for name in set(METRICS) - {"forgetting"}:
            assert getattr(again, name) == expected[name]
    assert forgetting(accuracies) == summary["metrics"]["forgetting"]


def test_default_folder_is_below_runs_and_depends_on_the_configuration(
    cli: Cli, tmp_path: Path
) -> None:
    for epochs in (1, 2):
        cli(*run_words("finetune", "toy", epochs=epochs))
    folders = sorted((tmp_path / "runs" / "toy").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("finetune-eer-") for folder in folders)


def test_finished_seeds_are_reused(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY)
    before = contents(tmp_path / "out")
    outcome = cli(*TOY, "--seeds", "0-1", "--json")
    assert "already in out, not run again: seed 0" in outcome.err
    assert "seed 0: task" not in outcome.err
    assert "seed 1: task" in outcome.err
    assert [run["seed"] for run in json.loads(outcome.out)["runs"]] == [0, 1]
    assert contents(tmp_path / "out").items() > before.items()


def test_another_configuration_does_not_touch_the_folder(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY)
    before = contents(tmp_path / "out")
    outcome = cli(*TOY, "--set", "epochs=2", "--seeds", "1")
    assert outcome.code == 1
    assert "out holds another run: seed-0 has another configuration" in outcome.err
    assert "--out" in outcome.err
    assert "--force" in outcome.err
    assert contents(tmp_path / "out") == before


def test_force_replaces_runs_of_another_configuration(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY, "--seeds", "0-1")
    outcome = cli(*TOY, "--set", "epochs=2", "--seeds", "1", "--force")
    assert outcome.code == 0
    assert [path.name for path in (tmp_path / "out").glob("seed*")] == ["seed-1"]
    assert read_json(tmp_path / "out/seed-1/config.json")["config"]["settings"]["epochs"] == 2


def test_force_runs_the_same_seed_again_and_keeps_the_others(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY, "--seeds", "0-1")
    outcome = cli(*TOY, "--force")
    assert "seed 0: task 2/2" in outcome.err
    assert sorted(path.name for path in (tmp_path / "out").glob("seed*")) == ["seed-0", "seed-1"]


def test_changed_own_file_is_another_run(cli: Cli, write_table: WriteTable) -> None:
    command = (*OWN, "--data", write_table())
    assert cli(*command).code == 0
    assert "not run again" in cli(*command).err
    write_table(seed=1)
    outcome = cli(*command)
    assert outcome.code == 1
    assert "another configuration" in outcome.err


def test_own_data_with_several_attributes_and_tasks(
    cli: Cli, write_table: WriteTable, tmp_path: Path
) -> None:
    name = write_table(change=lambda row: row | {"old": "ny"[int(str(row["id"])) // 8 % 2]})
    outcome = cli(
        "run", "--method", "fsw", "--data", name, "--label", "job", "--sensitive", "sex", "old",
        "--tasks", "w,z|y", "--set", "epochs=1", "--out", "out", "--json",
    )  # fmt: skip
    assert outcome.code == 0
    assert "classes in no task, left out: x" in outcome.err
    (run,) = json.loads(outcome.out)["runs"]
    assert len(run["per_task"]) == 2
    assert run["eo"] is not None
    predictions = pd.read_csv(tmp_path / "out/seed-0/predictions.csv")
    assert set(predictions["attribute"]) == {"F × n", "F × y", "M × n", "M × y"}


def test_file_name_of_a_dataset_does_not_bring_its_settings(
    cli: Cli, write_table: WriteTable, tmp_path: Path
) -> None:
    write_table("mnist.csv")
    cli(*OWN, "--data", "mnist.csv")
    settings = read_json(tmp_path / "o/seed-0/config.json")["config"]["settings"]
    assert (settings["lr"], settings["alpha"]) == (0.01, "auto")


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/nowhere"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_unusable_folder_is_found_before_training(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, force: tuple[str, ...]
) -> None:
    monkeypatch.setattr(faircil.sweep.work, "run", None)
    (tmp_path / "file").write_text("mine")
    outcome = cli(*TOY, "--out", out, *force)
    assert outcome.code == 1
    assert "choose another folder with --out" in outcome.err
    assert (tmp_path / "file").read_text() == "mine"


def test_folder_of_a_single_run_is_no_place_for_others(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY)
    outcome = cli(*TOY, "--out", "out/seed-0", "--force")
    assert outcome.code == 1
    assert "out/seed-0 is itself a finished run" in outcome.err
    assert {path.name for path in (tmp_path / "out/seed-0").iterdir()} == FILES - {
        "probabilities.npz"
    }


@pytest.mark.parametrize(
    "error", [MemoryError("too large"), RuntimeError("[x] can't allocate memory: 8 bytes")]
)
def test_too_little_memory(cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(faircil.sweep.work, "run", fail)
    outcome = cli(*TOY)
    assert outcome.code == 1
    assert "not enough memory" in outcome.err


def test_other_errors_are_bugs_and_stay_visible(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(faircil.sweep.work, "run", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        cli(*TOY)


def test_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faircil", *TOY, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"][0]["seed"] == 0
    assert "saved in out" in done.stderr


MOMENTS = run_words("moments", "toy-groups", width=20)


def test_a_target_chooses_lam_on_held_out_training_data(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*MOMENTS, "--target", "eo_gap<=0.9", "--out", "out", "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)["target"]
    assert found["target"] == "eo_gap <= 0.9"
    assert found["reached"]
    assert found["eo_gap"] <= 0.9
    assert "held out of training" in found["judged_on"]
    (chosen,) = found["chosen"]
    assert f"target eo_gap <= 0.9: chose {chosen}, with eo_gap" in outcome.err
    assert "the test data was not used" in outcome.err
    config = read_json(tmp_path / "out/seed-0/config.json")["config"]
    assert config["settings"]["lam"] == float(chosen.removeprefix("lam="))
    assert config["evaluate_on"] == "test"
    tried = {
        read_json(path)["config"]["settings"]["lam"]
        for path in (tmp_path / "runs").glob("**/config.json")
    }
    assert len(tried) == 10


def test_a_target_out_of_reach_is_said_even_quietly(cli: Cli) -> None:
    outcome = cli(*MOMENTS, "--target", "worst_group>=5", "--out", "out", "--quiet")
    assert outcome.code == 0
    assert outcome.err.startswith("note: the target worst_group >= 5 is not reached on held-out")
    assert "too little, at accuracy" in outcome.err


def test_mistakes_of_a_target_come_with_all_others(cli: Cli, tmp_path: Path) -> None:
    target = ("--target", "eo_gab>=x", "--postprocess", "eps-fair", "--seeds", "a")
    outcome = cli(*run_words("er", "toy-groups", *target, tua=1))
    assert outcome.code == 2
    for text in (
        "unknown metric 'eo_gab'",
        "'x' is not a valid bound",
        "leave out --postprocess",
        "--seeds 'a' cannot be read",
        "unknown setting 'tua'",
        "a target chooses `lam`",
    ):
        assert outcome.err.count(text) == 1, text
    assert not (tmp_path / "runs").exists()


def test_favoured_classes_by_name(cli: Cli) -> None:
    options = ("--measure", "eopp", "--favoured")
    document = json.loads(cli(*MOMENTS, *options, "0", "--out", "out", "--json").out)
    assert document["mean"]["eopp_gap"] is not None
    wrong = cli(*MOMENTS, *options, "00", "--out", "other")
    assert wrong.code == 2
    assert "unknown class '00': did you mean '0'?" in wrong.err


def test_what_the_weights_did_and_what_more_would_cost(cli: Cli) -> None:
    outcome = cli(*MOMENTS, "--measure", "worst", "--out", "out")
    assert "worst_group" in outcome.err
    assert outcome.err.splitlines()[0].count("worst_group") == 1
    assert "largest loss of a group" in outcome.out
    assert "no linear model of at most its norm has one lower by more" in outcome.out


def test_without_a_method_one_is_chosen_on_held_out_rows(cli: Cli, write_table: WriteTable) -> None:
    command = ("run", "--data", write_table(), "--label", "job", "--set", "epochs=1", "hidden=8")
    outcome = cli(*command, "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    choice = document["choice"]
    assert [one["name"] for one in choice["tried"]] == [
        "moments", "replay with fair draws", "a new net on the buffer",
    ]  # fmt: skip
    assert all(one["problem"] is None for one in choice["tried"])
    assert f"chose {choice['chosen']}" in outcome.err
    again = cli(*command)
    assert "candidates on" in again.out
    assert "already in" in again.err


def test_options_of_a_method_need_a_method(cli: Cli) -> None:
    outcome = cli("run", "--dataset", "toy-groups", "--weighting", "fsw", "--held-out", "3")
    assert outcome.code == 2
    for flag in ("--weighting", "--held-out"):
        assert f"{flag} is for a method that you choose" in outcome.err


@pytest.mark.parametrize("command", [TOY, GROUPS])
def test_what_is_left_without_uncertain_predictions(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    outcome = cli(*command, "--abstain", "0.25", "--json", "--quiet")
    assert outcome.code == 0
    found = json.loads(outcome.out)["abstention"]
    assert found["share"] == 0.25
    rows = pd.read_csv(tmp_path / "out/seed-0/predictions.csv")
    last = rows[rows["after_task"] == 2]
    kept = last["probability"].rank(ascending=False, method="min") <= 0.75 * len(last)
    right = last["y_true"] == last["y_pred"]
    by = ["y_true", *(["attribute"] if "attribute" in last else [])]
    groups = {str(key): part for key, part in last.groupby(by)}
    assert len(found["groups"]) == len(groups) + 1
    for one, part in zip(found["groups"], (last, *groups.values()), strict=True):
        answered = kept[part.index]
        assert one["n"] == len(part)
        assert one["answered"] == pytest.approx(answered.mean())
        assert one["accuracy"] == pytest.approx(right[part.index].mean())
        if answered.any():
            accuracy = right[part.index][answered].mean()
            assert one["answered_accuracy"] == pytest.approx(accuracy)
    shown = cli(*command, "--abstain", "0.25").out
    assert "without the 25% of the predictions that are least certain" in shown
    assert "accuracy of the answered" in shown
    assert "worst group:" in shown
