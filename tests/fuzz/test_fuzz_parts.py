"""Fuzzing of tables in parts: read, learned, predicted and audited as one file in memory is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from faircil.auditing.reading import audit_file
from faircil.data import parts as parts_module
from faircil.data.own import OwnData
from faircil.data.part_files import parted_table
from faircil.data.parts import PartedTable
from faircil.data.tables import read_table
from faircil.errors import FaircilError
from faircil.model import in_parts
from faircil.model.in_parts import fit_parts
from faircil.model.model import Model
from faircil.model.table_models import fit_table, predict_table
from fuzzing import (
    FLOATS,
    SMALL,
    WAYS,
    WORDS,
    Harness,
    few_and_thousands,
    maybe,
    refused,
    scratch_folder,
    usually,
    wish_for,
)
from same_models import assert_alike, assert_same_sums
from spoilt_files import people, spoilings, spoilt

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")
HOME = scratch_folder()
NEAR = 1e-4  # probabilities of one model
PLAIN_FLOATS = st.floats(-3, 3, width=32)
WORD = st.sampled_from("xyz")
# Kinds of columns: what is drawn, and how Arrow keeps it.
PLAIN = {
    "float64": (PLAIN_FLOATS, pa.float64()),
    "float32": (PLAIN_FLOATS, pa.float32()),
    "int64": (SMALL, pa.int64()),
    "uint8": (st.integers(0, 5), pa.uint8()),
    "bool": (st.booleans(), pa.bool_()),
    "string": (WORD, pa.string()),
    "dictionary": (WORD, pa.dictionary(pa.int8(), pa.string())),
}
ODD = {
    "gaps": (maybe(PLAIN_FLOATS), pa.float64()),
    "whole with gaps": (maybe(SMALL), pa.int64()),
    "maybe": (maybe(st.booleans()), pa.bool_()),
    "words": (maybe(WORDS), pa.string()),
    "long": (maybe(WORDS), pa.large_string()),
    "coded": (maybe(WORDS), pa.dictionary(pa.int32(), pa.string())),
    "any": (FLOATS, pa.float64()),
    "huge": (st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63), 0, 1]), pa.int64()),
    "unsigned": (st.sampled_from([2**64 - 1, 2**63, 0, 1]), pa.uint64()),
    "half": (st.sampled_from(np.array([0.5, 1, -2], np.float16)), pa.float16()),
    "decimal": (maybe(st.decimals(-9, 9, places=1)), pa.decimal128(5, 1)),
    "date": (maybe(st.dates()), pa.date32()),
    "time": (maybe(st.datetimes()), pa.timestamp("us")),
    "nothing": (st.none(), pa.null()),
    "bytes": (st.binary(max_size=3), pa.binary()),
    "list": (st.lists(SMALL, max_size=2), pa.list_(pa.int64())),
    "record": (st.fixed_dictionaries({"a": SMALL}), pa.struct([("a", pa.int64())])),
}
LABELS = {"string": PLAIN["string"], "dictionary": PLAIN["dictionary"]}
EVERY = {**PLAIN, **ODD}
# Types that a later file may have instead: the values stay the same.
OTHER = {
    "int64": pa.float64(),
    "uint8": pa.int64(),
    "string": pa.dictionary(pa.int32(), pa.string()),
    "dictionary": pa.string(),
    "whole with gaps": pa.float64(),
    "float32": pa.float64(),
    "words": pa.large_string(),
    "bool": pa.string(),  # is refused
}


@dataclass(frozen=True)
class Column:
    """A column: the name of its kind, and its values."""

    kind: str
    values: list[Any]

    def array(self, rows: slice, *, other: bool = False) -> Any:
        """Return some rows as an array of Arrow, maybe of the other type."""
        plain = EVERY[self.kind][1]
        found = pa.array(self.values[rows], plain)
        return found.cast(OTHER[self.kind]) if other and self.kind in OTHER else found


def column(kinds: dict[str, Any], n: int) -> st.SearchStrategy[Column]:
    def drawn(kind: str) -> st.SearchStrategy[Column]:
        values = st.lists(EVERY[kind][0], min_size=n, max_size=n)
        return st.builds(Column, st.just(kind), values)

    return st.sampled_from(list(kinds)).flatmap(drawn)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(usually(st.integers(8, 20), st.integers(0, 7)))
    label = usually(column(LABELS, n), column(EVERY, n), 6)
    columns = {name: draw(label) for name in ("job", "sex", "guess")}
    for name in ["a", "b", *draw(st.lists(WORDS, max_size=1))]:
        columns[name] = draw(usually(column(PLAIN, n), column(EVERY, n), 4))
    if draw(st.integers(1, 6)) == 6:
        mark = st.sampled_from(["train", "train", "test"]) if draw(st.booleans()) else WORD
        columns["mark"] = Column("string", draw(st.lists(mark, min_size=n, max_size=n)))
    return {
        "columns": columns,
        "kind": draw(st.sampled_from(["parquet", "parquet", "arrow", "stream", "feather", "npy"])),
        "cuts": sorted(draw(st.lists(st.integers(0, n), max_size=2))),
        "group": draw(st.integers(1, 9)),
        "part": draw(st.integers(1, 9)),
        "batch": draw(st.integers(1, 9)),
        "other": draw(st.booleans()),
        "sensitive": draw(st.sampled_from([("sex",), ("sex",), (), ("sex", "b")])),
        "unknown_group": draw(st.booleans()),
        "drop_missing": draw(st.booleans()),
        "spoilt": draw(usually(st.just([]), spoilings)),
        "settings": draw(WAYS),
    }


def written(case: dict[str, Any]) -> tuple[Path, Path]:
    """Write the table of a case as a folder of files, and as one file."""
    folder, columns = HOME / "parts", case["columns"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if case["kind"] == "npy":
        return folder, _write_arrays(folder, columns)
    one = HOME / "one.parquet"
    whole = pa.table({name: part.array(slice(None)) for name, part in columns.items()})
    parquet.write_table(whole, one)
    ends = [*case["cuts"], len(columns["job"].values)]
    for number, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        other = bool(number) and case["other"]
        rows = {name: part.array(slice(start, stop), other=other) for name, part in columns.items()}
        _write(folder, f"{number}", pa.table(rows), case)
    if case["spoilt"]:
        first = min(folder.iterdir())
        first.write_bytes(spoilt(first.read_bytes(), case["spoilt"]))
    return folder, one


def _write(folder: Path, name: str, table: Any, case: dict[str, Any]) -> None:
    kind, size = case["kind"], case["group"]
    if kind == "parquet":
        parquet.write_table(table, folder / f"{name}.parquet", row_group_size=size)
    elif kind == "feather":
        feather.write_feather(table, str(folder / f"{name}.feather"), chunksize=size)
    else:
        begin = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with begin(str(folder / f"{name}.arrow"), table.schema) as file:
            file.write_table(table, max_chunksize=size)


def _write_arrays(folder: Path, columns: dict[str, Column]) -> Path:
    """Write columns as arrays: texts for all that are neither numbers nor booleans."""
    arrays = {}
    for name in sorted(name for name in columns if name.isidentifier()):
        values = columns[name].values
        if all(isinstance(one, bool | int | float | np.floating) for one in values):
            array = np.array(values)
        else:
            array = np.array(["" if one is None else str(one) for one in values], dtype=str)
        arrays[name] = array
        np.save(folder / f"{name}.npy", array)
    np.savez(HOME / "one.npz", **arrays)
    return HOME / "one.npz"


def small(case: dict[str, Any]) -> Any:
    """Make parts and batches of some rows."""
    sizes = {"PART_ROWS": case["part"], "BATCH_ROWS": case["batch"]}
    return mock.patch.multiple(parts_module, **sizes)


def outcome(made: Callable[[], Any]) -> Any:
    """Return what is made, or the error of faircil, whose message says something."""
    found: list[Any] = []
    problem: list[FaircilError] = []
    with refused():
        try:
            found.append(made())
        except FaircilError as error:
            problem.append(error)
            raise
    return problem[0] if problem else found[0]


def both(mine: Any, theirs: Any) -> bool:
    """Return whether both were made; fail if one alone was refused."""
    refusals = [isinstance(one, FaircilError) for one in (mine, theirs)]
    assert refusals[0] == refusals[1], (mine, theirs)
    return not refusals[0]


def parted(folder: Path) -> PartedTable:
    found = parted_table(folder)
    assert found is not None
    return found


def plain(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns as lists, in which all that is missing is None."""
    return {
        str(name): [None if pd.isna(one) else one for one in table[name].tolist()] for name in table
    }


def check_read(case: dict[str, Any]) -> None:
    folder, one = written(case)
    with small(case):
        mine = outcome(lambda: parted(folder).whole())
        if case["spoilt"]:
            return
        theirs = outcome(lambda: read_table(one))
        if refuses_bools(case, mine):
            return
        if both(mine, theirs):
            found, wanted = plain(mine), plain(theirs)
            assert found == {name: wanted[name] for name in found}
            assert found.keys() == wanted.keys()
            assert mine.index.tolist() == list(range(len(theirs)))


def refuses_bools(case: dict[str, Any], found: Any) -> bool:
    """Whether a later file has texts for booleans, so that the folder is refused alone."""
    return isinstance(found, FaircilError) and case["other"] and "instead of boolean" in str(found)


def roles(case: dict[str, Any], path: Path) -> OwnData:
    return OwnData(
        str(path),
        "job",
        case["sensitive"],
        ignore=("guess",),
        test_column="mark" if "mark" in case["columns"] else None,
        unknown_group=case["unknown_group"],
        drop_missing=case["drop_missing"],
    )


def check_fit(case: dict[str, Any]) -> None:
    folder, one = written(case)
    wish = wish_for(case["settings"])
    with small(case):
        mine = outcome(lambda: fit_parts(parted(folder), roles(case, folder), wish))
        if case["spoilt"]:
            return
        theirs = outcome(lambda: fit_table(roles(case, one), wish))
        if isinstance(theirs, FaircilError) and "'guess'" in str(theirs):
            return  # of a folder, a column that is ignored is not read
        if refuses_bools(case, mine) or not both(mine, theirs):
            return
        assert mine.encoder == theirs.encoder
        assert_same_sums(mine, theirs)
        assert_alike(mine, theirs, theirs.encoder.inputs(read_table(one)))
        found, wanted = (model.measured[-1:] for model in (mine, theirs))
        assert [part.rows for part in found] == [part.rows for part in wanted]
        check_predictions(mine, folder, one)


def check_predictions(model: Model, folder: Path, one: Path) -> None:
    """Check predictions of a folder in parts against those of one file by the same model."""
    with mock.patch.object(in_parts, "IN_PARTS", 0):
        parts = [one for one, _ in predict_table(model, folder, ["guess"], probabilities=True)]
    ((whole, _),) = predict_table(model, one, ["guess"], probabilities=True)
    found = pd.concat(parts)
    chances = [name for name in whole if str(name).startswith("probability of ")]
    wanted = whole[chances].to_numpy()
    # A net computes in float32, and the size of a batch changes its last digits.
    np.testing.assert_allclose(found[chances].to_numpy(), wanted, atol=NEAR)
    told = np.ptp(np.sort(wanted, axis=1)[:, -2:], axis=1) > 2 * NEAR
    assert (found["prediction"].to_numpy() == whole["prediction"].to_numpy())[told].all()
    for name in ("row", "guess"):
        assert plain(found[[name]]) == plain(whole[[name]])


def check_audit(case: dict[str, Any]) -> None:
    folder, one = written(case)
    named = {"truth": "job", "prediction": "guess", "sensitive": case["sensitive"], "draws": 100}
    with small(case):
        mine = outcome(lambda: audit_file(folder, **named))
        if case["spoilt"]:
            return
        theirs = outcome(lambda: audit_file(one, **named))
        if not refuses_bools(case, mine) and both(mine, theirs):
            assert mine.n == theirs.n
            found, wanted = (outcome(audit.report) for audit in (mine, theirs))
            if both(found, wanted):
                assert found.findings == wanted.findings


def arrow_files() -> list[bytes]:
    """Return the small table as an Arrow file and as a stream."""
    found = []
    for kind in ("arrow", "stream"):
        folder = HOME / "seeds"
        folder.mkdir(exist_ok=True)
        _write(folder, kind, pa.Table.from_pandas(people()), {"kind": kind, "group": 7})
        found.append((folder / f"{kind}.arrow").read_bytes())
    return found


def check_arrow(data: bytes) -> None:
    """Read any bytes as an Arrow file in parts."""
    path = HOME / "any.arrow"
    path.write_bytes(data)
    with refused(), mock.patch.multiple(parts_module, PART_ROWS=5, BATCH_ROWS=3):
        assert len(parted(path).whole()) == parted(path).rows


def kept_case(**changed: Any) -> dict[str, Any]:
    """Return a case of six rows in two files with some things changed."""
    columns = {
        "job": Column("string", list("xyxyxy")),
        "sex": Column("string", list("xxxyyy")),
        "guess": Column("string", list("xyxyyy")),
        "a": Column("float64", [0.0, 1.0, 2.0, 0.5, 1.5, 2.5]),
    }
    case = {"kind": "parquet", "cuts": [3], "group": 2, "part": 2, "batch": 2, "other": False}
    more = {"sensitive": ("sex",), "unknown_group": False, "drop_missing": False, "spoilt": []}
    case["settings"] = {"width": 8, "arithmetic": "float64"}
    return case | more | {"columns": columns | changed.pop("columns", {})} | changed


OLD = [datetime(year, 3, 8) for year in (439, 1000, 1513, 1677, 2020, 9999)]
WORDS_OF_TWO_WIDTHS = {"guess": Column("words", list("xyxyyy"))}
# Sums that differ in their last bit, so that an eigenvector has another sign.
OTHER_SIGNS = {
    "job": Column("string", list("xxzyyxxzxyyxxxyxyxz")),
    "sex": Column("string", list("xxxxxxxxxxxxxxyxxxx")),
    "guess": Column("string", ["x"] * 19),
    "a": Column(
        "float64",
        [0, 0, 0, 0, 0, 1, 3, 0, 1, 0, 1.2905315160751343, -2.90625, 0, 1, 1, 1, 2.5, 0.375, 0],
    ),
    "b": Column("float64", [0, 1, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0.5, 0.5, 2, 0, 1, 0]),
}
BY_MEANS = {"width": 8, "arithmetic": "float64", "classifier": "nearest-mean"}
KEPT = (
    kept_case(kind="stream", cuts=[3, 3]),  # a file without rows has no record batch
    kept_case(other=True, columns=WORDS_OF_TWO_WIDTHS),
    kept_case(columns={"a": Column("time", OLD)}),  # beyond what nanoseconds tell
    kept_case(cuts=[], group=1, part=1, batch=1, columns=OTHER_SIGNS, settings=BY_MEANS),
)
# A batch without a row to learn, and the column that marks test rows.
NO_CLASSES = {
    "job": Column("string", [None, *"xyxyx"]),
    "mark": Column("string", ["train"] * 5 + ["test"]),
}
WITHOUT_ROWS = kept_case(cuts=[], group=1, part=1, batch=1, drop_missing=True, columns=NO_CLASSES)
HARNESSES = {
    "parted_table": Harness(tables(), check_read, KEPT),
    "fit_parts": Harness(tables(), check_fit, (*KEPT[2:], WITHOUT_ROWS), short=3),
    "audit_file of folders": Harness(tables(), check_audit, KEPT[:2], short=5),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
