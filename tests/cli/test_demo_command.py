from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import faircil.cli.demo
import faircil.cli.run_seeds  # before `resolve` is replaced: others use it as it is
import faircil.runs.config
from cli_outcome import Cli
from faircil.runs.config import RunConfig

DEMO = ("demo", "--seeds", "0", "--out", "shown")


@pytest.fixture(autouse=True)
def small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, digits = faircil.cli.demo.SCENES
    small = (toy, replace(digits, dataset="toy-groups"))
    monkeypatch.setattr(faircil.cli.demo, "SCENES", small)
    resolve = faircil.runs.config.resolve

    def short(method: str, **given: str) -> RunConfig:
        small = "width=20" if method == "moments" else "epochs=1"
        return resolve(method=method, overrides=[small], **given)  # type: ignore[arg-type]

    monkeypatch.setattr(faircil.runs.config, "resolve", short)


def test_table_and_figures(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*DEMO)
    assert outcome.code == 0
    for method in ("er", "fsw", "moments"):
        assert f"│ {method} " in outcome.out
        assert f"toy-groups {method} seed 0: task 2/2" in outcome.err
    assert "eo_gap: Equalized odds" in outcome.err
    assert "worst_group: Accuracy of the worst group" in outcome.err
    assert "worst group (final)" in outcome.out
    for dataset in ("toy", "toy-groups"):
        assert f"figures: shown/{dataset}.png, shown/{dataset}.svg" in outcome.err
        assert (tmp_path / f"shown/{dataset}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"shown/{dataset}.svg").read_text()
    assert outcome.err.splitlines()[-1].startswith("report: shown/report.html (")
    assert "Fairness report: toy-groups, toy" in (tmp_path / "shown/report.html").read_text("utf-8")
    # They show the worst group and the points of the plane.
    drawn = (tmp_path / "shown/toy.svg").read_text()
    for text in ("worst group", "er after the last task, seed 0", "predicted wrong"):
        assert f"<!-- {text}" in drawn


@pytest.mark.usefixtures("nothing_drawn")
def test_second_time_nothing_is_run(cli: Cli) -> None:
    first = cli(*DEMO, "--quiet")
    second = cli(*DEMO)
    assert first.err == ""
    assert second.out == first.out
    assert second.err.count("not run again: seed 0") == 6
    assert "seed 0: task" not in second.err


@pytest.mark.usefixtures("nothing_drawn")
def test_results_of_an_older_version_make_way(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr("faircil.sweep.work.code_digest", lambda _: "older")
        assert cli(*DEMO, "--quiet").code == 0
    outcome = cli(*DEMO)
    assert outcome.code == 0
    assert "fsw seed 0: task 2/2" in outcome.err


def test_a_folder_that_was_never_a_run_is_not_deleted(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "shown/toy/er/seed-0"
    mine.mkdir(parents=True)
    (mine / "photo.jpg").write_text("mine")
    other = mine.with_name("seed-7")
    other.mkdir()
    (other / "config.json").write_text("{}")
    outcome = cli(*DEMO)
    assert outcome.code == 1
    assert "shown/toy/er/seed-0 was not written by faircil" in outcome.err
    assert (mine / "photo.jpg").read_text() == "mine"
    assert (other / "config.json").read_text() == "{}"
