"""Biographies with the numbers of their professions and genders, from tables of Bias in Bios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from faircil.data.encode import code_values
from faircil.data.parts import Parts
from faircil.data.roles import missing_mistakes, text_mistakes
from faircil.data.stream import Integers, Part
from faircil.errors import shortened

COLUMNS = ("hard_text", "profession", "gender")
PROFESSIONS = (
    "accountant", "architect", "attorney", "chiropractor", "comedian", "composer", "dentist",
    "dietitian", "dj", "filmmaker", "interior_designer", "journalist", "model", "nurse", "painter",
    "paralegal", "pastor", "personal_trainer", "photographer", "physician", "poet", "professor",
    "psychologist", "rapper", "software_engineer", "surgeon", "teacher", "yoga_teacher",
)  # fmt: skip
GENDERS = ("male", "female")
# Both in the order of their numbers in the files.


@dataclass(frozen=True)
class Biographies:
    """Texts, and for each the number of a profession and of a gender, int64 (n,)."""

    texts: list[str]
    profession: Integers
    gender: Integers

    def take(self, chosen: NDArray[np.bool_]) -> Biographies:
        """Return those that are chosen, bools (n,)."""
        rows = np.flatnonzero(chosen)
        texts = [self.texts[row] for row in rows.tolist()]
        return Biographies(texts, self.profession[rows], self.gender[rows])


def read_biographies(table: pd.DataFrame, path: Path, mistakes: list[str]) -> Biographies:
    """Read a table's ``COLUMNS``; what is wrong with it goes to ``mistakes``."""
    text, profession, gender = (table[name] for name in COLUMNS)
    found = text_mistakes(text)
    professions = _numbers(profession, PROFESSIONS, found)
    genders = _numbers(gender, GENDERS, found)
    mistakes += [f"{path}: {mistake}" for mistake in found]
    return Biographies(text.tolist(), professions, genders)


def joined(parts: Sequence[Biographies]) -> Biographies:
    """Put biographies of several files together."""
    return Biographies(
        [text for part in parts for text in part.texts],
        np.concatenate([part.profession for part in parts]),
        np.concatenate([part.gender for part in parts]),
    )


def parts_of(
    train: Biographies, test: Biographies, classes: Integers, notes: tuple[str, ...]
) -> Parts:
    """Make classes 0, 1, … of the professions ``classes`` (int64), and leave the others out."""
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
    """Return the number of each value, given as a number or as a name; -1 where it is neither."""
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
    mistakes += missing_mistakes(column)
    return np.append(number_of, -1)[values.codes]  # a missing value has code -1
