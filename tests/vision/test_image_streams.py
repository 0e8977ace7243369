"""Embeddings of images: cached by content; and streams of them, with copies for training."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from faircil.cache import EmbeddingProgress, Rows
from faircil.data.own import OwnData, load_own
from faircil.errors import DataError
from faircil.media import encoded, item_vectors
from faircil.vision import picture_inputs
from faircil.vision.checkpoints import load_image_encoder
from faircil.vision.picture_inputs import ImageOptions, embed_images
from tiny_images import write_checkpoint, write_images


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageOptions:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(picture_inputs, "SHARD_FILES", 4)
    monkeypatch.setattr(picture_inputs, "BATCH", 3)
    return ImageOptions(image_encoder=write_checkpoint(tmp_path / "net.pth"), image_size=32)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return sorted(map(str, write_images(tmp_path / "photos", each=3).rglob("*.png")))


def embedded(
    files: list[str], options: ImageOptions, cache: Path | None = None, **others: object
) -> Rows:
    encoder = load_image_encoder(options.image_encoder)
    copies = ("as it is",)
    return embed_images(files, encoder, options, copies=copies, cache=cache, **others)  # type: ignore[arg-type]


def test_embeddings_are_kept_by_content(
    files: list[str], options: ImageOptions, tmp_path: Path
) -> None:
    told: list[EmbeddingProgress] = []
    cache = tmp_path / "kept"
    first = embedded(files[:5], options, cache, progress=told.append)
    assert [one.rows for one in told] == [4, 5]
    assert first.shape == (5, 16)
    assert len(np.unique(first, axis=0)) == 5
    # The same content under another name, and others among which it was not before.
    moved = shutil.copy(files[4], tmp_path / "moved.png")
    again = embedded([str(moved), *files], options, cache, progress=told.append)
    assert np.array_equal(again[0], first[4])
    assert np.array_equal(again[1:6], first)
    assert told[-1].total == len(files) - 5
    assert np.array_equal(embedded(files, options), again[1:])
    assert "images/s" in told[-1].speed


def test_a_broken_file_is_named_and_others_stay_embedded(
    files: list[str], options: ImageOptions, tmp_path: Path
) -> None:
    Path(files[1]).write_text("broken")
    Path(files[-1]).write_bytes(Path(files[-1]).read_bytes()[:-40])
    with pytest.raises(DataError) as raised:
        embedded(files, options, tmp_path / "kept")
    assert "2 of 9 image files" in str(raised.value)
    assert files[1] in str(raised.value)
    assert files[-1] in str(raised.value)


def test_pixels_are_those_of_the_image(files: list[str]) -> None:
    options = ImageOptions(image_encoder="none", image_size=8, augment="flip")
    found = item_vectors(files, options, augmented=True).x
    assert found.shape == (2 * len(files), 3 * 8 * 8)
    images = found.reshape(-1, 2, 3, 8, 8)
    assert np.array_equal(images[:, 0], images[:, 1, :, :, ::-1])
    assert item_vectors(files, options).x.shape == (len(files), 3 * 8 * 8)


@pytest.mark.parametrize("augment", ["none", "flip+shift"])
def test_a_stream_has_copies_of_training_images_alone(
    files: list[str], options: ImageOptions, tmp_path: Path, augment: str
) -> None:
    stream = load_own(OwnData.of_folder(str(tmp_path / "photos")), seed=0)
    assert stream.class_names == ("blue", "green", "red")
    changed = options.model_copy(update={"augment": augment})
    found = encoded(stream, changed)
    copies = changed.copies
    assert found.files is None
    assert found.copies == copies
    for before, after in zip(stream.tasks, found.tasks, strict=True):
        assert len(after.train) == copies * len(before.train)
        assert len(after.test) == len(before.test)
        assert torch.equal(after.train.y, before.train.y.repeat_interleave(copies))
    first = found.tasks[0].train.x[::copies]
    np.testing.assert_allclose(first.mean(0), 0, atol=1e-5)
    # A test image of the stream and one embedded alone are on the same scale.
    plain = encoded(stream, options)
    assert torch.equal(plain.tasks[-1].test.x, found.tasks[-1].test.x)
    assert torch.equal(plain.tasks[0].train.x, first)
