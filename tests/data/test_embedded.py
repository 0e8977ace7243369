from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from numpy.typing import NDArray

from faircil.data import images
from faircil.data.images import MEAN, STD
from faircil.data.stream import Part, Parts


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
