from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from any_text import NUL
from faircil.data.bios import GENDERS, PROFESSIONS, biasbios, biasbios_sample
from faircil.data.stream import Part, Parts
from faircil.errors import DataError
from tiny_bios import (
    OTHERS,
    SAMPLE_SIZES,
    SIZES,
    TEST_SIZE,
    biographies,
    in_place_of_the_sample,
    sample,
    write_splits,
)

HUB = "-00000-of-00001-0ab65b32c47407e8.parquet"
ODD = (
    "مرحبا بالعالم",
    "她是医生 👩🏽‍⚕️",
    f"a{NUL}b",
    "line\u2028separator",
    'quote " and\nnew line',
    "e\u0301",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of biographies, with a training and a test file."""
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    write_splits(tmp_path)
    return tmp_path / "biasbios"


def described(parts: Parts, part: Part) -> set[tuple[str, str, str]]:
    """Return text, profession and gender of each sample."""
    assert parts.texts is not None
    assert part.z is not None
    numbers = part.inputs(np.arange(len(part.y)))
    return {
        (parts.texts[n], parts.class_names[y], parts.attribute_values[z])
        for n, y, z in zip(numbers.tolist(), part.y, part.z, strict=True)
    }


def rows(table: pd.DataFrame) -> set[tuple[str, str, str]]:
    return {(text, PROFESSIONS[p], GENDERS[g]) for text, p, g in table.itertuples(index=False)}


def test_the_25_largest_professions_are_the_classes(folder: Path) -> None:
    parts = biasbios(0)
    order = sorted(range(28), key=lambda c: (-SIZES[c], PROFESSIONS[c]))
    assert parts.class_names == tuple(PROFESSIONS[c] for c in order[:25])
    assert parts.class_names[-1] == "model"  # as many as teachers
    assert np.bincount(parts.train.y).tolist() == [SIZES[c] for c in order[:25]]
    assert np.bincount(parts.test.y).tolist() == [TEST_SIZE] * 25
    assert parts.attribute_values == GENDERS
    (note,) = parts.notes
    assert "left out" in note
    assert "nurse (4 and 4), teacher (6 and 4), yoga_teacher (4 and 4)" in note


def test_samples_belong_to_their_texts(folder: Path) -> None:
    parts = biasbios(0)
    for split, part in (("train", parts.train), ("test", parts.test)):
        wanted = {row for row in rows(biographies(split)) if row[1] not in OTHERS}
        assert described(parts, part) == wanted


def as_names(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(
        profession=[PROFESSIONS[c].replace("_", " ").title() for c in table["profession"]],
        gender=[GENDERS[g].upper() for g in table["gender"]],
    )


def csv(path: Path, table: pd.DataFrame) -> None:
    table.to_csv(path, index=False)


def hub(path: Path, table: pd.DataFrame) -> None:
    pytest.importorskip("pyarrow")
    path.parent.mkdir(exist_ok=True)
    table.assign(unused=0).to_parquet(path, index=False)


def parts_of_three(path: Path, table: pd.DataFrame) -> None:
    cuts = np.linspace(0, len(table), 4, dtype=int)
    for number, (start, end) in enumerate(pairwise(cuts)):
        hub(path.parent / f"{path.name}-{number:05}-of-00003.parquet", table[start:end])


def one_and_the_others(path: Path, table: pd.DataFrame) -> None:
    for number, rows in enumerate((slice(1), slice(1, None))):
        hub(path.parent / f"{path.name}-{number:05}-of-00002.parquet", table[rows])


@pytest.mark.parametrize(
    ("name", "write", "change"),
    [
        ("{}.csv", csv, as_names),
        ("{}.csv", csv, lambda table: table[table.columns[::-1]]),
        ("{}.csv", csv, lambda table: table.astype({"profession": float, "gender": float})),
        ("{}.csv.gz", csv, lambda table: table),
        ("{}.parquet", hub, lambda table: table),
        ("{}" + HUB, hub, as_names),
        ("data/{}" + HUB, hub, lambda table: table),
        ("data/{}" + HUB, hub, lambda table: table.astype({"profession": str, "gender": str})),
        ("data/{}" + HUB, hub, lambda table: as_names(table).astype({"profession": "category"})),
        ("data/{}", parts_of_three, lambda table: table),
        ("data/{}", one_and_the_others, lambda table: table),
    ],
)
def test_every_spelling_of_the_files_gives_the_same(
    folder: Path,
    name: str,
    write: Callable[[Path, pd.DataFrame], None],
    change: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    usual = biasbios(0)
    for split in ("train", "test"):
        (folder / f"{split}.csv").unlink()
        write(folder / name.format(split), change(biographies(split)))
    parts = biasbios(0)
    assert (parts.texts, parts.class_names, parts.notes) == (
        usual.texts,
        usual.class_names,
        usual.notes,
    )
    assert described(parts, parts.train) == described(usual, usual.train)


@pytest.mark.parametrize(("name", "write"), [("train.csv", csv), ("data/train" + HUB, hub)])
def test_any_text_survives(
    folder: Path, name: str, write: Callable[[Path, pd.DataFrame], None]
) -> None:
    table = biographies("train").sort_values("profession")
    table.iloc[: len(ODD), 0] = ODD
    (folder / "train.csv").unlink()
    write(folder / name, table)
    assert biasbios(0).texts[: len(ODD)] == ODD  # type: ignore[index]


def test_missing_files_say_how_to_get_them(folder: Path) -> None:
    (folder / "test.csv").unlink()
    with pytest.raises(DataError) as raised:
        biasbios(0)
    message = str(raised.value)
    for part in (
        f"{folder} has no test split",
        "data/SPLIT-*.parquet",
        "SPLIT.csv.gz",
        f"`hf download LabHC/bias_in_bios --repo-type dataset --local-dir {folder}`",
        "FAIRCIL_DATA",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train-00000-of-00002.parquet"], "train split .* is incomplete: expected each of its 2"),
        (["train-00000-of-00001-a.parquet", "train-00000-of-00001-b.parquet"], "incomplete"),
        (["train-a.parquet", "train-b.parquet"], "incomplete: expected each of its numbered parts"),
        (["train.parquet", "train.csv"], "exists 2 times, .*train.parquet and .*train.csv; keep"),
    ],
)
def test_files_that_do_not_make_one_split_are_refused(
    folder: Path, names: list[str], message: str
) -> None:
    (folder / "train.csv").unlink()
    for name in names:
        (folder / name).touch()
    with pytest.raises(DataError, match=message):
        biasbios(0)


def changed(column: str, value: object, rows: int = 2) -> pd.DataFrame:
    table = biographies("train").astype({column: object})
    table.iloc[2 : 2 + rows, list(table).index(column)] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed("hard_text", None), r"train.csv: column 'hard_text' has 2 missing .* row 3, 4 \("),
        (changed("hard_text", "NA"), "column 'hard_text' has 2 missing"),
        (biographies("train").assign(hard_text=1), "'hard_text' holds numbers, such as 1"),
        (changed("profession", 28), "'profession' has unknown values: 28; expected 0 … 27, or"),
        (changed("profession", "astronaut"), "unknown values: astronaut; .* names: accountant"),
        (changed("profession", None), "'profession' has 2 missing"),
        (changed("gender", 2), "'gender' has unknown values: 2; expected 0 … 1, or names: male"),
        (changed("gender", None), "'gender' has 2 missing"),
        (biographies("train").drop(columns="gender"), "has no column 'gender'; it has hard_text"),
        (biographies("train").query("profession < 20"), "of 20 professions, expected at least 25"),
    ],
)
def test_unusable_values_are_named(folder: Path, table: pd.DataFrame, message: str) -> None:
    csv(folder / "train.csv", table)
    with pytest.raises(DataError, match=message):
        biasbios(0)


def test_a_class_without_test_biographies_is_named(folder: Path) -> None:
    csv(folder / "test.csv", biographies("test").query("profession not in [0, 13]"))
    with pytest.raises(DataError, match="no biography of accountant; get"):  # nurses are no class
        biasbios(0)


def test_professions_in_neither_split_are_complained_of_once(folder: Path) -> None:
    for split in ("train", "test"):
        csv(folder / f"{split}.csv", biographies(split).query("profession < 20"))
    with pytest.raises(DataError, match=r"^the training split of biasbios has .* of 20 prof"):
        biasbios(0)


def test_all_mistakes_of_all_files_come_at_once(folder: Path) -> None:
    csv(folder / "train.csv", changed("gender", 7).assign(profession="cook"))
    (folder / "test.csv").unlink()
    (folder / "test.csv.gz").write_bytes(gzip.compress(b"hard_text,job\nabc,1\n", mtime=0))
    with pytest.raises(DataError) as raised:
        biasbios(0)
    lines = str(raised.value).splitlines()
    assert len(lines) == 4
    assert ["cook" in lines[0], "'gender' has" in lines[1]] == [True, True]
    assert ["'profession'" in lines[2], "'gender'" in lines[3]] == [True, True]


def test_the_sample_has_six_professions_by_size(folder: Path) -> None:
    with in_place_of_the_sample(folder.parent) as path:
        parts = biasbios_sample(0)
    assert parts.class_names == tuple(sorted(SAMPLE_SIZES, key=lambda name: -SAMPLE_SIZES[name]))
    given = {tuple(row[:3]) for row in sample().to_numpy()}
    found = described(parts, parts.train) | described(parts, parts.test)
    assert found == {row for row in given if row[1] in SAMPLE_SIZES and "guess" not in row[0]}
    (note,) = parts.notes
    assert "50 rows whose profession is a classifier's guess, 2 rows of professions" in note
    assert f"--data {path} --text hard_text --label profession --sensitive gender" in note
    assert "--tasks 'accountant,surgeon|physician,nurse|psychologist,dentist'" in note


def test_the_seed_draws_the_test_part_of_the_sample(folder: Path) -> None:
    with in_place_of_the_sample(folder.parent):
        first, again, other = (biasbios_sample(seed) for seed in (0, 0, 1))
    assert first.texts == again.texts
    assert set(first.texts or ()) == set(other.texts or ())
    assert described(first, first.test) != described(other, other.test)
    for parts in (first, other):
        groups = Counter((name, gender) for _, name, gender in described(parts, parts.test))
        for name, size in SAMPLE_SIZES.items():
            assert groups[name, "male"] == groups[name, "female"] == round(0.3 * size / 2)


@pytest.mark.data("biasbios-sample")
def test_the_real_sample() -> None:
    parts = biasbios_sample(0)
    sizes = np.bincount(parts.train.y) + np.bincount(parts.test.y)
    assert dict(zip(parts.class_names, sizes.tolist(), strict=True)) == {
        "accountant": 1008,
        "surgeon": 263,
        "nurse": 262,
        "physician": 251,
        "psychologist": 143,
        "dentist": 68,
    }
    assert "736 rows" in parts.notes[0]


def test_another_file_in_place_of_the_sample_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"bios_sample.csv is missing: put the file there, or set"):
        biasbios_sample(0)
    (folder / "bios_sample.csv").write_text("hard_text,profession,gender,source\n")
    with pytest.raises(DataError, match=r"is corrupt: .* expected f4de636c"):
        biasbios_sample(0)
