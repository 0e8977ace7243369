from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from faircil.data.sources import SOURCES, DataFile, Source, check_source, data_folder, read_file
from faircil.errors import DataError, UsageError

CONTENT = b"some content"
PACKED = DataFile("a.gz", hashlib.sha256(CONTENT).hexdigest())
PLAIN = DataFile("b.data", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(SOURCES, "tiny", Source("tiny", (PACKED, PLAIN), "made here"))
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    (tmp_path / "tiny").mkdir()
    return tmp_path / "tiny"


def test_the_table_is_well_formed() -> None:
    for name, source in SOURCES.items():
        assert source.name == name
        assert source.mirrors
        assert all(address.endswith("/") for address in source.mirrors)
        assert all(len(bytes.fromhex(file.sha256)) == 32 for file in source.files)
        assert len({file.name for file in source.files}) == len(source.files)


def test_data_folder_is_the_chosen_one_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", "some/where")
    assert data_folder() == Path.cwd() / "some" / "where"
    monkeypatch.setenv("FAIRCIL_DATA", "")
    assert data_folder() == user_cache_path("faircil") / "data"
    monkeypatch.delenv("FAIRCIL_DATA")
    assert data_folder() == user_cache_path("faircil") / "data"


def test_read_file_unpacks_what_is_packed(folder: Path) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(CONTENT, mtime=0))
    (folder / "b.data").write_bytes(CONTENT)
    assert read_file("tiny", "a.gz") == CONTENT
    assert read_file("tiny", "b.data") == CONTENT


def test_a_missing_file_says_where_it_belongs_and_how_to_get_it(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_file("tiny", "a.gz")
    message = str(caught.value)
    assert str(folder / "a.gz") in message
    assert "`faircil data fetch tiny`" in message
    assert "FAIRCIL_DATA" in message


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "is empty"),
        (CONTENT, "not an intact gzip file"),
        (gzip.compress(CONTENT, mtime=0)[:-4], "not an intact gzip file"),
        (
            gzip.compress(b"other", mtime=0),
            f"{hashlib.sha256(b'other').hexdigest()}, expected {PACKED.sha256}",
        ),
    ],
)
def test_a_corrupt_file_is_never_read(folder: Path, stored: bytes, reason: str) -> None:
    (folder / "a.gz").write_bytes(stored)
    with pytest.raises(DataError, match=reason) as caught:
        read_file("tiny", "a.gz")
    assert "`faircil data fetch tiny --force`" in str(caught.value)
    assert str(folder / "a.gz") in str(caught.value)


def test_something_that_is_no_file_is_explained(folder: Path) -> None:
    (folder / "a.gz").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_file("tiny", "a.gz")


def test_unknown_names_get_a_suggestion(folder: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'mnist'"):
        read_file("mnits", "a.gz")
    with pytest.raises(UsageError, match=r"did you mean 'a\.gz'"):
        read_file("tiny", "a.zg")


def test_check_source_tells_the_three_states_apart(folder: Path) -> None:
    assert [status.state for status in check_source("tiny")] == ["missing", "missing"]
    (folder / "a.gz").write_bytes(gzip.compress(CONTENT, mtime=0))
    (folder / "b.data").write_bytes(b"other")
    packed, plain = check_source("tiny")
    assert (packed.state, packed.path) == ("ok", folder / "a.gz")
    assert (plain.state, plain.path) == ("corrupt", folder / "b.data")
    assert "--force" in plain.message
