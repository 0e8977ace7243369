from __future__ import annotations

from pathlib import Path

import pytest

from faircil.errors import DataError, FaircilError
from faircil.results.folder import write_run
from faircil.results.reuse import claim, default_folder, finished_runs, remove_others, seed_folder
from run_results import CONFIG, make_result

OTHER = CONFIG | {"measure": "dp"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in (0, 10):
        write_run(seed_folder(tmp_path, seed), make_result(seed), {})
    return tmp_path


def test_default_folder_depends_on_every_part_of_the_configuration() -> None:
    folder = default_folder(CONFIG, "fsw")
    assert folder.parent == Path("runs/made")
    assert folder.name.startswith("fsw-eo-")
    assert default_folder(CONFIG | {"data_sha256": "1"}, "fsw") != folder


def test_runs_of_the_same_configuration_are_found_by_seed(folder: Path) -> None:
    found = finished_runs(folder, CONFIG)
    assert {seed: run.seed for seed, run in found.items()} == {0: 0, 10: 10}


def test_what_is_no_run_is_ignored(folder: Path) -> None:
    (folder / "seed-bank").mkdir()
    (folder / ".seed-3.partial").mkdir()
    assert finished_runs(folder, CONFIG).keys() == {0, 10}
    assert finished_runs(folder / "absent", CONFIG) == {}


def test_another_configuration_is_refused(folder: Path) -> None:
    with pytest.raises(FaircilError, match="seed-0 has another configuration; choose another"):
        finished_runs(folder, OTHER)


def test_run_by_other_code_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircil.results.folder.code_digest", lambda: "newer")
    with pytest.raises(FaircilError, match="seed-0 has another code"):
        finished_runs(folder, CONFIG)


def test_moved_run_is_refused(folder: Path) -> None:
    (folder / "seed-0").rename(folder / "seed-1")
    with pytest.raises(FaircilError, match="seed-1 has another seed"):
        finished_runs(folder, CONFIG)


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_damaged_run_is_refused_or_replaced(folder: Path, name: str) -> None:
    (folder / "seed-0" / name).write_text("{")
    with pytest.raises(DataError, match=r"is damaged.*--out, or replace it with --force"):
        finished_runs(folder, CONFIG)
    assert finished_runs(folder, CONFIG, replace=True).keys() == {10}


def test_only_other_runs_are_removed(folder: Path) -> None:
    write_run(seed_folder(folder, 1), make_result(1, measure="dp"), {})
    (folder / "mine").mkdir()
    remove_others(folder, CONFIG)
    assert sorted(path.name for path in folder.iterdir()) == ["mine", "seed-0", "seed-10"]


def test_file_and_single_run_are_no_folders_for_runs(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(FaircilError, match="file is a file"):
        finished_runs(folder / "file", CONFIG, replace=True)
    with pytest.raises(FaircilError, match="seed-0 is itself a finished run"):
        finished_runs(folder / "seed-0", CONFIG, replace=True)


def test_claim_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    claim(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(FaircilError, match=r"cannot write to .*file/b: Not a directory"):
        claim(tmp_path / "file" / "b")
