from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from cli_outcome import Cli, run_words
from faircil.files import write_checksums
from faircil.report import format_value
from faircil.results.record import RunSummary
from run_summaries import make_run

RUN = run_words("fsw", "toy", "--quiet", epochs=1)


@pytest.fixture
def runs(cli: Cli) -> None:
    """Make runs of fine-tuning, replay with two seeds, and FSW with two values of lam."""
    cli(*RUN, "--method", "finetune", "--out", "runs/finetune")
    cli(*RUN, "--method", "er", "--out", "runs/er", "--seeds", "0-1")
    for lam in ("0.1", "0.5"):
        cli(*RUN, "--method", "fsw", "--set", f"lam={lam}", "--out", f"runs/fsw-{lam}")


@pytest.mark.usefixtures("runs")
def test_one_row_per_configuration(cli: Cli) -> None:
    outcome = cli("compare", "runs")
    assert outcome.code == 0
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in outcome.out.splitlines()
        if line.startswith("│")
    ]
    assert [row[:2] for row in rows] == [
        ["er", "2"], ["finetune", "1"], ["fsw lam=0.1", "1"], ["fsw lam=0.5", "1"],
    ]  # fmt: skip
    assert "±" in rows[0][2]
    assert "±" not in rows[1][2]


def test_best_and_those_among_the_best(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = {
        "er": (0.50, 0.52, 0.51),
        "agem": (0.80, 0.83, 0.81),
        "fsw": (0.81, 0.82, 0.82),
        "finetune": (0.99, 0.98, 0.99),
    }
    runs = {
        method: [make_run(method, seed=seed, accuracy=value) for seed, value in enumerate(values)]
        for method, values in accuracies.items()
    }

    def find(folders: list[Path]) -> list[RunSummary]:
        return [run for folder in folders for run in runs[folder.name]]

    monkeypatch.setattr("faircil.results.folder.find_runs", find)
    out = cli("compare", *runs).out
    assert "│   .813 ± .015 ° │" in out
    assert "│   .817 ± .006 ° │" in out
    assert "│     .510 ± .010 │" in out
    assert "│     .987 ± .006 │" in out
    assert "°: the best mean and the next ones" in out
    better = cli("compare", "er", "fsw", "finetune", "--markdown").out
    assert "| **.817 ± .006** |" in better
    assert "\n\nbold: significantly better than all others" in better


@pytest.mark.usefixtures("runs")
def test_one_seed_tells_nothing(cli: Cli) -> None:
    out = cli("compare", "runs/fsw-0.1", "runs/fsw-0.5").out
    assert "nothing is marked: methods are tested only over 3 or more common seeds" in out
    assert "°" not in out
    assert "*" not in out


@pytest.mark.usefixtures("runs")
def test_markdown(cli: Cli) -> None:
    lines = cli("compare", "runs/er", "runs/finetune", "--markdown").out.splitlines()
    assert lines[0] == "### toy"
    assert lines[2] == (
        "| method | seeds | accuracy (mean) | accuracy (final) | worst group (final) | eer | "
        "eer_task | forgetting | steps | seconds |"
    )
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| er", "| finetune"]


def test_one_table_per_dataset(cli: Cli) -> None:
    cli(*RUN, "--method", "er")
    cli(*RUN, "--dataset", "toy-groups", "--method", "er")
    titles = [line.strip() for line in cli("compare", "runs").out.splitlines() if "toy" in line]
    assert titles == ["toy", "toy-groups"]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("content", ["{", "[]", '{"label": "er"}'])
def test_altered_run_is_named(cli: Cli, tmp_path: Path, content: str) -> None:
    (tmp_path / "runs/er/seed-1/summary.json").write_text(content)
    outcome = cli("compare", "runs")
    assert outcome.code == 1
    assert "runs/er/seed-1 was altered after it was written: summary.json" in outcome.err
    assert "run it again, or remove its folder" in outcome.err


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("command", [("compare", "runs"), ("postprocess", "runs")])
def test_an_edited_figure_is_named(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "runs/er/seed-1/summary.json"
    summary = json.loads(path.read_text())
    summary["metrics"]["accuracy"] = 0.999
    path.write_text(json.dumps(summary))
    outcome = cli(*command)
    assert outcome.code == 1
    assert "runs/er/seed-1 was altered" in outcome.err
    assert ".999" not in outcome.out


@pytest.mark.usefixtures("runs")
def test_a_seed_without_a_summary_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "runs/er/seed-1/summary.json").unlink()
    outcome = cli("compare", "runs")
    assert outcome.code == 1
    assert "runs/er/seed-1/summary.json is missing" in outcome.err


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("part", "name"), [("metrics", "accuracy"), ("seconds", "total"), ("config", "method")]
)
def test_summary_that_lacks_a_number_is_of_another_version(
    cli: Cli, tmp_path: Path, part: str, name: str
) -> None:
    path = tmp_path / "runs/er/seed-1/summary.json"
    summary = json.loads(path.read_text())
    del summary[part][name]
    path.write_text(json.dumps(summary))
    (path.parent / "SHA256SUMS").unlink()
    write_checksums(path.parent)
    assert "was not written by this version" in cli("compare", "runs").err


@pytest.mark.usefixtures("runs")
def test_run_of_an_earlier_version_is_read_with_what_it_has(cli: Cli, tmp_path: Path) -> None:
    """It lacks newer metrics and its groups; the final accuracy is in what it recorded."""
    final = []
    for path in (tmp_path / "runs/er").rglob("summary.json"):
        summary = json.loads(path.read_text())
        del summary["groups"]
        for values in (summary["metrics"], *summary["per_task"]):
            del values["final_accuracy"], values["worst_group"]
        final.append(summary["per_task"][-1]["accuracy"])
        path.write_text(json.dumps(summary))
        (path.parent / "SHA256SUMS").unlink()
        write_checksums(path.parent)
    header, _, row = cli("compare", "runs/er", "--markdown").out.splitlines()[2:5]
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert cells["accuracy (final)"] == format_value(mean(final), stdev(final))
    assert "worst group (final)" not in cells


@pytest.mark.parametrize(
    ("folder", "message"),
    [("absent", "absent is not a folder"), ("empty", "empty holds no finished run")],
)
def test_no_runs(cli: Cli, tmp_path: Path, folder: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    outcome = cli("compare", folder)
    assert outcome.code == 1
    assert message in outcome.err
