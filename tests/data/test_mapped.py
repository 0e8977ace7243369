"""Runs on tables larger than memory: the same tasks as in memory, with inputs in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from faircil import run
from faircil.data import mapped, parts as parts_module
from faircil.data.mapped import load_table
from faircil.data.own import load_own
from faircil.errors import DataError, StorageError, UsageError
from faircil.runs.config import resolve
from tables_in_parts import people, roles, stored

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 150)
    monkeypatch.setattr(mapped, "IN_PARTS", 100)


def test_tasks_are_those_of_the_table_in_memory(tmp_path: Path) -> None:
    table = people().assign(part=np.arange(1200) % 4 == 0)
    path = stored(table, tmp_path / "people")
    spec = roles(path, test_column="part", tasks="nurse,cook|judge")
    found, wanted = load_table(spec, 0), load_own(spec, 0)
    assert found.class_names == wanted.class_names
    assert found.attribute_values == wanted.attribute_values
    assert found.encoder == wanted.encoder
    for mine, theirs in zip(found.tasks, wanted.tasks, strict=True):
        assert mine.classes == theirs.classes
        for part in ("train", "test"):
            left, right = getattr(mine, part), getattr(theirs, part)
            assert torch.equal(left.x, right.x)
            assert torch.equal(left.y, right.y)
            assert torch.equal(left.z, right.z)


def test_a_run_on_mapped_rows_is_a_run(tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people")
    spec = roles(path, test_share=0.25)
    config = resolve(own=spec, method="fsw", overrides=["epochs=2"])
    result = run(config, 0)
    assert any("mapped from a file" in note for note in result.notes)
    assert result.per_task[-1].accuracy > 0.3
    again = run(config, 0)
    assert np.array_equal(again.predictions[-1].y_pred, result.predictions[-1].y_pred)


def test_classes_in_no_task_are_left_out(tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people")
    found = load_table(roles(path, tasks="nurse|judge"), 0)
    assert found.class_names == ("judge", "nurse")
    assert any("left out: cook" in note for note in found.notes)
    with pytest.raises(UsageError, match="poet"):
        load_table(roles(path, tasks="nurse|poet"), 0)


def test_tasks_of_both_kinds_are_refused_as_in_memory(tmp_path: Path) -> None:
    spec = roles(stored(people(), tmp_path / "people"), tasks="nurse|judge", classes_per_task=3)
    for load in (load_own, load_table):
        with pytest.raises(UsageError, match="`tasks` and `classes_per_task` are given"):
            load(spec, 0)


def test_what_does_not_fit_is_told_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(people(), tmp_path / "people")
    monkeypatch.setattr(mapped, "MARGIN", 2**60)
    with pytest.raises(StorageError, match="TMPDIR"):
        load_table(roles(path), 0)
    marked = people().assign(part=False)
    marked.loc[marked["job"] == "cook", "part"] = True
    path = stored(marked, tmp_path / "marked")
    with pytest.raises(DataError, match="all rows of class"):
        load_table(roles(path, test_column="part"), 0)
