"""Colour a digit's background so that colour and class go together: Biased MNIST's rule.

Every class has its own colour. A sample gets it with probability r (.95 in training, .5 in test),
any other colour with the rest. The attribute is whether the colour is another class's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faircil.data.parts import Parts
from faircil.data.stream import Integers, Part

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
# Per channel; closed-form moments that the method's authors use, not the empirical ones.
MEAN = np.array([0.6069, 0.5912, 0.3976], dtype=np.float32)
STD = np.array([0.4016, 0.4076, 0.4056], dtype=np.float32)
VALUES = ("own colour", "other colour")


OWN_COLOUR = {"train": 0.95, "test": 0.5}  # probability of a class's own colour


def draw_colours(y: Integers, own: float, generator: np.random.Generator) -> Integers:
    """Draw a colour number for each label: the own one with probability ``own``.

    With probability q the own colour is set, else one of all ten is drawn, the own included; so
    ``own = q + (1 − q)/10``, that is ``q = (10·own − 1)/9``.
    """
    q = (10 * own - 1) / 9
    uniform = generator.integers(len(PALETTE), size=len(y))
    return np.where(generator.random(len(y)) < q, y, uniform)


def coloured(ink: NDArray[np.bool_], y: Integers, colour: Integers) -> Part:
    """Make a part of white digits on coloured ground; the attribute is "not its own colour".

    Parameters
    ----------
    ink : ndarray of bool, shape (n, pixels)
        What belongs to the digit.
    y, colour : ndarray of int64, shape (n,)
        Digits 0 … 9, and colour numbers.
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
    """Colour the training and the test part, with colours from the seed."""
    generator = np.random.default_rng([seed, 13])
    train, test = (
        coloured(mask, y, draw_colours(y, own, generator))
        for mask, y, own in zip(ink, labels, OWN_COLOUR.values(), strict=True)
    )
    return Parts(train, test, tuple(str(c) for c in range(10)), "colour", VALUES)
