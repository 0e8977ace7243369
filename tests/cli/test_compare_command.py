from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_outcome import Cli

RUN = ("run", "--dataset", "toy", "--quiet", "--set", "epochs=1")


@pytest.fixture
def runs(cli: Cli) -> None:
    """Make runs of fine-tuning, replay with two seeds, and FSW with two values of lam."""
    cli(*RUN, "--method", "finetune", "--out", "runs/finetune")
    cli(*RUN, "--method", "er", "--out", "runs/er", "--seeds", "0-1")
    for lam in ("0.1", "0.5"):
        cli(*RUN, "--method", "fsw", "--set", f"lam={lam}", "--out", f"runs/fsw-{lam}")


@pytest.mark.usefixtures("runs")
def test_one_row_per_configuration_with_the_best_starred(cli: Cli) -> None:
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
    stars = ["*" in row[2] for row in rows]
    assert sum(stars) == 1
    assert not stars[1]
    assert "* best mean" in outcome.out


@pytest.mark.usefixtures("runs")
def test_markdown(cli: Cli) -> None:
    lines = cli("compare", "runs/er", "runs/finetune", "--markdown").out.splitlines()
    assert lines[0] == "### toy"
    assert (
        lines[2] == "| method | seeds | accuracy | eer | eer_task | forgetting | steps | seconds |"
    )
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| er", "| finetune"]


def test_one_table_per_dataset(cli: Cli) -> None:
    cli(*RUN, "--method", "er")
    cli(*RUN, "--dataset", "toy-groups", "--method", "er")
    titles = [line.strip() for line in cli("compare", "runs").out.splitlines() if "toy" in line]
    assert titles == ["toy", "toy-groups"]


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "{", "summary.json is damaged"),
        ("summary.json", "[]", "summary.json was not written by this version of faircil"),
        ("summary.json", '{"label": "er"}', "was not written by this version of faircil"),
    ],
)
def test_broken_run_is_named(
    cli: Cli, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / "runs/er/seed-1" / name).write_text(content)
    outcome = cli("compare", "runs")
    assert outcome.code == 1
    assert message in outcome.err
    assert "runs/er/seed-1" in outcome.err
    assert "run it again, or remove its folder" in outcome.err


@pytest.mark.usefixtures("runs")
def test_summary_without_a_metric_is_of_another_version(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "runs/er/seed-1/summary.json"
    summary = json.loads(path.read_text())
    del summary["metrics"]["eer"]
    path.write_text(json.dumps(summary))
    assert "was not written by this version" in cli("compare", "runs").err


@pytest.mark.parametrize(
    ("folder", "message"),
    [("absent", "absent is not a folder"), ("empty", "empty holds no finished run")],
)
def test_no_runs(cli: Cli, tmp_path: Path, folder: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    outcome = cli("compare", folder)
    assert outcome.code == 1
    assert message in outcome.err
