"""Several processes, several commands, and commands that are killed, on one folder."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from cli_outcome import Cli, run_words
from faircil.cli import run_seeds
from faircil.results.folder import find_runs
from faircil.results.record import RunSummary
from kills import bytes_of
from processes import Command, die_with_the_first_run, interrupt_with_the_first_run

TOY = run_words("er", "toy", "--out", "out", epochs=2)


def seeds_in(folder: Path) -> list[int]:
    """Return the seeds of a folder, every run of which is complete."""
    return sorted(run.seed for run in find_runs([folder]))


def metrics_of(text: str) -> list[tuple[int, float]]:
    return [(run["seed"], run["accuracy"]) for run in json.loads(text)["runs"]]


@pytest.mark.usefixtures("quick_processes")
def test_seeds_side_by_side_give_the_same_result(cli: Cli, tmp_path: Path) -> None:
    one = cli(*TOY, "--seeds", "0-1", "--json", "--quiet")
    several = cli(*TOY, "--seeds", "0-1", "--json", "--out", "other", "--jobs", "2")
    for seed in (0, 1):
        assert f"model of seed {seed}: 0.1 MB in other/seed-{seed}/model" in several.err
    assert several.code == 0
    assert metrics_of(several.out) == metrics_of(one.out)
    for seed in ("seed-0", "seed-1"):
        assert bytes_of(tmp_path / "other" / seed) == bytes_of(tmp_path / "out" / seed)
    assert "2 of 2 runs" in several.err
    assert seeds_in(tmp_path / "other") == [0, 1]
    again = cli(*TOY, "--seeds", "0-2", "--out", "other", "--jobs", "2")
    assert "not run again: seed 0, 1" in again.err
    assert "er seed 2: task 2/2" in again.err  # one that is left is shown in full


def test_jobs_must_be_a_number_of_processes(cli: Cli) -> None:
    outcome = cli(*TOY, "--jobs", "0")
    assert outcome.code == 2
    assert "--jobs is 0, expected at least 1" in outcome.err


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_two_commands_on_one_folder(tmp_path: Path, force: tuple[str, ...]) -> None:
    command = (*TOY, "--seeds", "0-2", "--json", *force)
    both = [Command(tmp_path, *command) for _ in range(2)]
    said = [one.end() for one in both]
    assert [outcome.code for outcome in said] == [0, 0], said
    first, second = (metrics_of(outcome.out) for outcome in said)
    assert first == second
    assert [seed for seed, _ in first] == [0, 1, 2]
    assert seeds_in(tmp_path / "out") == [0, 1, 2]
    made = [outcome.err.count("task 2/2") for outcome in said]
    assert sum(made) == (6 if force else 3), said
    if not force:
        assert "Traceback" not in said[0].err + said[1].err


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_killed_command_is_continued(cli: Cli, tmp_path: Path) -> None:
    words = (*TOY, "--seeds", "0-2", "--jobs", "2")
    killed = Command(tmp_path, *words, prepare=die_with_the_first_run).end()
    assert killed.code == -signal.SIGKILL  # its other process finishes what it has begun
    assert "1 of 3 runs" in killed.err
    outcome = cli(*TOY, "--seeds", "0-2")
    assert outcome.code == 0
    assert "not run again: seed" in outcome.err
    assert seeds_in(tmp_path / "out") == [0, 1, 2]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_runs_that_another_process_ends_meanwhile_are_taken(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    assert cli(*TOY, "--seeds", "0-1").code == 0
    monkeypatch.setattr(run_seeds, "look", lambda *_: None)  # they were not there yet
    outcome = cli(*TOY, "--seeds", "0-1", "--jobs", jobs)
    assert outcome.code == 0, outcome.err
    assert "task 1/2" not in outcome.err


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for a child there")
def test_ctrl_c_with_several_processes(tmp_path: Path) -> None:
    words = (*TOY, "--seeds", "0-5", "--jobs", "2")
    done = Command(tmp_path, *words, prepare=interrupt_with_the_first_run).end()
    assert done.code == 130
    assert done.out == ""
    assert "1 of 6 runs" in done.err
    assert "finished: seed " in done.err
    assert "the same command continues from there" in done.err
    assert "Traceback" not in done.err
    assert seeds_in(tmp_path / "out")


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_that_was_never_a_run_stays(
    cli: Cli, tmp_path: Path, force: tuple[str, ...]
) -> None:
    mine = tmp_path / "out" / "seed-0" / "photo.jpg"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    outcome = cli(*TOY, *force)
    assert outcome.code == 1
    assert "out/seed-0" in outcome.err
    assert "--out" in outcome.err
    assert "task 1/2" not in outcome.err  # it is noticed before the training
    assert mine.read_text() == "mine"
    if force:
        assert cli(*TOY, *force, "--seeds", "1").code == 0
        assert mine.read_text() == "mine"


def edit(path: Path) -> None:
    run = json.loads((path / "summary.json").read_text())
    run["metrics"]["accuracy"] = 0.999
    (path / "summary.json").write_text(json.dumps(run))


def test_an_altered_seed_is_named_and_replaced_with_force(cli: Cli, tmp_path: Path) -> None:
    before = metrics_of(cli(*TOY, "--json").out)
    edit(tmp_path / "out" / "seed-0")
    refused = cli(*TOY, "--json")
    assert (refused.code, refused.out) == (1, "")
    assert "out/seed-0 was altered after it was written: summary.json" in refused.err
    assert "choose another folder with --out, or replace it with --force" in refused.err
    assert metrics_of(cli(*TOY, "--json", "--force").out) == before


def test_a_copied_seed_is_named(cli: Cli, tmp_path: Path) -> None:
    cli(*TOY)
    (tmp_path / "out" / "seed-0").rename(tmp_path / "out" / "seed-1")
    outcome = cli(*TOY, "--seeds", "1")
    assert outcome.code == 1
    assert "seed-1 has another seed" in outcome.err


def test_diverged_seeds_are_named_and_the_others_kept(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faircil.errors import DivergedError
    from faircil.sweep import processes

    real = processes.make_run

    def diverges(work: processes.Work, *arguments: object, **options: object) -> RunSummary:
        if work.seed == 1:
            raise DivergedError("training diverged; use `lr=0.001`")
        return real(work, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(processes, "make_run", diverges)
    for _ in range(2):  # the second time, nothing is run
        outcome = cli(*TOY, "--seeds", "0-2")
        assert outcome.code == 1
        assert "finished: seed 0, 2 in out" in outcome.err
        assert "error: seed 1: training diverged; use --set lr=0.001" in outcome.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli(*TOY, "--seeds", "0-2", "--force").code == 0
    assert seeds_in(tmp_path / "out") == [0, 1, 2]
