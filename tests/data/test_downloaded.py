from __future__ import annotations

import numpy as np
import pytest

from faircil.data import images
from faircil.data.images import MEAN, PALETTE, STD
from faircil.data.stream import Part
from faircil.errors import DataError
from tiny_files import TinyFiles

PARTS = ("train", "t10k")


def all_inputs(part: Part) -> np.ndarray:
    return part.inputs(np.arange(len(part.y)))


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
