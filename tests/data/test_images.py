from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from numpy.typing import NDArray

from faircil.data import images
from faircil.data.images import (
    MEAN,
    OWN_COLOUR,
    PALETTE,
    STD,
    coloured,
    coloured_parts,
    draw_colours,
    read_idx,
)
from faircil.data.stream import Part, Parts
from faircil.errors import DataError
from tiny_files import TinyFiles


def all_inputs(part: Part) -> np.ndarray:
    return part.inputs(np.arange(len(part.y)))


@pytest.fixture(scope="module")
def digits() -> Parts:
    return images.digits(0)


@pytest.fixture(scope="module")
def biased_digits() -> Parts:
    return images.biased_digits(0)


@pytest.fixture
def numbered_digits(monkeypatch: pytest.MonkeyPatch) -> NDArray[np.int64]:
    """Make image i be i everywhere, so that the middle of a copy tells its source."""
    target = sklearn.datasets.load_digits().target
    numbers = np.broadcast_to(np.arange(len(target))[:, None, None], (len(target), 8, 8))
    numbered = SimpleNamespace(images=numbers, target=target)
    monkeypatch.setattr(sklearn.datasets, "load_digits", lambda: numbered)
    return target


def sources(part: Part) -> NDArray[np.int64]:
    middle = all_inputs(part).reshape(-1, 16, 16)[:, 8, 8]
    return np.rint((middle * 0.35 + 0.30) * 16).astype(int)


def test_digits_are_split_before_they_are_copied(numbered_digits: NDArray[np.int64]) -> None:
    parts = images.digits(0)
    train, test = sources(parts.train), sources(parts.test)
    assert not set(train) & set(test)
    assert sorted({*train, *test}) == list(range(len(numbered_digits)))
    for copies, part, chosen in ((20, parts.train, train), (4, parts.test, test)):
        assert set(np.unique(chosen, return_counts=True)[1]) == {copies}
        np.testing.assert_array_equal(part.y, numbered_digits[chosen])


def test_the_split_of_digits_comes_from_the_seed(numbered_digits: NDArray[np.int64]) -> None:
    first, again, other = (set(sources(images.digits(seed).test)) for seed in (0, 0, 1))
    assert first == again != other


def test_the_split_is_stratified(digits: Parts) -> None:
    train, test = np.bincount(digits.train.y) / 20, np.bincount(digits.test.y) / 4
    assert test == pytest.approx(0.3 * (train + test), abs=1)
    assert (train + test).sum() == 1797


def test_copies_are_distorted_but_still_the_digit(digits: Parts) -> None:
    x = all_inputs(digits.train) * 0.35 + 0.30
    assert x.min() >= -1e-6
    assert x.max() <= 1 + 1e-6
    copies = x.reshape(-1, 20, 256)
    assert np.ptp(copies, axis=1).max(axis=1).min() > 0.1
    # A copy is nearest to the mean copy of some image of its own class, nearly always.
    means, y = copies.mean(axis=1), digits.train.y[::20]
    distance = np.linalg.norm(copies[:200, 0, None] - means[None, :200], axis=2)
    assert (y[distance.argmin(axis=1)] == y[:200]).mean() > 0.9


def test_copies_are_shifted_by_about_a_pixel() -> None:
    image = np.zeros((1, 8, 8), dtype=np.float32)
    image[0, 3:5, 3:5] = 1
    copies = images._distort(image, 300, np.random.default_rng(0)).reshape(300, 16, 16)
    weight = copies / copies.sum(axis=(1, 2), keepdims=True)
    places = np.arange(16) - 7.5
    for axis in (1, 2):
        offset = (weight.sum(axis=axis) * places).sum(axis=1)
        assert (
            np.abs(offset).max() <= 1.1 * 2**0.5
        )  # one to the side and one down, then turned and scaled
        assert offset.min() < -0.8
        assert offset.max() > 0.8


def test_biased_digits_are_the_same_digits_on_coloured_ground(
    digits: Parts, biased_digits: Parts
) -> None:
    for grey, colour in ((digits.train, biased_digits.train), (digits.test, biased_digits.test)):
        np.testing.assert_array_equal(grey.y, colour.y)
        rows = np.arange(0, len(grey.y), 50)
        pixels = grey.inputs(rows) * 0.35 + 0.30
        x = colour.inputs(rows).reshape(len(rows), 3, 256) * STD[:, None] + MEAN[:, None]
        is_white = np.isclose(x, 1, atol=1e-5).all(axis=1)
        assert is_white[pixels > 1e-5].all()
        assert is_white[pixels < 1e-5].mean() < 1e-3  # ink too faint to tell from rounding


def test_colours_go_with_the_class_in_training_only(biased_digits: Parts) -> None:
    assert biased_digits.train.z is not None
    assert biased_digits.test.z is not None
    assert biased_digits.train.z.mean() == pytest.approx(0.05, abs=0.01)
    assert biased_digits.test.z.mean() == pytest.approx(0.5, abs=0.04)


def test_the_toy_has_three_unit_clusters() -> None:
    toy = images.toy(0)
    x = all_inputs(toy.train)
    for label, centre in enumerate([(-2, -2), (2, 4), (4, 2)]):
        cluster = x[toy.train.y == label]
        assert len(cluster) == images.TOY_TRAIN
        assert cluster.mean(axis=0) == pytest.approx(centre, abs=0.15)
        assert cluster.std(axis=0) == pytest.approx(1, abs=0.1)
    assert len(toy.test.y) == 3 * images.TOY_TEST
    assert not np.isin(all_inputs(toy.test)[:, 0], x[:, 0]).any()


def test_toy_groups_are_the_same_points_read_as_groups() -> None:
    toy, groups = images.toy(5), images.toy_groups(5)
    for one, other in ((toy.train, groups.train), (toy.test, groups.test)):
        np.testing.assert_array_equal(all_inputs(one), all_inputs(other))
        assert other.z is not None
        pairs = {0: (0, 0), 1: (0, 1), 2: (1, 1)}
        expected = [pairs[c] for c in one.y.tolist()]
        assert list(zip(other.y.tolist(), other.z.tolist(), strict=True)) == expected


PARTS = ("train", "t10k")


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_grey_images_are_scaled_and_normalised(
    tiny_files: TinyFiles, name: str, mean: float, std: float
) -> None:
    load = {"mnist": images.mnist, "fashion-mnist": images.fashion_mnist}[name]
    parts = load(0)
    for file, part in zip(PARTS, (parts.train, parts.test), strict=True):
        pixels = tiny_files.images[name, file].reshape(len(part.y), -1)
        assert all_inputs(part) == pytest.approx((pixels / 255 - mean) / std, abs=1e-6)
        np.testing.assert_array_equal(part.y, tiny_files.labels[name, file])
        assert part.z is None
    assert len(parts.class_names) == 10


def test_fashion_classes_have_their_names(tiny_files: TinyFiles) -> None:
    names = images.fashion_mnist(0).class_names
    assert (names[0], names[5], names[9]) == ("T-shirt/top", "Sandal", "Ankle boot")


def test_biased_mnist_makes_every_pixel_that_is_not_black_white(tiny_files: TinyFiles) -> None:
    parts = images.biased_mnist(3)
    for file, part in zip(PARTS, (parts.train, parts.test), strict=True):
        pixels = tiny_files.images["mnist", file].reshape(len(part.y), -1)
        x = all_inputs(part).reshape(len(part.y), 3, -1) * STD[:, None] + MEAN[:, None]
        is_white = np.isclose(x, 1, atol=1e-5).all(axis=1)
        np.testing.assert_array_equal(is_white, pixels > 0)
        ground = PALETTE[part.y[part.z == 0], :, None]
        own = x[part.z == 0]
        assert (np.isclose(own, ground, atol=1e-5) | np.isclose(own, 1, atol=1e-5)).all()


def test_drug_features_are_the_twelve_traits_with_gender(tiny_files: TinyFiles) -> None:
    parts = images.drug(0)
    assert (len(parts.train.y), len(parts.test.y)) == (1319, 566)
    x = np.concatenate([all_inputs(parts.train), all_inputs(parts.test)])
    z = np.concatenate([parts.train.z, parts.test.z])
    y = np.concatenate([parts.train.y, parts.test.y])
    by_traits = {
        tuple(np.array(row[1:13], dtype=np.float32)): (row[18], row[2]) for row in tiny_files.people
    }
    assert {tuple(row) for row in x} == set(by_traits)
    levels = {"CL0": 0, "CL1": 1, "CL2": 2, "CL3": 3, "CL4": 4, "CL5": 4, "CL6": 5}
    for traits, label, gender in zip(x, y, z, strict=True):
        level, code = by_traits[tuple(traits)]
        assert label == levels[level]
        assert gender == (code == "0.48246")
    assert parts.attribute_values == ("male", "female")
    assert len(parts.class_names) == 6


def test_the_drug_split_comes_from_the_seed(tiny_files: TinyFiles) -> None:
    first, again, other = (all_inputs(images.drug(seed).test) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_missing_file_is_a_data_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(DataError, match="faircil data fetch mnist"):
        images.mnist(0)


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


def test_values_come_in_the_shape_of_the_header() -> None:
    header = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3])
    array = read_idx(header + bytes(range(6)))
    np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    assert array.dtype == np.uint8
    assert array.flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\x1f\x8b\x08\x00 packed", "starts with '1f 8b 08 00'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "not an idx file of bytes"),
        (bytes([0, 0, 8, 0, 7]), "not an idx file"),
        (bytes([0, 0, 8, 3, 0, 0]), "has 6 bytes, expected at least 16"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 7]), r"holds 1 values, expected 2 for its shape \(2,\)"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 1, 7, 7]), "holds 2 values, expected 1"),
    ],
)
def test_anything_else_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_idx(content)
