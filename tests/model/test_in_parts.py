"""Models of tables in parts: the same sums wherever they are computed, and as of rows in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from faircil.data import mapped, parts as parts_module, row_parts
from faircil.data.part_files import parted_table
from faircil.data.parts import PartedTable
from faircil.data.row_parts import HeldOut, RowReader, count_rows
from faircil.engines import Here, Processes
from faircil.errors import DataError, FaircilError, StorageError, UsageError
from faircil.model import in_parts
from faircil.model.choosing import Wish
from faircil.model.in_parts import fit_parts, table_in_parts, update_parts
from faircil.model.table_models import fit_table, measure_table, predict_table, update_table
from tables_in_parts import people, roles, stored
from tensors import assert_same_bits

pytest.importorskip("pyarrow")
ROWS = 1200  # of `people`
WISH = Wish("moments", overrides=("width=40", "arithmetic=float64"))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 150)


def parted(path: Path) -> PartedTable:
    found = parted_table(path)
    assert found is not None
    return found


def test_processes_and_files_do_not_change_a_bit(tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people")
    here = fit_parts(parted(path), roles(path), WISH)
    with Processes(2) as engine:
        shared = fit_parts(parted(path), roles(path), WISH, engine=engine)
    assert_same_bits(here, shared)
    assert here.lessons[-1].rows == ROWS


def test_sums_are_those_of_all_rows_in_memory(tmp_path: Path) -> None:
    table = people()
    path = stored(table, tmp_path / "people")
    in_memory = fit_table(roles(path), WISH)  # small enough
    model = fit_parts(parted(path), roles(path), WISH)
    assert model.labels == in_memory.labels
    assert model.values == in_memory.values
    assert model.encoder == in_memory.encoder
    mine, theirs = model.learner.moments, in_memory.learner.moments
    assert dict(zip(mine.keys, mine.count, strict=True)) == dict(
        zip(theirs.keys, theirs.count, strict=True)
    )
    # float64 sums of some hundred products each: an order of summation changes the last digits.
    for key in mine.keys:
        left, right = (one.cells()[one.keys.index(key)] for one in (mine, theirs))
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
    x = in_memory.encoder.inputs(table)  # type: ignore[union-attr]
    assert np.array_equal(model.predict(x), in_memory.predict(x))


def test_a_table_of_many_rows_is_learned_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(people(), tmp_path / "people")
    assert table_in_parts(roles(path), Here()) is None
    assert table_in_parts(roles(path), Processes(2)) is not None
    monkeypatch.setattr(in_parts, "IN_PARTS", 1000)
    monkeypatch.setattr(row_parts, "SAMPLE", 300)
    model = fit_table(roles(path), WISH)
    assert any("from a sample of" in note for note in model.notes)
    with pytest.raises(UsageError, match="`tasks` are given"):
        fit_table(roles(path, tasks="cook,judge|nurse"), WISH)
    people().to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(UsageError, match="cannot be read in parts"):
        fit_table(roles(tmp_path / "people.csv"), WISH, engine=Processes(2))


@pytest.mark.parametrize("method", ["er", "auto"])
def test_a_net_learns_rows_from_a_mapped_file(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_parts, "IN_PARTS", 1000)
    table = people()
    path = stored(table, tmp_path / "people")
    wish = Wish(method, overrides=("epochs=2",) if method == "er" else ())
    model = fit_table(roles(path), wish)
    monkeypatch.setattr(in_parts, "IN_PARTS", 10**6)
    in_memory = fit_table(roles(path), wish)
    assert model.config.method == in_memory.config.method
    if method == "er":
        mine, theirs = (one.learner.net.state_dict() for one in (model, in_memory))
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_rows_held_out_are_measured_and_not_learned(tmp_path: Path) -> None:
    table = people().assign(part=np.arange(ROWS) % 5 == 0)
    path = stored(table, tmp_path / "people")
    model = fit_parts(parted(path), roles(path, test_column="part"), WISH)
    assert model.lessons[-1].rows == ROWS * 4 // 5
    measured = model.measured[-1]
    assert measured.rows == ROWS // 5
    held_out = table[table["part"]]
    x = model.encoder.inputs(held_out)  # type: ignore[union-attr]
    again = model.measure(x, held_out["job"].tolist(), held_out["sex"].tolist())
    assert again.metrics == measured.metrics
    assert again.predicted == measured.predicted
    drawn = fit_parts(parted(path), roles(path, ignore=("part",)), WISH, hold_out=0.25, seed=3)
    assert 0.2 < drawn.measured[-1].rows / ROWS < 0.3
    assert drawn.lessons[-1].rows + drawn.measured[-1].rows == ROWS


def test_attribute_values_that_were_never_learned_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else people of a new value would be missing from every comparison without a word."""
    table = people(600)
    path = stored(table, tmp_path / "people")
    model = fit_table(roles(path), WISH)
    table.loc[:99, "sex"] = "X"
    other = stored(table, tmp_path / "other")
    measured, notes = measure_table(model, other)
    monkeypatch.setattr(in_parts, "IN_PARTS", 10)
    again, told = measure_table(model, other)
    assert notes == told
    assert "attribute value(s) X were never learned: rows with them count as of an" in notes[0]
    assert again.metrics == measured.metrics


def test_drawn_rows_follow_from_their_number_alone() -> None:
    held_out = HeldOut(share=0.3, seed=5)
    whole = pd.DataFrame(index=range(10_000))
    found = held_out.rows_of(whole)
    assert abs(found.mean() - 0.3) < 4 * (0.3 * 0.7 / 10_000) ** 0.5
    assert np.array_equal(held_out.rows_of(whole.iloc[4000:5000]), found[4000:5000])
    assert not np.array_equal(replace(held_out, seed=6).rows_of(whole), found)


def test_updates_in_parts_learn_new_classes_and_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people()
    old = table["job"] != "nurse"
    first = stored(table[old], tmp_path / "old")
    later = stored(table[~old], tmp_path / "new", files=2)
    model = fit_table(roles(first), WISH)
    before = model.encoder
    lesson = update_parts(model, parted(later), roles(later))
    assert lesson.new_classes == ("nurse",)
    assert model.encoder is before
    in_memory = fit_table(roles(first), WISH)
    update_table(in_memory, later)
    x = in_memory.encoder.inputs(table)  # type: ignore[union-attr]
    assert np.array_equal(model.predict(x), in_memory.predict(x))
    monkeypatch.setattr(in_parts, "IN_PARTS", 10)
    again = update_table(model, later)
    assert any("learned before" in note for note in again.notes)


def test_predictions_in_parts_are_those_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people().assign(id=np.arange(ROWS) + 7)
    path = stored(table, tmp_path / "people")
    model = fit_table(roles(path, ignore=("id",)), WISH)
    ((whole, _),) = predict_table(model, path, ["id"], probabilities=True)
    monkeypatch.setattr(in_parts, "IN_PARTS", 10)
    with Processes(2) as processes:
        for engine in (Here(), processes):
            kinds = {"probabilities": True, "engine": engine}
            parts = [frame for frame, _ in predict_table(model, path, ["id"], **kinds)]
            assert len(parts) > 3
            found = pd.concat(parts, ignore_index=True)
            pd.testing.assert_frame_equal(found, whole)


@pytest.mark.parametrize("wish", [WISH, Wish("er", overrides=("epochs=1",))], ids=["moments", "er"])
def test_new_values_are_counted_over_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: Wish
) -> None:
    table = people()
    model = fit_table(roles(stored(table, tmp_path / "people")), wish)
    table.loc[[2, 350, 1100], "town"] = "new"
    table.loc[[10, 20, 500, 900], ["a", "town"]] = None
    other = stored(table.assign(wage=1.5), tmp_path / "other")
    whole = [notes for _, notes in predict_table(model, other)][-1]
    measured, said = measure_table(model, other)
    monkeypatch.setattr(in_parts, "IN_PARTS", 10)
    assert [notes for _, notes in predict_table(model, other)][-1] == whole
    again, said_in_parts = measure_table(model, other)
    assert replace(again, at=measured.at) == measured  # but for the time
    assert said_in_parts == said == whole
    assert len(whole) == 4
    assert "column 'a' has 4 missing value(s)" in whole[0]
    assert "column 'town' has 4 missing value(s)" in whole[1]
    assert "in 3 row(s): 'new'" in whole[2]
    assert whole[3] == "columns that the model was not fitted with, left out: wage"
    assert list(update_table(model, other).notes[:3]) == whole[:3]
    assert whole[3] in model.notes


def test_a_class_without_a_test_row_is_refused_in_parts_and_in_memory(tmp_path: Path) -> None:
    table = people()
    path = stored(
        table.assign(part=table["job"].ne("nurse") & (table.index % 5 == 0)), tmp_path / "a"
    )
    for learn in (
        lambda: fit_parts(parted(path), roles(path, test_column="part"), WISH),
        lambda: fit_table(roles(path, test_column="part"), WISH),
    ):
        with pytest.raises(DataError, match=r"no test sample of class\(es\) nurse; mark some"):
            learn()


def test_small_cells_are_pooled_over_all_parts(tmp_path: Path) -> None:
    table = people()
    rare = table.index[(table["job"] == "judge") & (table["sex"] == "F")][5:]
    path = stored(table.drop(rare), tmp_path / "people")
    wish = replace(WISH, overrides=(*WISH.overrides, "min_cell=10"))
    model, in_memory = fit_parts(parted(path), roles(path), wish), fit_table(roles(path), wish)
    mine, theirs = model.learner.moments, in_memory.learner.moments
    assert sorted(mine.keys) == sorted(theirs.keys)
    assert mine.seen.counts == theirs.seen.counts
    assert any("fewer than 10 rows" in note for note in model.notes)


def test_all_mistakes_are_told_before_anything_is_summed(tmp_path: Path) -> None:
    table = people()
    table.loc[[3, 700], "job"] = None
    table.loc[800, "sex"] = "NA"
    path = stored(table, tmp_path / "people")
    with pytest.raises(DataError) as caught:
        fit_parts(parted(path), roles(path), WISH)
    told = str(caught.value)
    assert "'job' has 2 missing value(s)" in told
    assert "row 4, 701" in told
    assert "'sex' has 1 missing value(s)" in told
    model = fit_parts(parted(path), roles(path, drop_missing=True), WISH)
    assert model.lessons[-1].rows == ROWS - 3
    kept = fit_parts(parted(path), roles(path, unknown_group=True, drop_missing=True), WISH)
    assert kept.lessons[-1].rows == ROWS - 2
    with pytest.raises(FaircilError, match="unknown column 'wage'"):
        fit_parts(parted(path), roles(path, ignore=("wage",)), WISH)


def test_values_of_another_kind_are_told_with_their_file(tmp_path: Path) -> None:
    table = people()
    path = stored(table, tmp_path / "people")
    model = fit_table(roles(path), WISH)
    wrong = table.assign(a=table["a"].astype(str) + " m")
    other = stored(wrong, tmp_path / "wrong")
    with pytest.raises(DataError, match=r"0\.parquet: column 'a' has"):
        update_parts(model, parted(other), roles(other))
    assert len(model.lessons) == 1


def test_an_identifier_as_attribute_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircil.data.row_parts.MOST_COMBINATIONS", 50)
    table = people().assign(sex=[f"id {n}" for n in range(ROWS)])
    path = stored(table, tmp_path / "people")
    with pytest.raises(DataError, match="seems to identify rows"):
        count_rows(RowReader(parted(path), roles(path)), Here())


def test_without_check_sums_rows_cannot_be_forgotten(tmp_path: Path) -> None:
    table = people()
    path = stored(table, tmp_path / "people")
    wish = replace(WISH, overrides=(*WISH.overrides, "forgettable=false"))
    model = fit_parts(parted(path), roles(path), wish)
    assert not model.learner.moments.seen.sums
    assert len(model.learner.moments.seen) == ROWS
    x = model.encoder.inputs(table[:5])  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="no checksums are kept"):
        model.forget(x, table["job"][:5].tolist(), table["sex"][:5].tolist())
    plain = fit_parts(parted(path), roles(path), WISH)
    plain.forget(x, table["job"][:5].tolist(), table["sex"][:5].tolist())
    assert len(plain.learner.moments.seen) == ROWS - 5


def store_plainly(table: pd.DataFrame, path: Path) -> int:
    """Store a table so that its size follows from the lengths of words alone; return the size."""
    table.to_parquet(path, row_group_size=100, compression=None, use_dictionary=False)
    return path.stat().st_size


@pytest.mark.parametrize("how", ["summed", "mapped"])
def test_classes_that_are_exchanged_between_two_passes_are_not_learned(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows have their places by the first pass: others would be in the wrong class or task."""
    table = people().replace({"job": {"cook": "a", "judge": "b", "nurse": "c"}})
    table.loc[table.index % 3 == 0, "job"] = "a"
    path = tmp_path / "people.parquet"
    size = store_plainly(table, path)
    module = in_parts if how == "summed" else mapped

    def then_exchanged(*given: object, **more: object) -> object:
        found = count_rows(*given, **more)  # type: ignore[arg-type]
        other = table.replace({"job": {"a": "b", "b": "a"}})
        assert store_plainly(other, path) == size
        return found

    monkeypatch.setattr(module, "count_rows", then_exchanged)
    monkeypatch.setattr(mapped, "IN_PARTS", 10)

    def learn() -> None:
        if how == "summed":
            fit_parts(parted(path), roles(path), WISH)
        else:
            mapped.load_table(roles(path, tasks="a,c|b"), seed=0)

    with pytest.raises(DataError, match=r"changed while it was being read; start again"):
        learn()


def test_names_that_come_after_the_count_are_not_learned(tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people")
    table = parted(path)
    reader = RowReader(table, roles(path), labels=("cook", "judge"), values=("F", "M"))
    reader = replace(reader, encoder=fit_table(roles(path), WISH).encoder)
    with pytest.raises(DataError, match="changed while it was being read"):
        list(reader.batches(table.parts[0]))


def test_a_disk_that_is_full_or_bounded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = stored(people(), tmp_path / "people")
    with pytest.raises(StorageError, match=r"No space left on device\); free space, or name"):
        fit_parts(parted(path), roles(path), Wish("er", overrides=("epochs=1",)))
    assert [one.name for one in tmp_path.iterdir()] == ["people"]
