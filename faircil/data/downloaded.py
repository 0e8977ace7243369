"""Datasets read from files: MNIST, Fashion-MNIST, Biased MNIST, DRUG."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from faircil.data.colours import coloured_parts
from faircil.data.idx import read_idx
from faircil.data.parts import Parts
from faircil.data.sources import read_file
from faircil.data.stream import Integers, Part

FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CANNABIS, GENDER = 18, 2  # columns of the DRUG file; 1 … 12 are the quantified features
USE_LEVELS = {"CL0": 0, "CL1": 1, "CL2": 2, "CL3": 3, "CL4": 4, "CL5": 4, "CL6": 5}
USE_NAMES = (
    "never", "over a decade ago", "last decade", "last year", "last month or week", "last day",
)  # fmt: skip


def mnist(_: int) -> Parts:
    """Handwritten digits, 60,000 + 10,000, in their own split."""
    train, test = (_grey(*_idx_part("mnist", part), 0.1307, 0.3081) for part in ("train", "t10k"))
    return Parts(train, test, tuple(str(c) for c in range(10)))


def fashion_mnist(_: int) -> Parts:
    """Clothes, 60,000 + 10,000, in their own split."""
    train, test = (
        _grey(*_idx_part("fashion-mnist", part), 0.2860, 0.3530) for part in ("train", "t10k")
    )
    return Parts(train, test, FASHION)


def biased_mnist(seed: int) -> Parts:
    """White MNIST digits on a ground whose colour goes with the class; colours from the seed."""
    (train, y_train), (test, y_test) = (_idx_part("mnist", part) for part in ("train", "t10k"))
    return coloured_parts((train > 0, test > 0), (y_train, y_test), seed)


def drug(seed: int) -> Parts:
    """Cannabis use from 12 quantified traits, gender among them; 70/30 split from the seed."""
    table = np.loadtxt(
        BytesIO(read_file("drug", "drug_consumption.data")), delimiter=",", dtype=str
    )
    x = table[:, 1:13].astype(np.float32)
    y = np.array([USE_LEVELS[level] for level in table[:, CANNABIS]], dtype=np.int64)
    z = (table[:, GENDER].astype(float) > 0).astype(np.int64)
    order = np.random.default_rng([seed, 15]).permutation(len(y))
    cut = int(0.7 * len(y))

    def part(rows: Integers) -> Part:
        return Part(y[rows], z[rows], lambda chosen: x[rows[chosen]])

    return Parts(part(order[:cut]), part(order[cut:]), USE_NAMES, "gender", ("male", "female"))


def _idx_part(source: str, part: str) -> tuple[NDArray[np.uint8], Integers]:
    """Read images, (n, pixels), and labels."""
    images = read_idx(read_file(source, f"{part}-images-idx3-ubyte.gz"))
    labels = read_idx(read_file(source, f"{part}-labels-idx1-ubyte.gz"))
    return images.reshape(len(images), -1), labels.astype(np.int64)


def _grey(pixels: NDArray[np.uint8], y: Integers, mean: float, std: float) -> Part:
    """Scale to [0, 1] and normalise."""
    table = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
    return Part(y, None, lambda rows: table[pixels[rows]])
