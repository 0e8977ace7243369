from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_results import cost, small_program
from cli_outcome import Cli
from faircil.cli import main
from faircil.errors import FaircilError
from faircil.sweep.work import Work
from faircil_lab.bench import epoch_costs, lp, lp_programs, sweeps, whole_runs
from faircil_lab.bench.sweeps import Processes, SweepCost
from faircil_lab.bench.whole_runs import RunCost, TimedMethod
from faircil_lab.cli.bench import ACTIONS
from sweep_costs import cost as sweep_cost

LP = ("bench", "lp", "a.npz", "--solvers", "exact", "highs", "--repeats", "1")
RUN = ("bench", "run", "--dataset", "toy", "--methods", "er", "fsw", "--repeats", "1")
SWEEP = ("bench", "sweep", "--dataset", "toy", "--methods", "er", "fsw", "--seeds", "0-4")


@pytest.fixture(autouse=True)
def a_file(tmp_path: Path) -> None:
    program = small_program()
    np.savez(tmp_path / "a.npz", **{name: getattr(program, name) for name in lp_programs.ARRAYS})


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(contender: TimedMethod, repeat: int, device: str) -> RunCost:
        return cost(contender.name, 2.0, dataset=contender.dataset, repeat=repeat)

    monkeypatch.setattr(whole_runs, "run_once", fake)


@pytest.fixture
def fake_sweeps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Processes, list[Work]]]:
    made: list[tuple[Processes, list[Work]]] = []

    def fake(works: list[Work], case: Processes, repeat: int) -> SweepCost:
        made.append((case, works))
        return sweep_cost(case, 12.0 / case.jobs, repeat=repeat)

    monkeypatch.setattr(sweeps, "measure_case", fake)
    return made


@pytest.mark.parametrize("action", ACTIONS)
def test_help_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stopped:
        main(["bench", action, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: faircil bench {action}")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_lp_writes_files_and_prints_tables(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*LP, "--sizes", "30", "60", "--page", "docs/speed.md")
    assert outcome.code == 0
    for words in ("n = 30", "n = 60", "exact", "highs", "Growth"):
        assert words in outcome.out
    assert "n = 60, a: exact" in outcome.err
    assert outcome.err.endswith("saved in bench/lp\n")
    names = {"results.json", "results.csv", "time.png", "time.svg", "page.md"}
    assert {file.name for file in (tmp_path / "bench" / "lp").iterdir()} == names
    page = (tmp_path / "docs" / "speed.md").read_text("utf-8")
    command = "faircil bench lp a.npz --solvers exact highs --repeats 1 --sizes 30 60"
    assert f"```\n{command}\n```" in page
    assert (tmp_path / "docs" / "images" / "speed-time.svg").is_file()


@pytest.mark.usefixtures("nothing_drawn")
def test_lp_json_is_one_document_and_the_file(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*LP, "--json", "--quiet", "--out", "x")
    assert outcome.code == 0
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert document == json.loads((tmp_path / "x" / "results.json").read_text("utf-8"))
    assert [item["solver"] for item in document["measurements"]] == ["exact", "highs"]
    assert all(abs(item["gap"]) <= 1e-9 for item in document["measurements"])
    assert document["summary"][1]["ratio"] == pytest.approx(1.0)
    assert document["environment"]["command"].startswith("faircil bench lp a.npz")
    assert document["complete"] is True


@pytest.mark.usefixtures("nothing_drawn")
def test_lp_without_files_records_real_programs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lp_programs, "RUNS", (("toy", "eer"),))
    outcome = cli("bench", "lp", "--solvers", "highs", "--repeats", "1", "--sizes", "50", "--json")
    assert outcome.code == 0
    assert "recording the programs of a short run: toy, eer" in outcome.err
    (item,) = json.loads(outcome.out)["measurements"]
    assert (item["program"], item["n"], item["size"]) == ("toy eer, task 2", 50, 50)


def test_all_mistakes_of_lp_at_once(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "part.npz", cost=np.ones(2))
    outcome = cli(
        "bench", "lp", "absent.npz", "part.npz", "--solvers", "higs", "--sizes", "0", "x",
        "--repeats", "0", "--threads", "0", "--limit", "-1",
    )  # fmt: skip
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert lines[0] == "error:"
    assert len(lines) == 9
    for words in (
        "absent.npz: there is no such file",
        "part.npz: arrays are missing: gap_rows, gap_offsets, floor_rows, floor_offsets",
        "unknown solver 'higs': did you mean 'highs'?",
        "'0' is not between 1 and",
        "'x' is no number of columns",
        "--repeats is 0",
        "--threads is 0",
        "--limit is -1",
    ):
        assert words in outcome.err
    assert outcome.out == ""
    assert not (tmp_path / "bench").exists()


@pytest.mark.usefixtures("nothing_drawn")
@pytest.mark.parametrize(
    ("error", "code", "last"),
    [(KeyboardInterrupt(), 130, "interrupted\n"), (FaircilError("full"), 1, "error: full\n")],
)
def test_what_was_measured_stays(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: BaseException,
    code: int,
    last: str,
) -> None:
    measure = lp.measure

    def stopped(*arguments: Any) -> Iterator[Any]:
        yield next(measure(*arguments))
        raise error

    monkeypatch.setattr(lp, "measure", stopped)
    outcome = cli(*LP, "--json", "--quiet")
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err == f"what was measured so far is in bench/lp\n{last}"
    document = json.loads((tmp_path / "bench" / "lp" / "results.json").read_text("utf-8"))
    assert document["complete"] is False
    assert len(document["measurements"]) == 1


@pytest.mark.usefixtures("nothing_drawn")
def test_nothing_measured_keeps_what_is_there(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*_: Any) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield

    assert cli(*LP, "--quiet").code == 0
    before = (tmp_path / "bench" / "lp" / "results.json").read_text()
    monkeypatch.setattr(lp, "measure", stopped)
    assert cli(*LP).code == 130
    assert (tmp_path / "bench" / "lp" / "results.json").read_text() == before


def test_programs_that_no_solver_solves(cli: Cli, tmp_path: Path) -> None:
    program = small_program(m=1)
    arrays = {name: getattr(program, name) for name in lp_programs.ARRAYS}
    np.savez(tmp_path / "a.npz", **(arrays | {"floor_offsets": np.array([-1000.0])}))
    outcome = cli("bench", "lp", "a.npz", "--solvers", "highs", "--quiet")
    assert outcome.code == 1
    assert "highs at the programs' own sizes on 1 program(s)" in outcome.err
    assert not list((tmp_path / "bench" / "lp").iterdir())


def test_folder_that_cannot_be_written_is_found_before(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = cli(*LP, "--out", "file/x")
    assert outcome.code == 1
    assert "cannot write to file/x" in outcome.err


@pytest.mark.usefixtures("fake_runs")
def test_run_writes_files_and_prints_tables(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(epoch_costs, "FACTORS", {"samples": (20, 40)})
    monkeypatch.setattr(epoch_costs, "STEPS", 1)
    outcome = cli(*RUN, "--scale", "--page", "docs/speed.md", "--device", "cpu")
    assert outcome.code == 0
    for words in ("against er", "LP share", "Statistics of an epoch", "Growth with samples"):
        assert words in outcome.out
    for words in ("toy fsw, run 1: 2.00 s", "toy task 2: forward", "40 samples: statistics"):
        assert words in outcome.err
    page = (tmp_path / "docs" / "speed.md").read_text("utf-8")
    command = "faircil bench run --dataset toy --methods er fsw --repeats 1 --scale --device cpu"
    assert f"```\n{command}\n```" in page
    assert {file.name for file in (tmp_path / "docs" / "images").iterdir()} == {
        f"speed-{name}.{kind}" for name in ("split", "growth") for kind in ("png", "svg")
    }


@pytest.mark.usefixtures("nothing_drawn", "fake_runs")
def test_run_json(cli: Cli) -> None:
    outcome = cli(*RUN, "--json", "--quiet")
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert [row["method"] for row in document["summary"]] == ["er", "fsw"]
    assert document["growth"] == []


def test_all_mistakes_of_run_at_once(cli: Cli) -> None:
    outcome = cli(
        "bench", "run", "--dataset", "tooy", "--methods", "fws", "--repeats", "0",
        "--scale", "sampels", "--set", "lr=0", "--device", "tpu",
    )  # fmt: skip
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 7
    for words in ("'tooy'", "'fws'", "--repeats is 0", "'sampels'", "lr=0", "device 'tpu'"):
        assert words in outcome.err


def test_dataset_without_its_files(cli: Cli) -> None:
    outcome = cli("bench", "run", "--dataset", "drug")
    assert outcome.code == 1
    assert "drug_consumption.data is missing: run `faircil data fetch drug`" in outcome.err


def test_sweep_writes_files_and_prints_tables(
    cli: Cli, fake_sweeps: list[tuple[Processes, list[Work]]], tmp_path: Path
) -> None:
    outcome = cli(*SWEEP, "--alone", "--set", "epochs=1", "--page", "docs/speed.md")
    assert outcome.code == 0
    for words in ("runs per second", "against the first", "load data", "idle at the end"):
        assert words in outcome.out
    for words in (
        "10 runs each with a new process for each run, then with 1",
        "2 processes on the",
    ):
        assert words in outcome.err
    assert "\n1 process on the CPU, round 1: 10 runs in 12.0 s\n" in outcome.err
    assert [case for case, _ in fake_sweeps] == [Processes(alone=True), Processes(1), Processes(2)]
    works = fake_sweeps[0][1]
    assert {work.config.settings.training.epochs for work in works} == {1}
    assert {work.config.evaluate_on for work in works} == {"validation"}
    names = {"results.json", "results.csv", "time.png", "time.svg", "page.md"}
    assert {file.name for file in (tmp_path / "bench" / "sweep").iterdir()} == names
    page = (tmp_path / "docs" / "speed.md").read_text("utf-8")
    command = (
        "faircil bench sweep --dataset toy --methods er fsw --seeds 0-4 --alone --set epochs=1"
    )
    assert f"```\n{command}\n```" in page
    assert (tmp_path / "docs" / "images" / "speed-time.svg").is_file()


@pytest.mark.usefixtures("nothing_drawn", "fake_sweeps")
def test_sweep_json(cli: Cli) -> None:
    outcome = cli(*SWEEP, "--jobs", "2", "4", "--repeats", "3", "--json", "--quiet")
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert [row["speedup"] for row in document["summary"]] == [1.0, 2.0]
    assert len(document["sweeps"]) == 6


def test_all_mistakes_of_sweep_at_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    outcome = cli(
        "bench", "sweep", "--dataset", "tooy", "--methods", "fws", "--seeds", "4-0", "--jobs", "0",
        "--gpu-jobs", "1", "--repeats", "0",
    )  # fmt: skip
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 7
    for words in ("'tooy'", "'fws'", "'4-0'", "--jobs is 0", "needs a GPU", "--repeats is 0"):
        assert words in outcome.err


def test_sweep_needs_the_files_of_its_datasets(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("bench", "sweep", "--dataset", "drug")
    assert outcome.code == 1
    assert "drug_consumption.data is missing: run `faircil data fetch drug`" in outcome.err
    assert not (tmp_path / "bench").exists()  # found before anything is measured


@pytest.mark.usefixtures("nothing_drawn")
def test_sweeps_measured_so_far_stay(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(works: list[Work], case: Processes, repeat: int) -> SweepCost:
        if case.jobs == 2:
            raise FaircilError("toy er seed 0: not enough memory")
        return sweep_cost(case, 12.0)

    monkeypatch.setattr(sweeps, "measure_case", stopped)
    outcome = cli(*SWEEP, "--quiet")
    assert outcome.code == 1
    assert outcome.err.endswith("error: toy er seed 0: not enough memory\n")
    document = json.loads((tmp_path / "bench" / "sweep" / "results.json").read_text("utf-8"))
    assert document["complete"] is False
    assert len(document["sweeps"]) == 1
