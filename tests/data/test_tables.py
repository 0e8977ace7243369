from __future__ import annotations

import gzip
import io
import math
import sys
import zipfile
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from any_text import NUL
from faircil.data.tables import READERS, read_table
from faircil.errors import DataError, FaircilError

EMPTY_ZIP = b"PK\x05\x06" + bytes(18)
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
        ("t.xlsx", b"x", r"unknown file extension; expected one of \.csv"),
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
        ("t.npz", b"Q" + EMPTY_ZIP, r"not an \.npz archive"),  # an archive to zipfile alone
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
    ("mark", "place", "value", "message"),
    [
        (b"PK\x01\x02", 6, 80, r"not an \.npz archive"),  # needs a later version of zip
        (b"PK\x01\x02", 8, 1, "'a' of .* cannot be read: .* is encrypted"),
    ],
)
def test_archives_that_python_cannot_unpack(
    tmp_path: Path, mark: bytes, place: int, value: int, message: str
) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, a=np.arange(100))
    content = bytearray(path.read_bytes())
    content[content.index(mark) + place] = value
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=message):
        read_table(path)


def boasting_npz(path: Path) -> None:
    """Write an archive of a few bytes that says it has 10¹⁴ numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(80))


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
        (boasting_npz, "'a' of .* claims more than fits in memory"),
    ],
)
def test_unusable_archives_are_named(
    tmp_path: Path, write: Callable[[Path], None], message: str
) -> None:
    write(tmp_path / "t.npz")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.npz")


def write(path: Path, table: pd.DataFrame) -> None:
    """Write a table of text and numbers in the format of the ending."""
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {
            name: table[name].to_numpy(str if name == "text" else float) for name in table
        }
        np.savez(path, **arrays)
    elif path.suffix in (".feather", ".arrow"):
        pytest.importorskip("pyarrow")
        table.to_feather(path)
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")


@pytest.mark.parametrize("ending", READERS)
def test_only_the_wanted_columns_are_kept_in_their_order(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    write(path, pd.DataFrame({"a": [1.5, 2], "text": ["u", "NULL"], "b": [3.0, 4]}))
    table = read_table(path, ("b", "text"))
    assert list(table) == ["b", "text"]
    assert table["b"].tolist() == [3, 4]
    assert table["text"].isna().tolist() == [False, True]
    with pytest.raises(DataError) as raised:
        read_table(path, ("a", "c", "d"))
    assert str(raised.value) == (
        f"- {path} has no column 'c'; it has a, text, b\n"
        f"- {path} has no column 'd'; it has a, text, b"
    )


@pytest.mark.parametrize("ending", READERS)
def test_any_text_survives(tmp_path: Path, ending: str) -> None:
    texts = [
        "مرحبا",
        "👩🏽‍⚕️ 医生",
        f"a{NUL}b",
        "x\u2028y",
        'a "word",\nand more',
        "e\u0301 é",
        "\u202eabc",
    ]
    write(tmp_path / f"t{ending}", pd.DataFrame({"text": texts, "a": 0.0}))
    assert read_table(tmp_path / f"t{ending}")["text"].tolist() == texts


def test_parquet_columns_are_numbers_booleans_and_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    written = pd.DataFrame(
        {
            "int": [1, 2],
            "gap": pd.array([1, None], dtype="Int64"),
            "money": [Decimal("1.50"), Decimal("2.25")],
            "small": np.array([0.5, 1], dtype=np.float16),
            "ok": [True, False],
            "kind": pd.Categorical(["b", "a"]),
            "day": [date(2024, 2, 29), date(2025, 1, 1)],
            "none": [None, None],
        }
    )
    written.to_parquet(tmp_path / "t.parquet", index=False)
    table = read_table(tmp_path / "t.parquet")
    assert list(table) == list(written)
    assert table["int"].tolist() == [1, 2]
    assert table["gap"].isna().tolist() == [False, True]
    assert table["money"].tolist() == [1.5, 2.25]
    assert table["small"].dtype == table["gap"].dtype == table["none"].dtype == np.float64
    assert table["ok"].dtype == bool
    assert table["kind"].tolist() == ["b", "a"]
    assert table["kind"].dtype == table["day"].dtype == pd.Series(["a"]).dtype
    assert table["day"].tolist() == ["2024-02-29", "2025-01-01"]


def test_a_saved_row_index_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": [1, 2]}, index=["u", "v"])
    table.to_parquet(tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").columns) == ["a"]
    named = table.rename_axis("person")
    named.to_parquet(tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").columns) == ["a", "person"]
    table.reset_index(drop=True).to_csv(tmp_path / "t.csv")
    read = read_table(tmp_path / "t.csv")
    assert list(read.columns) == ["a"]
    assert read.attrs["notes"] == ["the first column has no name and counts the rows: left out"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a;b\n1;x\n2;y\n", ["columns are separated by semicolons"]),
        ("a\tb\n1\tx\n2\ty\n", ["columns are separated by tabs"]),
        ("a|b\n1|x\n2|y\n", ["columns are separated by bars"]),
        ("a,b\n1,x;y\n2,y\n", []),
    ],
)
def test_separators_are_found(tmp_path: Path, content: str, told: list[str]) -> None:
    (tmp_path / "t.csv").write_text(content)
    table = read_table(tmp_path / "t.csv")
    assert table.shape == (2, 2)
    assert table["a"].tolist() == [1, 2]
    assert table.attrs["notes"] == told


def test_decimal_commas_are_found(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n1,5;x\n-2,25;y\n")
    assert read_table(tmp_path / "t.csv")["a"].tolist() == [1.5, -2.25]
    rows = ("a;b;day;c", "2.805,75;7;25.08.1993;1,5", ";8;01.01.2000;x", "9;;;y")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    table = read_table(tmp_path / "t.csv", texts={"c"})
    assert table["a"].tolist() == pytest.approx([2805.75, math.nan, 9], nan_ok=True)
    assert table["day"].tolist()[:2] == ["25.08.1993", "01.01.2000"]
    assert table["c"].tolist() == ["1,5", "x", "y"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": [[1], [2]], "b": [b"\xff", b"x"]}), r"'a' .* list<.*\n.*'b' .* binary"),
        (pd.DataFrame({"a": []}), "has columns but no rows"),
    ],
)
def test_unusable_parquet_tables_are_named(
    tmp_path: Path, table: pd.DataFrame, message: str
) -> None:
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_damaged_parquet_files_are_named(tmp_path: Path, keep: float) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": range(100)}).to_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))] or b"version https://git-lfs")
    with pytest.raises(DataError, match=r"cannot read .*t.parquet: .* expected a parquet file"):
        read_table(path)


def contradicting(arrow: Any, kind: str) -> Any:
    """Return a column of two texts that claims what it does not hold."""
    if kind == "offsets":  # of texts, behind the end of the letters
        bounds = arrow.py_buffer(np.array([0, 9, 2], dtype=np.int32).tobytes())
        return arrow.StringArray.from_buffers(2, bounds, arrow.py_buffer(b"xy"))
    if kind == "letters":  # that are no UTF-8
        bounds = arrow.py_buffer(np.array([0, 1, 2], dtype=np.int32).tobytes())
        return arrow.StringArray.from_buffers(2, bounds, arrow.py_buffer(b"x\xff"))
    codes = arrow.array([0, 7], type=arrow.int8())
    return arrow.DictionaryArray.from_arrays(codes, ["x", "y"], safe=False)


@pytest.mark.parametrize("kind", ["offsets", "letters", "codes"])
def test_arrow_columns_that_lead_out_of_the_file_are_named(tmp_path: Path, kind: str) -> None:
    arrow, feather = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.feather"))
    path = tmp_path / "t.feather"
    table = arrow.table({"job": contradicting(arrow, kind), "a": [1.5, 2.5]})
    feather.write_feather(table, path, compression="uncompressed")
    with pytest.raises(DataError, match=r"cannot read .*t.feather: .* get it again"):
        read_table(path)


def test_a_name_of_an_arrow_column_that_is_no_text_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.feather"
    pd.DataFrame({"guess": [1, 2]}).to_feather(path)
    path.write_bytes(path.read_bytes().replace(b"guess", b"g\xc5ess"))
    with pytest.raises(DataError, match=r"cannot read .*t.feather: .*utf-8.* get it again"):
        read_table(path)


def test_parquet_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FaircilError, match=r"pip install pyarrow, or save .* as \.csv"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("ending", [".tsv", ".csv"])
def test_a_quotation_mark_swallows_no_rows_of_a_table_with_tabs(
    tmp_path: Path, ending: str
) -> None:
    rows = ["bio\tjob", '"Best" nurse\ta', "plain\tb", '"open\ta', "lost\tb", 'close"\ta']
    if ending == ".csv":
        rows = [row.replace("\t", ",") for row in rows]
    path = tmp_path / f"t{ending}"
    path.write_text("\n".join(rows) + "\n")
    if ending == ".csv":  # there, a field may have several lines
        assert len(read_table(path)) == 3
        return
    with pytest.raises(
        DataError, match=r"column 'bio' .* has tabs and line breaks in row 3 .*double"
    ):
        read_table(path)


def test_a_quotation_mark_that_is_never_closed_is_hinted_at(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('bio,job\n"open,a\nmore,b\n')
    with pytest.raises(DataError, match="a closing quotation mark where a field begins with one"):
        read_table(path)


def test_texts_as_objects_get_a_hint(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", bio=np.array(["a", "b"], dtype=object))
    with pytest.raises(DataError, match=r"array 'bio' .*save texts with \.astype\(str\)"):
        read_table(tmp_path / "t.npz")


def test_links_in_a_folder_of_images_are_followed(tmp_path: Path) -> None:
    place, folder = tmp_path / "elsewhere", tmp_path / "photos"
    (place / "dawn").mkdir(parents=True)
    (place / "dawn/1.png").touch()
    (folder / "day").mkdir(parents=True)
    (folder / "day/2.png").symlink_to("nowhere")  # is named when images are read
    (folder / "day/again").symlink_to(folder)
    (folder / "night").symlink_to(place)
    table = read_table(folder)
    assert table["path"].tolist() == ["day/2.png", "night/dawn/1.png"]
    assert table["class"].tolist() == ["day", "night"]
