"""A few fabricated biographies in files with the format of the real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from faircil.data import bios
from faircil.data.bios import GENDERS, GUESSED, IN_SAMPLE, PROFESSIONS
from faircil.data.sources import DataFile

# Two professions of each size: model and teacher, the second smallest, are 25th and 26th.
SIZES = np.array([4 + 2 * (13 - c % 14) for c in range(28)])
OTHERS = ("nurse", "teacher", "yoga_teacher")
TEST_SIZE = 4
SAMPLE_SIZES = dict(zip(IN_SAMPLE, (40, 12, 20, 24, 16, 30), strict=True))


def biographies(split: str) -> pd.DataFrame:
    """Return a split with numbers for professions and genders, in mixed order."""
    sizes = SIZES if split == "train" else np.full(28, TEST_SIZE)
    table = pd.DataFrame({"profession": np.repeat(np.arange(28), sizes)})
    table["gender"] = np.arange(len(table)) % 2
    table["hard_text"] = [
        f"{split} {number}: a {GENDERS[gender]} {PROFESSIONS[profession]}"
        for number, (profession, gender) in enumerate(table.to_numpy())
    ]
    order = np.random.default_rng(0).permutation(len(table))
    return table.iloc[order][["hard_text", "profession", "gender"]]


def sample() -> pd.DataFrame:
    """Return a sample: the six professions, a seventh, and rows with a classifier's label."""
    rows = [
        (f"row {number}: a {gender} {name}", name, gender, "some repository")
        for name, size in {**SAMPLE_SIZES, "poet": 3}.items()
        for number in range(size // 2)
        for gender in GENDERS
    ]
    rows += [(f"guess {n}", "dentist", "male", f"another ({GUESSED})") for n in range(50)]
    return pd.DataFrame(rows, columns=["hard_text", "profession", "gender", "source"])


def write_splits(folder: Path) -> None:
    """Write training and test biographies as CSV files."""
    (folder / "biasbios").mkdir(parents=True, exist_ok=True)
    for split in bios.SPLITS:
        biographies(split).to_csv(folder / "biasbios" / f"{split}.csv", index=False)


@contextmanager
def in_place_of_the_sample(folder: Path) -> Iterator[Path]:
    """Write a sample, and expect its hash."""
    path = folder / "biasbios" / bios.SAMPLE.name
    path.parent.mkdir(parents=True, exist_ok=True)
    sample().to_csv(path, index=False)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bios, "SAMPLE", DataFile(path.name, digest))
        yield path
