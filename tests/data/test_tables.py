from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faircil.data.tables import read_table
from faircil.errors import DataError

CSV = "age,sex,ok\n31,F,True\n45.5,M,False\n"


def savez(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def zip_of_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("note.txt", "hello")


def damaged_npz(path: Path) -> None:
    np.savez(path, a=np.arange(100))
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", CSV.encode()),
        ("t.CSV", CSV.replace(",", ", ").encode("utf-8-sig")),
        ("t.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("t.tsv", CSV.replace(",", "\t").encode()),
    ],
)
def test_text_formats_give_the_same_table(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    table = read_table(tmp_path / name)
    assert list(table) == ["age", "sex", "ok"]
    assert table["age"].tolist() == [31, 45.5]
    assert table["sex"].tolist() == ["F", "M"]
    assert table["ok"].dtype == bool


def test_npz_arrays_become_columns(tmp_path: Path) -> None:
    pixels = np.arange(6, dtype=">i4").reshape(2, 3)
    np.savez(tmp_path / "t.npz", x=pixels, sex=np.array(["F", "nan"]), y=np.array([b"a", b"b"]))
    table = read_table(tmp_path / "t.npz")
    assert list(table) == ["x_0", "x_1", "x_2", "sex", "y"]
    assert table[["x_0", "x_1", "x_2"]].to_numpy().tolist() == pixels.tolist()
    assert table["x_0"].nunique() == 2  # pandas cannot count foreign byte orders
    assert table["sex"].isna().tolist() == [False, True]
    assert table["y"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.xlsx", b"x", r"unknown ending; expected one of \.csv"),
        ("t.csv", None, "there is no file .*t.csv"),
        ("t.csv", b"", "is empty"),
        ("t.npz", b"", "is empty"),
        ("t.csv", b"\n\n", "only blank lines"),
        ("t.csv", b"a,b\n", "no rows"),
        ("t.csv", b"\x89PNG\r\n\x1a\n\0", "not UTF-8 text"),
        ("t.csv", b"\0" * 64, "is not text|has no name"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
        ("t.csv", b"a,b\n1,2\n4,5,6\n", "Expected 2 fields in line 3, saw 3"),
        ("t.csv", b"a,b,a\n1,2,3\n", "2 columns named 'a'"),
        ("t.csv", b",b,\n1,2,3\n", "column 1, 3 of .* has no name"),
        ("t.csv.gz", b"a,b\n1,2\n", "Not a gzipped file"),
        ("t.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:20], "Compressed file ended"),
        ("t.npz", CSV.encode(), r"not an \.npz archive"),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (savez(), "holds no arrays"),
        (savez(a=np.zeros(2), b=np.zeros(3)), "differ in length: a 2, b 3"),
        (savez(a=np.zeros((2, 2)), a_1=np.zeros(2)), "2 columns named 'a_1'"),
        (savez(a=np.zeros((2, 2, 2))), r"'a' of .* has shape \(2, 2, 2\)"),
        (savez(a=np.zeros(2, complex)), "type complex128"),
        (savez(a=np.array([["u"], ["v"]])), r"has shape \(2, 1\) and type <U1"),
        (savez(a=np.array([None, "a"], object)), "Object arrays cannot be loaded"),
        (savez(a=np.array([b"\xff"])), "codec can't decode"),
        (savez(a=np.zeros(())), r"has shape \(\)"),
        (zip_of_text, "'note.txt' of .* is not an array"),
        (damaged_npz, "Bad CRC-32"),
    ],
)
def test_unusable_archives_are_named(
    tmp_path: Path, write: Callable[[Path], None], message: str
) -> None:
    write(tmp_path / "t.npz")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.npz")
