from __future__ import annotations

from pathlib import Path

import pytest

from cli_outcome import Cli
from faircil.sweep import sweep
from faircil.sweep.work import Outcome
from faircil_lab.paper import exhibits
from made_tables import TABLE, make, put_files


@pytest.fixture(autouse=True)
def sweeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Make runs at once; remember how many each sweep had, those that are not to be made too."""
    sizes: list[int] = []

    def finish(works, options, *_, **__):
        sizes.append(len(works))
        return [
            Outcome(work, make(work)) if options.run_missing else Outcome(work, None, "not there")
            for work in works
        ]

    monkeypatch.setattr(sweep, "finish", finish)
    monkeypatch.setattr(exhibits, "EXHIBITS", {"small": TABLE, "other": TABLE})
    put_files(tmp_path / "data")
    return sizes


def test_it_writes_a_page_and_prints_its_table(cli: Cli, tmp_path: Path, sweeps: list[int]):
    outcome = cli("reproduce", "small", "-o", "pages")
    assert outcome.code == 0
    for word in ("MNIST (EER)", "accuracy: paper", "ours", "verdict", "same", "FSW − replay"):
        assert word in outcome.out
    assert "**" not in outcome.out
    assert "saved in pages" in outcome.err
    assert "Published values of FSW: 2 same, 2 not run." in outcome.err
    assert [file.name for file in (tmp_path / "pages").iterdir()] == ["small.md"]
    assert sweeps == [20]


def test_all_writes_an_index(cli: Cli, tmp_path: Path):
    assert cli("reproduce", "all", "--quiet").code == 0
    folder = tmp_path / "docs" / "reproduction"
    assert {file.name for file in folder.iterdir()} == {"README.md", "small.md", "other.md"}


def test_only_finished_runs_nothing(cli: Cli, tmp_path: Path):
    outcome = cli("reproduce", "small", "--only-finished", "-o", "pages")
    assert outcome.code == 0
    assert "Not run yet" in outcome.err
    assert "Not run: not there (all)." in (tmp_path / "pages" / "small.md").read_text("utf-8")


def test_seeds_and_settings_are_passed_on(cli: Cli, tmp_path: Path, sweeps: list[int]):
    cli("reproduce", "small", "--seeds", "0-1,7", "--settings", "tuned", "-o", "pages")
    assert sweeps[0] == 3 * 12  # random weights have the settings of FSW
    assert sweeps[-1] == 4 * 3
    text = (tmp_path / "pages" / "small.md").read_text("utf-8")
    assert "--seeds 0,1,7" in text


def test_the_list_names_all(cli: Cli, sweeps: list[int]):
    outcome = cli("reproduce", "--list")
    assert outcome.code == 0
    assert "small" in outcome.out
    assert TABLE.paper in outcome.out
    assert sweeps == []


def test_all_mistakes_are_named_at_once(cli: Cli, sweeps: list[int]):
    outcome = cli("reproduce", "smal", "nothing", "--seeds", "x", "--jobs", "0")
    assert outcome.code == 2
    for part in ("did you mean 'small'?", "'nothing'", "--seeds 'x'", "--jobs is 0"):
        assert part in outcome.err
    assert sweeps == []
    assert "give names" in cli("reproduce").err
    assert "unknown KIND 'best'" in cli("reproduce", "small", "--settings", "best").err
