"""Data that needs no file: scikit-learn's digits with copies, and the paper's toy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import affine_grid, grid_sample

from faircil.data.colours import coloured_parts
from faircil.data.parts import Parts
from faircil.data.stream import Integers, Part

SIDE = 16
TRAIN_COPIES, TEST_COPIES = 20, 4
TOY_CENTRES = np.array([(-2, -2), (2, 4), (4, 2)], dtype=np.float64)
TOY_TRAIN, TOY_TEST = 1000, 500  # per cluster


def digits(seed: int) -> Parts:
    """1,797 real digits: split first, then 20 distorted copies of each for training, 4 for test."""
    images, labels = _digit_copies(seed)

    def part(x: NDArray[np.float32], y: Integers) -> Part:
        return Part(y, None, lambda rows: (x[rows] - 0.30) / 0.35)

    return Parts(
        part(images[0], labels[0]), part(images[1], labels[1]), tuple(str(c) for c in range(10))
    )


def biased_digits(seed: int) -> Parts:
    """Put the same digits in white on a ground whose colour goes with the class."""
    images, labels = _digit_copies(seed)
    ink = images[0] > 0, images[1] > 0
    return coloured_parts(ink, labels, seed)


def toy(seed: int) -> Parts:
    """Three normal clusters; the third, close to the second, comes later (Fig. 1 of the paper)."""
    train, test = (
        _clusters(size, np.random.default_rng([seed, 14, k]), labels=(0, 1, 2), attributes=None)
        for k, size in enumerate((TOY_TRAIN, TOY_TEST))
    )
    return Parts(train, test, ("0", "1", "2"))


def toy_groups(seed: int) -> Parts:
    """Take the same clusters as groups (y, z): (0, 0), (0, 1), and later (1, 1)."""
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
    """Split the digits 70/30 within each class, then copy; pixels in [0, 1], (n, 256)."""
    # Imported here: it takes a second, and only these datasets need it.
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
    """Enlarge to 16 × 16, each copy turned by up to 15°, scaled by up to 10 %, shifted by 1."""
    source = torch.from_numpy(images).repeat_interleave(copies, dim=0)[:, None]
    n = len(source)
    angle, scale, right, down = torch.from_numpy(2 * generator.random((4, n), np.float32) - 1)
    angle = torch.deg2rad(15 * angle)
    cos, sin = (trig(angle) / (1 + 0.1 * scale) for trig in (torch.cos, torch.sin))
    shift = 2 / SIDE
    rows = [torch.stack([cos, -sin, shift * right], 1), torch.stack([sin, cos, shift * down], 1)]
    grid = affine_grid(torch.stack(rows, 1), [n, 1, SIDE, SIDE], align_corners=False)
    return grid_sample(source, grid, align_corners=False).reshape(n, -1).numpy()
