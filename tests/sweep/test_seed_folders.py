"""One folder for the runs of one configuration, as ``faircil run --out`` fills it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from faircil.errors import DataError, FaircilError, StorageError
from faircil.files import claim
from faircil.model.saved import keep_model
from faircil.results.folder import remove_run, restore_run, seed_folder, write_run
from faircil.sweep.store import (
    Store,
    check_folder,
    check_others,
    check_place,
    default_folder,
    remove_others,
)
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Work
from run_results import CONFIG, make_result
from sweeps import small_work

OTHER = {"tau": 2.0}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    finish([small_work(0), small_work(10)], SweepOptions(folder=folder))
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def shown(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_default_folder_depends_on_every_part_of_the_configuration() -> None:
    folder = default_folder(CONFIG, "fsw", "abc")
    assert folder.parent == Path("runs/made")
    assert folder.name.startswith("fsw-eo-")
    assert default_folder(CONFIG | {"data_sha256": "1"}, "fsw", "abc") != folder
    assert default_folder(CONFIG, "fsw", "abd") != folder


def test_runs_of_the_same_configuration_are_found_by_seed(folder: Path) -> None:
    check_folder(folder, small_work())
    for seed in (0, 10):
        found = Store(folder=folder).find(small_work(seed))
        assert found is not None
        assert found.run is not None
        assert found.run.seed == seed


def test_what_is_no_run_is_ignored(folder: Path) -> None:
    (folder / "seed-bank").mkdir()
    (folder / ".seed-3.partial").mkdir()
    check_folder(folder, small_work())
    check_folder(folder / "absent", small_work())
    assert Store(folder=folder).find(small_work(3)) is None


def test_another_configuration_is_refused(folder: Path) -> None:
    with pytest.raises(FaircilError, match="seed-0 has another configuration"):
        check_folder(folder, small_work(**OTHER))
    with pytest.raises(FaircilError, match="seed-0 has another configuration"):
        Store(folder=folder).find(small_work(**OTHER))


def test_run_by_other_code_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircil.sweep.work.code_digest", lambda _: "newer")
    with pytest.raises(FaircilError, match="seed-0 has another code"):
        check_folder(folder, small_work())


def test_another_version_with_the_same_code_is_the_same_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircil.__version__", "99.0")
    check_folder(folder, small_work())


def test_moved_run_is_refused(folder: Path) -> None:
    (folder / "seed-0").rename(folder / "seed-1")
    with pytest.raises(FaircilError, match="seed-1 has another seed"):
        check_folder(folder, small_work())


@pytest.mark.parametrize("name", ["config.json", "summary.json", "SHA256SUMS"])
def test_damaged_run_is_refused_or_replaced(folder: Path, name: str) -> None:
    (folder / "seed-0" / name).write_text("{")
    with pytest.raises(DataError, match=r"seed-0 was altered after it was written"):
        check_folder(folder, small_work())
    refused = finish([small_work()], SweepOptions(folder=folder, replace=False))
    assert "was altered" in str(refused[0].problem)
    assert refused[0].kind is DataError
    replaced = finish([small_work()], SweepOptions(folder=folder))
    assert replaced[0].run is not None
    assert "was altered" in str(replaced[0].replaced)
    check_folder(folder, small_work())


def test_only_other_runs_are_removed(folder: Path) -> None:
    write_run(seed_folder(folder, 1), make_result(1), {})
    for mine in ("mine", "seed-2"):
        (folder / mine).mkdir()
        (folder / mine / "config.json").write_text("{}")
    remove_others(folder, small_work())
    assert shown(folder) == ["mine", "seed-0", "seed-10", "seed-2"]


def test_a_run_that_another_process_is_writing_is_not_removed(folder: Path) -> None:
    write_run(seed_folder(folder, 1), make_result(1), {})
    with Store(folder=folder).alone(small_work(1)) as mine:
        assert mine
        remove_others(folder, small_work())
    assert shown(folder) == ["seed-0", "seed-1", "seed-10"]


@pytest.mark.parametrize("content", ["photo.jpg", "config.json", "summary.json"])
@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_was_never_a_run_is_not_replaced(
    tmp_path: Path, content: str, again: bool
) -> None:
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / content).write_text('{"mine": 1}')
    with pytest.raises(FaircilError, match="seed-0 was not written by faircil"):
        finish([small_work()], SweepOptions(folder=tmp_path, again=again))
    with pytest.raises(StorageError, match="seed-0 was not written by faircil"):
        write_run(tmp_path / "seed-0", make_result(), {})
    remove_run(tmp_path / "seed-0")
    assert [path.name for path in (tmp_path / "seed-0").iterdir()] == [content]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("notes.txt", "notes.txt"), ("plots/a.png", "plots,"), ("model/w.bin", "model/w.bin")],
)
def test_files_that_somebody_put_into_a_run_are_not_lost(
    folder: Path, name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = folder / "seed-0" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    found = finish([small_work()], SweepOptions(folder=folder))
    assert found[0].run is not None
    message = f"seed-0 also has files that are no part of the run, such as {shown}"
    trained: list[object] = []
    monkeypatch.setattr("faircil.sweep.work.run", trained.append)
    with pytest.raises(StorageError, match=message):
        finish([small_work()], SweepOptions(folder=folder, again=True))
    with pytest.raises(StorageError, match=message):
        check_others(folder, small_work(**OTHER))
    with pytest.raises(StorageError, match=message):
        remove_others(folder, small_work(**OTHER))
    with pytest.raises(StorageError, match=message):
        write_run(folder / "seed-0", make_result(), {})
    (folder / "seed-0" / "config.json").write_text("{")
    with pytest.raises(StorageError, match=message):
        finish([small_work()], SweepOptions(folder=folder))
    assert mine.read_text() == "mine"
    assert not trained


def test_marks_of_file_managers_and_the_model_go_with_a_run(folder: Path) -> None:
    options = SweepOptions(folder=folder, again=True, keep=keep_model)
    for _ in range(2):
        assert finish([small_work()], options)[0].run is not None
        assert (folder / "seed-0" / "model" / "card.md").exists()
        (folder / "seed-0" / ".DS_Store").touch()


def test_a_file_in_the_place_of_a_run_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "seed-0").write_text("mine")
    with pytest.raises(StorageError, match="seed-0 was not written by faircil"):
        finish([small_work()], SweepOptions(folder=tmp_path))
    assert (tmp_path / "seed-0").read_text() == "mine"


def test_an_empty_folder_is_a_place_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "seed-0").mkdir()
    assert finish([small_work()], SweepOptions(folder=tmp_path))[0].run is not None


def test_a_run_comes_back_if_its_replacement_was_stopped_half_way(folder: Path) -> None:
    (folder / "seed-0").rename(folder / ".seed-0.old")
    restore_run(folder / "seed-0")
    check_folder(folder, small_work())
    (folder / "seed-0").rename(folder / ".seed-0.old")
    made: list[object] = []
    assert finish([small_work()], SweepOptions(folder=folder), made.append)[0].spent is None
    assert shown(folder) == ["seed-0", "seed-10"]


def test_file_and_single_run_are_no_folders_for_runs(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(FaircilError, match="file is a file"):
        check_place(folder / "file")
    with pytest.raises(FaircilError, match="seed-0 is itself a finished run"):
        check_place(folder / "seed-0")


def test_a_divergence_counts_for_its_own_configuration(tmp_path: Path) -> None:
    diverging, other = Work(small_work(lr=1e30).config, 0), small_work(0)
    options = SweepOptions(folder=tmp_path)
    assert finish([diverging], options)[0].diverged
    made: list[object] = []
    assert finish([diverging], options, made.append)[0].diverged
    assert not made
    assert finish([other], options)[0].run is not None
    assert not list(tmp_path.glob("*.diverged.json"))


def test_claim_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    claim(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(FaircilError, match=r"cannot write to .*file/b: Not a directory"):
        claim(tmp_path / "file" / "b")
