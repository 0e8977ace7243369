from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from faircil import files
from faircil.data.part_files import table_files
from faircil.data.tables import read_folder
from faircil.errors import DataError, UsageError
from faircil.files import (
    applies,
    as_json,
    expanded,
    file_digest,
    file_name,
    is_intact,
    kept_digest,
    locked,
    read_json,
    refuse_input,
    replacing,
    resolved,
    shipped_rows,
    write_private,
    write_sealed,
)


def test_the_home_folder_takes_the_place_of_its_sign() -> None:
    assert expanded("~/x", "it") == Path.home() / "x"
    assert expanded("x", "it") == Path("x")


def test_a_home_folder_that_is_not_there_is_named_with_what_it_is_for() -> None:
    with pytest.raises(UsageError, match="FAIRCIL_CACHE is '~nobody-at-all/x', and there is no"):
        expanded("~nobody-at-all/x", "FAIRCIL_CACHE")


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "../x", "/etc/x", "a\0b", "..\\x", "a:b", "x" * 999, "ü" * 400, "\udc80"],
)
def test_any_text_becomes_the_name_of_one_file_below(text: str, tmp_path: Path) -> None:
    name = file_name(text)
    (tmp_path / name).touch()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not name.startswith(".")
    assert file_name(f"{text}!") != name


@pytest.mark.parametrize("text", ["biased-mnist", "people of 2020", "a$^$b", "שם"])
def test_plain_names_stay(text: str) -> None:
    assert file_name(text) == text


def test_a_file_that_is_read_is_not_written_by_any_name(tmp_path: Path) -> None:
    read, link = tmp_path / "read.csv", tmp_path / "link.csv"
    read.touch()
    link.symlink_to(read)
    for out in (read, link, tmp_path / "none" / ".." / "read.csv"):
        with pytest.raises(UsageError, match="is an input of this command"):
            refuse_input(out, tmp_path / "other.csv", read)
    refuse_input(tmp_path / "new.csv", read)


def test_a_link_that_leads_back_to_itself_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="is a link that leads back to itself, or is behind one"):
        resolved(loop / "x")


def test_a_folder_that_is_read_gets_no_file_that_would_be_read_with_it(tmp_path: Path) -> None:
    table = tmp_path / "table"
    (table / "day").mkdir(parents=True)
    (table / "day" / "part.parquet").touch()
    (table / "summary.json").touch()
    for name in ("day/part.parquet", "day/new.parquet", "day/../new.npy", "new.feather"):
        with pytest.raises(
            UsageError, match=r"would become part of the input .*table; choose another place"
        ):
            refuse_input(table / name, table)
    with pytest.raises(UsageError, match=r"summary\.json is an input of this command"):
        refuse_input(table / "summary.json", table)
    refuse_input(table / "new.json", table)
    refuse_input(table / "page.md", table)


def test_what_is_no_text_is_written_as_an_escape_and_read_again(tmp_path: Path) -> None:
    document = {"path": os.fsdecode(b"\xff.csv")}
    write_sealed(tmp_path / "a.json", document)
    text = (tmp_path / "a.json").read_text("utf-8")
    assert is_intact(text, json.loads(text))
    assert document.items() <= read_json(tmp_path / "a.json").items()


@pytest.mark.parametrize("read", [table_files, read_folder])
def test_files_whose_names_are_no_text_are_named(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    try:
        for ending in (b".png", b".parquet"):
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + ending)).touch()
    except OSError:
        pytest.skip("files have names in UTF-8 here")
    with pytest.raises(DataError, match=r"not UTF-8: .*udcff\.p.*; rename them"):
        read(tmp_path)


def test_numbers_that_json_does_not_have_are_texts() -> None:
    value = {"a": [1.0, float("nan"), (float("-inf"),)], "b": "x"}
    assert as_json(value) == '{"a": [1.0, "nan", ["-inf"]], "b": "x"}'


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    expected = hashlib.sha256(b"content").hexdigest()
    assert file_digest(path) == kept_digest(path) == expected


def test_a_file_is_read_once_as_long_as_it_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = kept_digest(path)
    with monkeypatch.context() as patched:
        patched.setattr(files, "file_digest", None)  # would fail if it were called
        assert kept_digest(path) == first
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 0))
    assert kept_digest(path) == hashlib.sha256(b"two").hexdigest()


def test_a_file_that_is_not_written_to_its_end_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    write_private(path, "before")
    path.chmod(0o640)

    def write_half() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_half()
    assert path.read_text() == "before"
    write_private(path, "after")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_for_others_has_the_permissions_of_new_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "page", private=False) as partial:
        partial.write_text("text")
    usual, page = ((tmp_path / name).stat().st_mode for name in ("usual", "page"))
    assert usual == page


def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "there" / "notes", tmp_path / "link"
    path.parent.mkdir()
    link.symlink_to(path)
    write_private(link, "text")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("text", 0o600)
    assert link.is_symlink()


def test_a_device_is_written_to(tmp_path: Path) -> None:
    write_private(Path(os.devnull), "text")
    assert Path(os.devnull).is_char_device()
    assert not list(tmp_path.iterdir())


def test_who_waits_for_a_lock_gets_it_with_its_folder_where_that_was_removed(
    tmp_path: Path,
) -> None:
    lock, waits, told = tmp_path / "model" / ".lock", threading.Event(), []

    def second() -> None:
        with locked(lock, waits.set) as mine:
            told.append((mine, lock.is_file(), lock.parent.stat().st_mode & 0o777))

    with locked(lock) as mine:
        with locked(lock) as other:
            assert (mine, other) == (True, False)
        waiting = threading.Thread(target=second)
        waiting.start()
        assert waits.wait(10)
        lock.unlink()
        lock.parent.rmdir()
    waiting.join(10)
    assert told == [(True, True, 0o700)]


def test_a_row_applies_where_all_of_its_keys_match() -> None:
    key = {"dataset": "mnist", "method": "er", "texts": None}
    assert applies({"set": {"lr": 1}}, key)
    assert applies({"dataset": ["drug", "mnist"], "method": ["er"]}, key)
    assert not applies({"dataset": ["mnist"], "method": ["fsw"]}, key)
    assert not applies({"texts": ["frozen"]}, key)


def test_numbers_are_read_as_asked_for() -> None:
    rows = shipped_rows("faircil.tuning", "grids.toml", str)
    assert rows[0]["try"]["lr"] == ["0.001", "0.01", "0.1"]
    assert shipped_rows("faircil.tuning", "grids.toml")[0]["try"]["lr"] == [0.001, 0.01, 0.1]
    assert shipped_rows("faircil.tuning", "grids.toml", str) is rows
