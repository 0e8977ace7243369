"""Numeric datasets: MNIST, Fashion-MNIST, Biased MNIST, DRUG, scikit-learn's digits, the toy.

Every class has its own colour. A sample gets it with probability r (.95 in training, .5 in test),
otherwise a random other colour. The attribute is whether the colour is another class's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from io import BytesIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import affine_grid, grid_sample

from faircil.data.sources import read_file
from faircil.data.stream import Integers, Part, Parts
from faircil.errors import DataError

PALETTE = np.array(
    [
        (1, 0, 0),
        (0, 1, 0),
        (1, 1, 0),
        (0, 0, 1),
        (1, 0.65, 0),
        (0.5, 0, 0.5),
        (0, 1, 1),
        (1, 0.75, 0.8),
        (0.8, 1, 0),
        (0.588, 0.294, 0),
    ],
    dtype=np.float32,
)
# Per channel: closed-form moments as used by the method's authors, not the empirical ones.
MEAN = np.array([0.6069, 0.5912, 0.3976], dtype=np.float32)
STD = np.array([0.4016, 0.4076, 0.4056], dtype=np.float32)
VALUES = ("own colour", "other colour")
OWN_COLOUR = {"train": 0.95, "test": 0.5}  # probability of a class's own colour
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CANNABIS, GENDER = 18, 2  # columns of the DRUG file; 1 … 12 are the quantified features
USE_LEVELS = {"CL0": 0, "CL1": 1, "CL2": 2, "CL3": 3, "CL4": 4, "CL5": 4, "CL6": 5}
USE_NAMES = (
    "never", "over a decade ago", "last decade", "last year", "last month or week", "last day",
)  # fmt: skip
SIDE = 16
GREY = (1, 28, 28)
TRAIN_COPIES, TEST_COPIES = 20, 4
TOY_CENTRES = np.array([(-2, -2), (2, 4), (4, 2)], dtype=np.float64)
TOY_TRAIN, TOY_TEST = 1000, 500  # per cluster


def read_idx(content: bytes) -> NDArray[np.uint8]:
    """Return the array of a decompressed idx file.

    Parameters
    ----------
    content : bytes
        Two zero bytes, the type (8: unsigned bytes), the number of dimensions, each dimension as a
        big-endian 32-bit number, then the values.

    Returns
    -------
    ndarray of uint8
        With the shape in the header, for MNIST (n, 28, 28) or (n,). It is writable.

    Raises
    ------
    DataError
        If the content is not an idx file.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    array([7, 9], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or content[3] == 0:
        raise DataError(
            f"not an idx file of bytes: it starts with '{content[:4].hex(' ')}', expected "
            "'00 00 08' and the number of dimensions; give an unpacked idx file"
        )
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise DataError(
            f"an idx file that ends in its header: it has {len(content)} bytes, expected at least "
            f"{header}; get the file again"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], dtype=">u4"))
    if len(content) - header != math.prod(shape):
        raise DataError(
            f"an idx file of the wrong length: it holds {len(content) - header} values, expected "
            f"{math.prod(shape)} for its shape {shape}; get the file again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


def draw_colours(y: Integers, own: float, generator: np.random.Generator) -> Integers:
    """Draw a colour index for each label: that of the class with probability ``own``.

    With probability q the class's colour is set, else one of all ten is drawn uniformly; so
    ``own = q + (1 − q)/10``, that is ``q = (10·own − 1)/9``.
    """
    q = (10 * own - 1) / 9
    uniform = generator.integers(len(PALETTE), size=len(y))
    return np.where(generator.random(len(y)) < q, y, uniform)


def coloured(ink: NDArray[np.bool_], y: Integers, colour: Integers) -> Part:
    """Build white digits on a coloured background; the attribute is "not its own colour".

    Parameters
    ----------
    ink : ndarray of bool, shape (n, pixels)
        Pixels of the digit.
    y, colour : ndarray of int64, shape (n,)
        Digits 0 … 9, and colour indices.
    """
    ground, white = (PALETTE - MEAN) / STD, (1 - MEAN) / STD

    def inputs(rows: Integers) -> NDArray[np.float32]:
        mask = ink[rows]
        image = np.empty((len(rows), 3, mask.shape[1]), dtype=np.float32)
        for channel in range(3):
            image[:, channel] = ground[colour[rows], channel, None]
            image[:, channel][mask] = white[channel]
        return image.reshape(len(rows), -1)

    return Part(y, (colour != y).astype(np.int64), inputs)


def coloured_parts(
    ink: tuple[NDArray[np.bool_], NDArray[np.bool_]], labels: tuple[Integers, Integers], seed: int
) -> Parts:
    """Colour the training and test parts, with colours drawn from the seed."""
    generator = np.random.default_rng([seed, 13])
    train, test = (
        coloured(mask, y, draw_colours(y, own, generator))
        for mask, y, own in zip(ink, labels, OWN_COLOUR.values(), strict=True)
    )
    side = math.isqrt(ink[0].shape[1])
    names = tuple(str(c) for c in range(10))
    return Parts(train, test, names, "colour", VALUES, image=(3, side, side))


def mnist(_: int) -> Parts:
    """Handwritten digits, 60,000 + 10,000, in the official split."""
    train, test = (_grey(*_idx_part("mnist", part), 0.1307, 0.3081) for part in ("train", "t10k"))
    return Parts(train, test, tuple(str(c) for c in range(10)), image=GREY)


def fashion_mnist(_: int) -> Parts:
    """Clothes, 60,000 + 10,000, in the official split."""
    train, test = (
        _grey(*_idx_part("fashion-mnist", part), 0.2860, 0.3530) for part in ("train", "t10k")
    )
    return Parts(train, test, FASHION, image=GREY)


def biased_mnist(seed: int) -> Parts:
    """MNIST digits on a background whose colour correlates with the class, drawn from the seed."""
    (train, y_train), (test, y_test) = (_idx_part("mnist", part) for part in ("train", "t10k"))
    return coloured_parts((train > 0, test > 0), (y_train, y_test), seed)


def drug(seed: int) -> Parts:
    """Cannabis use from 12 quantified traits including gender; 70/30 split from the seed."""
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


def digits(seed: int) -> Parts:
    """1,797 digits, split first, then 20 distorted copies of each for training, 4 for test."""
    images, labels = _digit_copies(seed)

    def part(x: NDArray[np.float32], y: Integers) -> Part:
        return Part(y, None, lambda rows: (x[rows] - 0.30) / 0.35)

    return Parts(
        part(images[0], labels[0]),
        part(images[1], labels[1]),
        tuple(str(c) for c in range(10)),
        copies=TRAIN_COPIES,
        image=(1, SIDE, SIDE),
    )


def biased_digits(seed: int) -> Parts:
    """Put the same digits on a background whose colour correlates with the class."""
    images, labels = _digit_copies(seed)
    ink = images[0] > 0, images[1] > 0
    return replace(coloured_parts(ink, labels, seed), copies=TRAIN_COPIES)


def toy(seed: int) -> Parts:
    """Three normal clusters; the third, close to the second, is a later task (paper, Fig. 1)."""
    train, test = (
        _clusters(size, np.random.default_rng([seed, 14, k]), labels=(0, 1, 2), attributes=None)
        for k, size in enumerate((TOY_TRAIN, TOY_TEST))
    )
    return Parts(train, test, ("0", "1", "2"))


def toy_groups(seed: int) -> Parts:
    """Use the same clusters as groups (y, z): (0, 0), (0, 1), and later (1, 1)."""
    train, test = (
        _clusters(
            size, np.random.default_rng([seed, 14, k]), labels=(0, 0, 1), attributes=(0, 1, 1)
        )
        for k, size in enumerate((TOY_TRAIN, TOY_TEST))
    )
    return Parts(train, test, ("0", "1"), "z", ("0", "1"))


def _clusters(
    size: int,
    generator: np.random.Generator,
    labels: tuple[int, ...],
    attributes: tuple[int, ...] | None,
) -> Part:
    centres = np.repeat(TOY_CENTRES, size, axis=0)
    x = (centres + generator.standard_normal(centres.shape)).astype(np.float32)
    y = np.repeat(np.array(labels, dtype=np.int64), size)
    z = None if attributes is None else np.repeat(np.array(attributes, dtype=np.int64), size)
    return Part(y, z, lambda rows: x[rows])


def _digit_copies(
    seed: int,
) -> tuple[tuple[NDArray[np.float32], NDArray[np.float32]], tuple[Integers, Integers]]:
    """Split the digits 70/30 within each class, then distort copies; pixels in [0, 1], (n, 256)."""
    # Imported here: it takes a second, and only these datasets use it.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    images = (bunch.images / 16).astype(np.float32)
    x_train, x_test, y_train, y_test = train_test_split(
        images,
        bunch.target.astype(np.int64),
        test_size=0.3,
        stratify=bunch.target,
        random_state=seed,
    )
    generator = np.random.default_rng([seed, 16])
    return (
        (_distort(x_train, TRAIN_COPIES, generator), _distort(x_test, TEST_COPIES, generator)),
        (np.repeat(y_train, TRAIN_COPIES), np.repeat(y_test, TEST_COPIES)),
    )


def _distort(
    images: NDArray[np.float32], copies: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Enlarge to 16 × 16, each copy rotated by up to 15°, scaled by up to 10 %, shifted by 1."""
    source = torch.from_numpy(images).repeat_interleave(copies, dim=0)[:, None]
    n = len(source)
    angle, scale, right, down = torch.from_numpy(2 * generator.random((4, n), np.float32) - 1)
    angle = torch.deg2rad(15 * angle)
    cos, sin = (trig(angle) / (1 + 0.1 * scale) for trig in (torch.cos, torch.sin))
    shift = 2 / SIDE
    rows = [torch.stack([cos, -sin, shift * right], 1), torch.stack([sin, cos, shift * down], 1)]
    grid = affine_grid(torch.stack(rows, 1), [n, 1, SIDE, SIDE], align_corners=False)
    return grid_sample(source, grid, align_corners=False).reshape(n, -1).numpy()
