"""Tiny files that replace the real ones, so that reading them can be tested anywhere."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from faircil.data.sources import SOURCES

SIDE = 4
PER_CLASS = {"train": 40, "t10k": 20}
PEOPLE = 1885  # as in the real table


@dataclass(frozen=True)
class TinyFiles:
    """The written data: images (n, side, side), labels (n,), and rows of the drug table."""

    images: dict[tuple[str, str], NDArray[np.uint8]]
    labels: dict[tuple[str, str], NDArray[np.uint8]]
    people: list[list[str]]


def _idx(array: NDArray[np.uint8]) -> bytes:
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def _people(generator: np.random.Generator) -> list[list[str]]:
    rows = []
    for number in range(PEOPLE):
        traits = [f"{value:.5f}" for value in generator.normal(size=12)]
        traits[1] = generator.choice(["0.48246", "-0.48246"])
        answers = [f"CL{level}" for level in generator.integers(7, size=19)]
        rows.append([str(number + 1), *traits, *answers])
    return rows


@contextmanager
def in_place_of_the_real_ones(folder: Path) -> Iterator[TinyFiles]:
    """Write files with the names of the real ones, and expect their hashes."""
    generator = np.random.default_rng(0)
    written = TinyFiles({}, {}, _people(generator))
    table = "".join(",".join(row) + "\n" for row in written.people)
    contents = {("drug", "drug_consumption.data"): table.encode()}
    for source in ("mnist", "fashion-mnist"):
        for part, count in PER_CLASS.items():
            labels = generator.permutation(np.repeat(np.arange(10, dtype=np.uint8), count))
            images = generator.integers(256, size=(len(labels), SIDE, SIDE), dtype=np.uint8)
            images[generator.random(images.shape) < 0.5] = 0
            written.labels[source, part], written.images[source, part] = labels, images
            contents[source, f"{part}-labels-idx1-ubyte.gz"] = _idx(labels)
            contents[source, f"{part}-images-idx3-ubyte.gz"] = _idx(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRCIL_DATA", str(folder))
        for name, source in SOURCES.items():
            files = tuple(
                replace(file, sha256=hashlib.sha256(contents[name, file.name]).hexdigest())
                for file in source.files
            )
            patch.setitem(SOURCES, name, replace(source, files=files))
            for file in files:
                _write(folder / name / file.name, contents[name, file.name])
        yield written


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
