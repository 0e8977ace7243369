from __future__ import annotations

import numpy as np
import pytest

from faircil.data.images import (
    MEAN,
    OWN_COLOUR,
    PALETTE,
    STD,
    coloured,
    coloured_parts,
    draw_colours,
)

LABELS = np.repeat(np.arange(10), 2000)
ALL = np.arange(len(LABELS))


@pytest.mark.parametrize("own", [1.0, 0.95, 0.5, 0.1])
def test_the_own_colour_has_its_probability_and_the_others_share_the_rest(own: float) -> None:
    colour = draw_colours(LABELS, own, np.random.default_rng(0))
    counts = np.zeros((10, 10))
    np.add.at(counts, (LABELS, colour), 1 / 2000)
    assert np.diag(counts) == pytest.approx(own, abs=0.05)
    others = counts[~np.eye(10, dtype=bool)]
    assert others == pytest.approx((1 - own) / 9, abs=0.04)
    assert (colour == LABELS).mean() == pytest.approx(own, abs=0.012)


def test_pixels_are_exactly_white_or_the_ground_after_normalisation() -> None:
    y, colour = np.array([3, 7, 7]), np.array([3, 0, 7])
    ink = np.array([[True, False, False, True], [False, False, False, True], [True] * 4])
    part = coloured(ink, y, colour)
    x = part.inputs(np.array([0, 1, 2])).reshape(3, 3, 4)
    assert x.dtype == np.float32
    for n in range(3):
        for channel in range(3):
            for pixel in range(4):
                value = 1.0 if ink[n, pixel] else PALETTE[colour[n], channel]
                expected = (np.float32(value) - MEAN[channel]) / STD[channel]
                assert x[n, channel, pixel] == expected
    assert part.z is not None
    assert part.z.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(part.inputs(np.array([2, 0])).reshape(2, 3, 4), x[[2, 0]])


def test_every_class_has_another_colour() -> None:
    assert len(np.unique(PALETTE, axis=0)) == 10
    assert PALETTE.min() >= 0
    assert PALETTE.max() <= 1


def test_training_is_biased_and_the_test_is_not() -> None:
    assert OWN_COLOUR == {"train": 0.95, "test": 0.5}
    ink = np.zeros((len(LABELS), 1), dtype=bool)
    parts = coloured_parts((ink, ink), (LABELS, LABELS), seed=0)
    for part, own in ((parts.train, 0.95), (parts.test, 0.5)):
        assert part.z is not None
        assert 1 - part.z.mean() == pytest.approx(own, abs=0.012)
        ground = np.round(part.inputs(ALL) * STD + MEAN, 4)
        np.testing.assert_array_equal(
            part.z, np.any(ground != np.round(PALETTE[LABELS], 4), axis=1).astype(int)
        )
    assert parts.attribute_values == ("own colour", "other colour")


def test_colours_come_from_the_seed() -> None:
    ink = np.zeros((len(LABELS), 1), dtype=bool)
    first, again, other = (
        coloured_parts((ink, ink), (LABELS, LABELS), seed).train.inputs(ALL) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
