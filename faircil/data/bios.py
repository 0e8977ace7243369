"""The datasets of biographies: Bias in Bios, and a small sample of it."""

from __future__ import annotations

import shlex

import numpy as np

from faircil.data.biographies import (
    COLUMNS,
    GENDERS,
    PROFESSIONS,
    Biographies,
    joined,
    parts_of,
    read_biographies,
)
from faircil.data.bios_files import sample_file, split_files
from faircil.data.holdout import draw_test
from faircil.data.parts import Parts
from faircil.data.stream import Integers
from faircil.data.tables import read_table
from faircil.errors import DataError, raise_all, shortened

CLASSES = 25
IN_SAMPLE = ("accountant", "dentist", "nurse", "physician", "psychologist", "surgeon")
TEST_SHARE = 0.3  # of each group of the sample
GUESSED = "label = classifier top-1"  # in the column that says where a row is from


def biasbios(_: int) -> Parts:
    """Biographies without their first sentence, in their own split; the dev split is not used.

    Classes are the 25 professions with most training biographies, the largest first; those of
    equal size come in alphabetical order. Biographies of other professions are left out.
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
    """Sample of six professions with enough biographies, the largest first.

    Rows whose profession is a classifier's guess are left out. Test biographies are 30 % of each
    group, drawn from the seed.
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
        "rows of professions with few biographies. To use others, run on the file: --data "
        f"{shlex.quote(str(path))} --text hard_text --label profession --sensitive gender "
        f"--tasks '{tasks}'"
    )
    return parts_of(used.take(~test), used.take(test), classes, (note,))


def _counts(biographies: Biographies) -> Integers:
    return np.bincount(biographies.profession, minlength=len(PROFESSIONS))


def _by_size(counts: Integers) -> Integers:
    """Return places, the largest count first; where counts are equal, as they come."""
    return np.argsort(-counts, kind="stable")


def _class_mistakes(classes: Integers, counts: Integers, test_counts: Integers) -> list[str]:
    mistakes = []
    if (n := np.count_nonzero(counts)) < CLASSES:
        mistakes.append(
            f"the training split of biasbios has biographies of {n} professions, expected at least "
            f"{CLASSES} of {len(PROFESSIONS)}; get its files again, or run on them as your own "
            "data: --data FILE --text hard_text --label profession --sensitive gender"
        )
    if len(absent := classes[(counts[classes] > 0) & (test_counts[classes] == 0)]):
        mistakes.append(
            "the test split of biasbios has no biography of "
            f"{shortened([PROFESSIONS[c] for c in absent])}; get its files again"
        )
    return mistakes
