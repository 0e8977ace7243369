"""Tables in parts: every way to store one gives the same rows, and its parts are all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from faircil.auditing.reading import read_coded_part
from faircil.data import parts as parts_module
from faircil.data.part_files import parted_table, table_files
from faircil.data.parts import PartedTable, gathered
from faircil.data.tables import read_table
from faircil.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
ROWS = 1000


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 100)
    monkeypatch.setattr(parts_module, "BATCH_ROWS", 64)


def people(rows: int = ROWS) -> pd.DataFrame:
    drawn = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": drawn.normal(40, 9, rows),
            "children": drawn.integers(0, 4, rows),
            "job": drawn.choice(["cook", "judge"], rows),
        }
    )


def parquet_file(table: pd.DataFrame, folder: Path) -> Path:
    table.to_parquet(folder / "people.parquet", row_group_size=30)
    return folder / "people.parquet"


def parquet_folder(table: pd.DataFrame, folder: Path) -> Path:
    for number, first in enumerate(range(0, len(table), 300)):
        part = table.iloc[first : first + 300]
        part.to_parquet(folder / f"part-{number}.parquet", row_group_size=130)
    (folder / "_SUCCESS").touch()
    return folder


def arrow_stream(table: pd.DataFrame, folder: Path) -> Path:
    """As Hugging Face datasets are saved."""
    rows = pyarrow.Table.from_pandas(table, preserve_index=False)
    with pyarrow.ipc.new_stream(folder / "data-0.arrow", rows.schema) as out:
        out.write_table(rows, max_chunksize=70)
    (folder / "dataset_info.json").write_text("{}")
    return folder


def feather_file(table: pd.DataFrame, folder: Path) -> Path:
    table.to_feather(folder / "people.feather", chunksize=70)
    return folder / "people.feather"


def arrays(table: pd.DataFrame, folder: Path) -> Path:
    for name in table:
        column = table[name].to_numpy()
        np.save(folder / f"{name}.npy", column.astype(str) if name == "job" else column)
    return folder


STORED = [parquet_file, parquet_folder, arrow_stream, feather_file, arrays]


def parted(path: Path) -> PartedTable:
    found = parted_table(path)
    assert found is not None
    return found


@pytest.mark.parametrize("store", STORED)
def test_parts_are_all_of_the_table_in_its_order(
    store: Callable[[pd.DataFrame, Path], Path], tmp_path: Path
) -> None:
    table = people()
    found = parted(store(table, tmp_path))
    assert found.rows == ROWS
    assert len(found.parts) > 3
    assert [part.first for part in found.parts] == [
        sum(part.rows for part in found.parts[:number]) for number in range(len(found.parts))
    ]
    names = ["job", "age", "children"]
    frames = [frame for part in found.parts for frame in found.read(part, names, ["job"])]
    assert max(map(len, frames)) <= 64
    again = pd.concat([frame.astype({"job": str}) for frame in frames])
    assert again.index.tolist() == list(range(ROWS))
    pd.testing.assert_frame_equal(again[list(table)], table, check_dtype=False)


@pytest.mark.parametrize("store", STORED)
def test_a_small_table_in_parts_is_read_as_a_whole(
    store: Callable[[pd.DataFrame, Path], Path], tmp_path: Path
) -> None:
    table = people(150)
    path = store(table, tmp_path)
    found = read_table(path).astype({"job": str})
    pd.testing.assert_frame_equal(found[list(table)], table, check_dtype=False)
    only = read_table(path, ["age"])
    assert list(only) == ["age"]
    with pytest.raises(DataError, match="has no column 'wage'"):
        read_table(path, ["wage"])


def test_a_sample_is_spread_over_the_table(tmp_path: Path) -> None:
    table = people()
    table["number"] = np.arange(ROWS)
    found = parted(parquet_folder(table, tmp_path))
    sample = found.sample(["number"], 100)
    assert 80 <= len(sample) <= 120
    assert sample["number"].tolist() == sample.index.tolist()
    assert np.histogram(sample["number"], 4, (0, ROWS))[0].min() > 15
    assert len(found.sample(["number"], 10**6)) == ROWS


def test_runs_of_parts_are_balanced_and_follow_from_the_table(tmp_path: Path) -> None:
    found = parted(parquet_file(people(), tmp_path))
    runs = gathered(found.parts, 3)
    assert [part for run in runs for part in run] == list(found.parts)
    rows = [sum(part.rows for part in run) for run in runs]
    assert len(runs) == 3
    assert max(rows) - min(rows) <= 2 * max(part.rows for part in found.parts)
    assert len(gathered(found.parts, 10**6)) == len(found.parts)


def test_other_files_are_no_table_in_parts(tmp_path: Path) -> None:
    people().to_csv(tmp_path / "people.csv")
    assert parted_table(tmp_path / "people.csv") is None
    assert parted_table(tmp_path) is None
    assert parted_table(tmp_path / "absent.parquet") is None


def test_all_mistakes_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    table = people(40)
    table.to_parquet(tmp_path / "a.parquet")
    table.drop(columns="age").to_parquet(tmp_path / "b.parquet")
    table.assign(children="two").to_parquet(tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError) as caught:
        parted_table(tmp_path)
    told = str(caught.value)
    assert "b.parquet lacks age" in told
    assert "c.parquet has" in told
    assert "'children' instead of numbers" in told
    assert "cannot read" in told
    assert "d.parquet" in told


@pytest.mark.parametrize("begin", [pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
def test_an_arrow_file_without_rows_has_its_columns(
    tmp_path: Path, begin: Callable[..., Any]
) -> None:
    rows = pyarrow.Table.from_pandas(people(40), preserve_index=False)
    for number, part in enumerate([rows, rows[:0]]):
        with begin(str(tmp_path / f"{number}.arrow"), rows.schema) as out:
            out.write_table(part)  # without rows: no record batch
    found = parted_table(tmp_path)
    assert found is not None
    pd.testing.assert_frame_equal(found.whole(), people(40))
    (tmp_path / "0.arrow").unlink()
    with pytest.raises(DataError, match="has columns but no rows"):
        parted_table(tmp_path)


def test_an_arrow_file_without_columns_is_no_table(tmp_path: Path) -> None:
    rows = pyarrow.Table.from_pandas(people(40), preserve_index=False)
    for number, part in enumerate([rows.select([]), rows]):
        with pyarrow.ipc.new_file(str(tmp_path / f"{number}.arrow"), part.schema) as out:
            out.write_batch(part.to_batches()[0])
    with pytest.raises(DataError, match=r"0\.arrow has no columns"):
        parted_table(tmp_path)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (b"age", "2 columns named 'age'"),
        (b"\xccge", "cannot read .*codec can't decode"),
        (b"\0ge", "cannot read .*a column has a name with a zero byte"),
    ],
)
def test_columns_whose_names_do_not_tell_them_apart_are_refused(
    tmp_path: Path, kind: str, name: bytes, message: str
) -> None:
    rows = pyarrow.table([[1, 2], [3, 4]], names=["age", "gae"])
    path = tmp_path / f"people.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(rows, path)
    else:
        with pyarrow.ipc.new_file(path, rows.schema) as out:
            out.write_table(rows)
    path.write_bytes(path.read_bytes().replace(b"gae", name))
    for read in (parted_table, read_table):
        with pytest.raises(DataError, match=message):
            read(path)


def test_texts_of_any_width_are_texts(tmp_path: Path) -> None:
    table = people(40)
    rows = pyarrow.Table.from_pandas(table[["job"]], preserve_index=False)
    for number, kind in enumerate([pyarrow.string(), pyarrow.large_string()]):
        part = rows[20 * number : 20 * (number + 1)].cast(pyarrow.schema([("job", kind)]))
        pyarrow.parquet.write_table(part, tmp_path / f"{number}.parquet")
    found = parted_table(tmp_path)
    assert found is not None
    assert found.whole()["job"].tolist() == table["job"].tolist()


def test_files_of_several_kinds_and_partitions_are_refused(tmp_path: Path) -> None:
    people(5).to_parquet(tmp_path / "a.parquet")
    np.save(tmp_path / "age.npy", np.zeros(5))
    with pytest.raises(DataError, match="one kind"):
        table_files(tmp_path)
    other = tmp_path / "other"
    (other / "sex=F").mkdir(parents=True)
    people(5).to_parquet(other / "sex=F" / "a.parquet")
    with pytest.raises(DataError, match="stand for columns"):
        table_files(other)


def test_arrays_of_other_lengths_or_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "age.npy", np.zeros(5))
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "job.npy", np.array([None] * 5, dtype=object))
    with pytest.raises(DataError) as caught:
        parted_table(tmp_path)
    assert "differ in length" in str(caught.value)
    assert "job.npy" in str(caught.value)


def test_missing_words_are_missing_values_in_every_part(tmp_path: Path) -> None:
    table = people(200)
    table.loc[150, "job"] = "NA"
    found = parted(parquet_folder(table, tmp_path))
    frames = [frame for part in found.parts for frame in found.read(part, ["job"], ["job"])]
    assert pd.concat([frame.astype(object) for frame in frames])["job"].isna().sum() == 1


@pytest.mark.parametrize("store", STORED)
def test_a_table_that_changes_while_it_is_read_is_named(
    store: Callable[[pd.DataFrame, Path], Path], tmp_path: Path
) -> None:
    """Parts were cut from other files, and rows that no longer fit would be anyone's."""
    found = parted(store(people(), tmp_path))
    for other in (people(150), people(2000), people().drop(columns="age").assign(wage=1.0)):
        for path in tmp_path.rglob("*.npy"):
            path.unlink()
        store(other, tmp_path)
        with pytest.raises(DataError, match="changed while it was being read; start again"):
            [frame for part in found.parts for frame in found.read(part, ["age", "job"], ["job"])]


def test_arrays_of_another_length_are_not_filled_up(tmp_path: Path) -> None:
    found = parted(arrays(people(), tmp_path))
    np.save(tmp_path / "children.npy", np.zeros(950, dtype=np.int64))
    with pytest.raises(DataError, match="changed while it was being read"):
        found.whole()
    wide = np.zeros(ROWS)  # as many bytes
    np.save(tmp_path / "age.npy", wide[: ROWS // 2])
    np.save(tmp_path / "children.npy", np.append(wide, wide[: ROWS // 2]))
    with pytest.raises(DataError, match="changed while it was being read"):
        found.whole()


def test_a_file_that_changes_while_an_audit_reads_it_is_named(tmp_path: Path) -> None:
    found = parted(parquet_file(people(), tmp_path))
    parquet_file(people(150), tmp_path)
    with pytest.raises(DataError, match="changed while it was being read"):
        [batch for part in found.parts for batch in read_coded_part(found, part, ["job"])]


def test_files_of_other_programs_are_one_table(tmp_path: Path) -> None:
    """Polars writes large strings, and pandas the type null where a column has no value."""
    table = people(60)
    pieces = [table[:20], table[20:40].assign(age=None, job=None), table[40:]]
    for number, piece in enumerate([pieces[1], pieces[0], pieces[2]]):
        piece.to_parquet(tmp_path / f"{number}.parquet")
    rows = pyarrow.Table.from_pandas(pieces[2], preserve_index=False)
    large = rows.schema.set(2, pyarrow.field("job", pyarrow.large_string()))
    pyarrow.parquet.write_table(rows.cast(large), tmp_path / "2.parquet")
    found = parted(tmp_path)
    frames = [frame for part in found.parts for frame in found.read(part, list(table), ["job"])]
    again = pd.concat([frame.astype({"job": object}) for frame in frames])
    assert again["job"].isna().tolist() == [True] * 20 + [False] * 40
    assert again["job"].tolist()[20:] == [*pieces[0]["job"], *pieces[2]["job"]]
    assert again["age"].tolist()[40:] == pieces[2]["age"].tolist()
    pieces[0].assign(age="old").to_parquet(tmp_path / "3.parquet")
    with pytest.raises(DataError, match="has text in 'age' instead of numbers"):
        parted_table(tmp_path)


def test_row_groups_without_rows_are_read_over(tmp_path: Path) -> None:
    rows = pyarrow.Table.from_pandas(people(30), preserve_index=False)
    with pyarrow.parquet.ParquetWriter(tmp_path / "a.parquet", rows.schema) as out:
        for piece in (rows[:0], rows[:10], rows[:0], rows[:0], rows[10:], rows[:0]):
            out.write_table(piece)
    pyarrow.parquet.write_table(rows[:0], tmp_path / "b.parquet")
    found = parted(tmp_path)
    assert found.whole().to_dict("list") == people(30).to_dict("list")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_what_is_no_file_of_a_table_is_told_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "day-1.parquet").mkdir()  # as Spark writes a table
    people(20).to_parquet(tmp_path / "day-1.parquet" / "part-0.parquet")
    assert parted(tmp_path).rows == 20
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(DataError, match=r"pipe\.parquet is a device or a pipe"):
        parted_table(tmp_path)


def test_a_folder_that_cannot_be_looked_into_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    people(20).to_parquet(tmp_path / "a.parquet")
    look = os.scandir

    def scandir(place: str) -> object:
        if Path(place) == closed:
            raise PermissionError(13, "Permission denied", str(place))
        return look(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match="closed cannot be read: Permission denied"):
        parted_table(tmp_path)


def test_batches_do_not_depend_on_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 10**6)
    monkeypatch.setattr(parts_module, "BATCH_ROWS", 150)
    table = parted_table(parquet_file(people(), tmp_path))  # in row groups of 30
    assert table is not None
    (part,) = table.parts
    read = list(table.read(part, ["age", "job"], ["job"]))
    assert list(map(len, read)) == [150] * 6 + [100]
    assert all(isinstance(frame["job"].dtype, pd.CategoricalDtype) for frame in read)
    assert [job for frame in read for job in frame["job"]] == list(people()["job"])
    assert [age for frame in read for age in frame["age"]] == list(people()["age"])
