"""Biography datasets: Bias in Bios, and a small sample of it.

They are not downloaded: one is large and has no fixed hash, the other is not available online.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.data.sources import (
    DataFile,
    FileStatus,
    check_manual_file,
    data_folder,
    manual_path,
)
from faircil.data.stream import Integers, Part, Parts
from faircil.data.table_columns import code_values, draw_test, gap_mistakes, text_mistakes
from faircil.data.tables import read_table
from faircil.errors import DataError, raise_all, shortened

FOLDER = "biasbios"
SPLITS = ("train", "test")  # the third, dev, is not used
LAYOUTS = ("data/{}-*.parquet", "{}-*.parquet", "{}.parquet", "{}.csv", "{}.csv.gz")
SAMPLE = DataFile(
    "bios_sample.csv", "f4de636c7207a5216e5a9c44ed2482894e2be5f4d34615bc8cd0ade423159bd0"
)
SHARD = re.compile(r"-(\d+)-of-(\d+)")  # as in train-00000-of-00002-0ab65b32c47407e8.parquet
COLUMNS = ("hard_text", "profession", "gender")
# Professions and genders, in the order of their numbers in the files.
PROFESSIONS = (
    "accountant", "architect", "attorney", "chiropractor", "comedian", "composer", "dentist",
    "dietitian", "dj", "filmmaker", "interior_designer", "journalist", "model", "nurse", "painter",
    "paralegal", "pastor", "personal_trainer", "photographer", "physician", "poet", "professor",
    "psychologist", "rapper", "software_engineer", "surgeon", "teacher", "yoga_teacher",
)  # fmt: skip
GENDERS = ("male", "female")
CLASSES = 25
IN_SAMPLE = ("accountant", "dentist", "nurse", "physician", "psychologist", "surgeon")
TEST_SHARE = 0.3  # of each group of the sample
GUESSED = "label = classifier top-1"  # in the column for the origin of a row


def bios_folder() -> Path:
    """Return the folder of the biographies."""
    return data_folder() / FOLDER


def split_files() -> dict[str, list[Path]]:
    """Return the files of each split; DataError if files are missing or duplicated."""
    states = check_splits()
    problems = dict.fromkeys(state.message for state in states if state.state != "ok")
    raise_all(list(problems), DataError)
    return {split: _found(split)[0] for split in SPLITS}


def check_splits() -> list[FileStatus]:
    """Return the state of each split's files; contents are not checked."""
    return [_status(split) for split in SPLITS]


def _status(split: str) -> FileStatus:
    found = _found(split)
    if not found:
        return FileStatus(bios_folder() / LAYOUTS[0].format(split), "missing", _how_to_get())
    path = found[0][0]
    if problem := _problem(found):
        return FileStatus(path, "corrupt", f"the {split} split of biasbios {problem}")
    return FileStatus(path, "ok", f"{path} is there")


def _found(split: str) -> list[list[Path]]:
    """Return the files of a split, for each layout that matches."""
    found = (sorted(bios_folder().glob(layout.format(split))) for layout in LAYOUTS)
    return [files for files in found if files]


def _how_to_get() -> str:
    folder = bios_folder()
    absent = " and ".join(split for split in SPLITS if not _found(split))
    return (
        f"{folder} has no {absent} split of biasbios: looked for "
        f"{', '.join(layout.format('SPLIT') for layout in LAYOUTS)}. Get the files with `hf "
        "download LabHC/bias_in_bios --repo-type dataset --local-dir "
        f"{shlex.quote(str(folder))}`, or set FAIRCIL_DATA to the folder that has {FOLDER}/"
    )


def _problem(found: list[list[Path]]) -> str | None:
    """Return a message if a split is duplicated or incomplete."""
    if len(found) > 1:
        several = " and ".join(str(files[0]) for files in found)
        return f"exists {len(found)} times, {several}; keep one of them"
    files = found[0]
    marks = [SHARD.search(path.name) for path in files]
    if len(files) == 1 and marks[0] is None:
        return None
    parts = sorted((int(mark[1]), int(mark[2])) for mark in marks if mark)
    total = parts[0][1] if parts else 0
    if len(parts) == len(files) and parts == [(number, total) for number in range(total)]:
        return None
    names = shortened([path.name for path in files])
    return (
        f"is incomplete: expected each of its {total or 'numbered'} parts once in "
        f"{files[0].parent}, found {names}; get the missing files and remove all others"
    )


def sample_file() -> Path:
    """Return the path of the sample; DataError if it is missing or a different file."""
    return manual_path(FOLDER, SAMPLE)


def check_sample() -> list[FileStatus]:
    """Return the state of the sample's file, checked by hash."""
    return [check_manual_file(FOLDER, SAMPLE)]


@dataclass(frozen=True)
class Biographies:
    """Texts, and for each the number of a profession and of a gender, int64 (n,)."""

    texts: list[str]
    profession: Integers
    gender: Integers

    def take(self, chosen: NDArray[np.bool_]) -> Biographies:
        """Return the biographies selected by bools (n,)."""
        rows = np.flatnonzero(chosen)
        texts = [self.texts[row] for row in rows.tolist()]
        return Biographies(texts, self.profession[rows], self.gender[rows])


def read_biographies(table: pd.DataFrame, path: Path, mistakes: list[str]) -> Biographies:
    """Read a table's ``COLUMNS``; append errors to ``mistakes``."""
    text, profession, gender = (table[name] for name in COLUMNS)
    found = text_mistakes(text)
    professions = _numbers(profession, PROFESSIONS, found)
    genders = _numbers(gender, GENDERS, found)
    mistakes += [f"{path}: {mistake}" for mistake in found]
    return Biographies(text.tolist(), professions, genders)


def joined(parts: Sequence[Biographies]) -> Biographies:
    """Concatenate biographies of several files."""
    return Biographies(
        [text for part in parts for text in part.texts],
        np.concatenate([part.profession for part in parts]),
        np.concatenate([part.gender for part in parts]),
    )


def parts_of(
    train: Biographies, test: Biographies, classes: Integers, notes: tuple[str, ...]
) -> Parts:
    """Map the professions ``classes`` (int64) to classes 0, 1, …; exclude the others."""
    train, test = (split.take(np.isin(split.profession, classes)) for split in (train, test))
    class_of = np.full(len(PROFESSIONS), -1)
    class_of[classes] = np.arange(len(classes))

    def part(split: Biographies, first: int) -> Part:
        return Part(class_of[split.profession], split.gender, lambda rows: rows + first)

    return Parts(
        part(train, 0),
        part(test, len(train.texts)),
        tuple(PROFESSIONS[profession] for profession in classes),
        "gender",
        GENDERS,
        notes,
        (*train.texts, *test.texts),
    )


def _numbers(column: pd.Series, names: Sequence[str], mistakes: list[str]) -> Integers:
    """Return the number of each value, given as number or name; -1 if it is neither."""
    known = {name: number for number, name in enumerate(names)}
    known |= {str(number): number for number in range(len(names))}
    values = code_values(column)
    number_of = [known.get(value.strip().lower().replace(" ", "_"), -1) for value in values.names]
    unknown = [value for value, n in zip(values.names, number_of, strict=True) if n < 0]
    if unknown:
        mistakes.append(
            f"column '{column.name}' has unknown values: {shortened(unknown)}; expected 0 … "
            f"{len(names) - 1}, or names: {', '.join(names)}"
        )
    mistakes += gap_mistakes(column)
    return np.append(number_of, -1)[values.codes]  # a missing value has code -1


def biasbios(_: int) -> Parts:
    """Biographies without their first sentence, in the official split; dev is not used.

    Classes are the 25 professions with the most training biographies, in decreasing order; ties are
    in alphabetical order. Biographies of other professions are excluded.
    """
    mistakes: list[str] = []
    splits = []
    for files in split_files().values():
        parts = []
        for path in files:
            try:
                parts.append(read_biographies(read_table(path, COLUMNS), path, mistakes))
            except DataError as error:
                mistakes.append(str(error))
        splits.append(parts)
    raise_all(mistakes, DataError)
    train, test = map(joined, splits)
    counts, test_counts = (_counts(split) for split in (train, test))
    classes = _by_size(counts)[:CLASSES]
    raise_all(_class_mistakes(classes, counts, test_counts), DataError)
    others = [
        f"{PROFESSIONS[c]} ({counts[c]:,} and {test_counts[c]:,})"
        for c in np.setdiff1d(np.flatnonzero(counts + test_counts), classes)
    ]
    note = (
        f"professions beyond the {CLASSES} most frequent, left out (training and test "
        f"biographies): {shortened(others)}"
    )
    return parts_of(train, test, classes, (note,) if others else ())


def biasbios_sample(seed: int) -> Parts:
    """Sample of six professions with enough biographies, in decreasing order.

    Rows whose profession was predicted by a classifier are excluded. Test biographies are 30 % of
    each group, drawn from the seed.
    """
    path = sample_file()
    table = read_table(path, (*COLUMNS, "source"))
    mistakes: list[str] = []
    everyone = read_biographies(table, path, mistakes)
    raise_all(mistakes, DataError)
    guessed = table["source"].str.contains(GUESSED, regex=False, na=False).to_numpy(bool)
    numbers = np.array([PROFESSIONS.index(name) for name in IN_SAMPLE])
    small = ~guessed & ~np.isin(everyone.profession, numbers)
    used = everyone.take(~guessed & ~small)
    classes = numbers[_by_size(_counts(used)[numbers])]
    test = draw_test(used.profession * len(GENDERS) + used.gender, TEST_SHARE, seed)
    tasks = "|".join(",".join(PROFESSIONS[c] for c in classes[i : i + 2]) for i in (0, 2, 4))
    note = (
        f"left out: {guessed.sum()} rows whose profession is a classifier's guess, {small.sum()} "
        "rows of professions with few biographies. To use others, run on the file: faircil run "
        f"--data {shlex.quote(str(path))} --text hard_text --label profession --sensitive gender "
        f"--tasks '{tasks}'"
    )
    return parts_of(used.take(~test), used.take(test), classes, (note,))


def _counts(biographies: Biographies) -> Integers:
    return np.bincount(biographies.profession, minlength=len(PROFESSIONS))


def _by_size(counts: Integers) -> Integers:
    """Return indices by decreasing count, ties in original order."""
    return np.argsort(-counts, kind="stable")


def _class_mistakes(classes: Integers, counts: Integers, test_counts: Integers) -> list[str]:
    mistakes: list[str] = []
    if (n := np.count_nonzero(counts)) < CLASSES:
        mistakes.append(
            f"the training split of biasbios has biographies of {n} professions, expected at "
            f"least {CLASSES} of {len(PROFESSIONS)}; get its files again, or give them as your own "
            "data with `own` (text hard_text, label profession, sensitive gender)"
        )
    if len(absent := classes[(counts[classes] > 0) & (test_counts[classes] == 0)]):
        mistakes.append(
            "the test split of biasbios has no biography of "
            f"{shortened([PROFESSIONS[c] for c in absent])}; get its files again"
        )
    return mistakes
