from __future__ import annotations

import gzip
import hashlib
import random
from pathlib import Path

import pytest

from faircil.data.datasets import DATASETS, load_dataset
from faircil.data.sources import DataFile
from faircil.errors import DataError
from faircil.testing import check_dataset
from faircil_lab.paper import people

COLUMNS = {
    "CENSUS": ("occupation", ("sex", "race")),
    "JOBS": ("typejob90", ("gender",)),
    "WEIGHT": ("NObeyesdad", ("Gender",)),
}
TABLES = {
    "census-occupation": "CENSUS",
    "census-occupation-race": "CENSUS",
    "nls-jobs": "JOBS",
    "obesity": "WEIGHT",
}


@pytest.fixture
def tiny_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write small files of the same columns in place of the real ones."""
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    (tmp_path / people.FOLDER).mkdir()
    for name, (label, sensitive) in COLUMNS.items():
        file: DataFile = getattr(people, name)
        draw = random.Random(0)
        lines = [",".join([label, *sensitive, "age"])]
        for number in range(160):
            values = (f"{column}{number // 4 % 2}" for column in sensitive)
            lines.append(f"class{number % 4},{','.join(values)},{draw.gauss(number % 4, 1):.4f}")
        text = "\n".join(lines).encode()
        path = tmp_path / people.FOLDER / file.name
        path.write_bytes(gzip.compress(text) if file.name.endswith(".gz") else text)
        known = DataFile(file.name, hashlib.sha256(text).hexdigest())
        monkeypatch.setattr(people, name, known)


@pytest.mark.usefixtures("tiny_people")
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_people_is_a_dataset(name: str) -> None:
    check_dataset(name)
    stream = load_dataset(name, 0)
    assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3)]
    assert stream.attribute == DATASETS[name].attribute
    assert len(stream.attribute_values) == 2


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_or_other_file_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"is missing: put the file there, or set FAIRCIL_DATA"):
        load_dataset(name, 0)
    path = tmp_path / people.FOLDER / getattr(people, TABLES[name]).name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"other") if path.name.endswith(".gz") else b"other")
    with pytest.raises(DataError, match=r"is corrupt: .* expected"):
        load_dataset(name, 0)
    assert [file.state for file in DATASETS[name].check_files()] == ["corrupt"]
