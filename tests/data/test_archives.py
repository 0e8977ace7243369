from __future__ import annotations

import io
import stat
import tarfile
import zipfile

import pytest

from faircil.data.sources import DataFile, files_in_tar, files_in_zip
from faircil.errors import DataError

FILE = DataFile("a.gz", "not looked at here")


def tar_of(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"content") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type = kind
        member.linkname = "/etc/hostname"
        member.size = len(content) if kind == tarfile.REGTYPE else 0
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_of(name: str, mode: int = stat.S_IFREG | 0o644) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        opened.writestr(member, b"content")
    return packed.getvalue()


@pytest.mark.parametrize("name", ["a", "a.gz", "./package/data/a.gz"])
def test_files_are_found_by_base_name_in_either_spelling(name: str) -> None:
    assert files_in_tar(tar_of(name), [FILE]) == [(FILE, b"content")]
    assert files_in_zip(zip_of(name), [FILE]) == [(FILE, b"content")]


def test_other_members_are_left_alone() -> None:
    assert files_in_tar(tar_of("../../other"), [FILE]) == []
    assert files_in_tar(tar_of("other", tarfile.SYMTYPE), [FILE]) == []
    assert files_in_zip(zip_of("../../other"), [FILE]) == []


@pytest.mark.parametrize("name", ["../a.gz", "package/../../a.gz", "/a.gz"])
def test_a_path_out_of_the_archive_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="refused"):
        files_in_tar(tar_of(name), [FILE])
    with pytest.raises(DataError, match="refused"):
        files_in_zip(zip_of(name), [FILE])


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_links_and_special_files_are_refused(kind: bytes) -> None:
    with pytest.raises(DataError, match="refused"):
        files_in_tar(tar_of("a.gz", kind), [FILE])


def test_a_link_in_a_zip_is_refused() -> None:
    with pytest.raises(DataError, match="refused"):
        files_in_zip(zip_of("a.gz", stat.S_IFLNK | 0o777), [FILE])


def test_a_damaged_archive_is_explained() -> None:
    for damaged in (b"", b"no archive", tar_of("a.gz", content=bytes(100_000))[:60]):
        with pytest.raises(DataError, match="not an intact tar archive"):
            files_in_tar(damaged, [FILE])
    for damaged in (b"", b"no archive", zip_of("a.gz")[:-10]):
        with pytest.raises(DataError, match="not an intact zip archive"):
            files_in_zip(damaged, [FILE])
