from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from faircil.errors import DataError, FaircilError
from faircil.vision import pictures
from faircil.vision.pictures import (
    COPIES,
    UnusableImageError,
    decode,
    normalised,
    pixels_of,
    refuse_problems,
)

GREY, LIGHT = 100, 200


def content(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def halves(mode: str, left: object, right: object) -> Image.Image:
    """Return an image 40 × 40, one half of each colour."""
    image = Image.new(mode, (40, 40), left)
    image.paste(right, (20, 0, 40, 40))
    return image


def colours(found: np.ndarray) -> list[list[int]]:
    """Return the colour of the left and of the right half."""
    return [found[4, 1].tolist(), found[4, -2].tolist()]


CASES = {
    "grey": (halves("L", GREY, LIGHT), "PNG", [[GREY] * 3, [LIGHT] * 3]),
    "black and white": (halves("1", 0, 1), "PNG", [[0] * 3, [255] * 3]),
    "16 bits": (halves("I;16", 257 * GREY, 257 * LIGHT), "PNG", [[GREY] * 3, [LIGHT] * 3]),
    "alpha": (halves("RGBA", (9, 8, 7, 255), (9, 8, 7, 0)), "PNG", [[9, 8, 7], [255] * 3]),
    "grey and alpha": (halves("LA", (GREY, 255), (0, 0)), "PNG", [[GREY] * 3, [255] * 3]),
    "CMYK": (halves("CMYK", (0, 0, 0, 0), (0, 0, 0, 255)), "TIFF", [[255] * 3, [0] * 3]),
    "palette": (
        halves("RGB", (9, 8, 7), (1, 2, 3)).quantize(4),
        "PNG",
        [[9, 8, 7], [1, 2, 3]],
    ),
}


@pytest.mark.parametrize(("image", "kind", "expected"), CASES.values(), ids=CASES)
def test_every_mode_is_red_green_and_blue(
    image: Image.Image, kind: str, expected: list[list[int]]
) -> None:
    found = decode(content(image, kind), 8)
    assert found.shape == (8, 8, 3)
    assert found.dtype == np.uint8
    assert colours(found) == expected


def test_exif_data_turns_an_image() -> None:
    exif = Image.Exif()
    exif[0x0112] = 2  # mirrored
    found = decode(content(halves("RGB", (9, 8, 7), (1, 2, 3)), exif=exif), 8)
    assert colours(found) == [[1, 2, 3], [9, 8, 7]]


@pytest.mark.parametrize("size", [(40, 10), (10, 40), (1, 1), (10, 10)])
def test_the_square_around_the_centre_is_taken(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, (200, 0, 0))
    side = min(size)
    left, top = (size[0] - side) // 2, (size[1] - side) // 2
    image.paste((0, 200, 0), (left, top, left + side, top + side))
    assert (decode(content(image), 8, inner=7 / 8) == (0, 200, 0)).all()


def test_a_line_is_not_scaled_to_its_whole_length() -> None:
    # Scaled first and cut later, it would have 8 × 400,000 pixels.
    assert (decode(content(Image.new("L", (1, 50_000), GREY)), 8) == GREY).all()


def test_a_large_jpeg_is_read() -> None:
    found = decode(content(halves("RGB", (99, 99, 99), (9, 9, 9)).resize((900, 800)), "JPEG"), 8)
    assert np.abs(np.array(colours(found)) - [[99] * 3, [9] * 3]).max() <= 3  # lossy


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"text", "it is not in an image format"),
        (content(halves("RGB", (9, 8, 7), (1, 2, 3)))[:-60], "it is broken"),
        (content(halves("L", 1, 2), "JPEG")[:-200], "it is broken"),
        (content(Image.new("F", (9, 9)), "TIFF"), "floating-point"),
    ],
    ids=["text", "png", "jpeg", "floats"],
)
def test_what_cannot_be_used_says_why(broken: bytes, reason: str) -> None:
    with pytest.raises(UnusableImageError, match=reason):
        decode(broken, 8)


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(content(halves("L", 0, 9)))
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("text")
    names = ["good.png", "empty.png", "text.png", *(f"gone{n}.png" for n in range(10))]
    files = [str(tmp_path / name) for name in names]
    problems: dict[str, str] = {}
    found = pixels_of(files, 8, 1.0, "as it is", problems)
    assert found[0].any()
    assert not found[1:].any()
    with pytest.raises(DataError) as raised:
        refuse_problems(problems, files)
    first, *others = raised.value.args
    assert first.startswith("12 of 13 image files cannot be used, and nothing was changed")
    assert others[0] == f"{files[1]}: it is empty"
    assert "it is not in an image format" in others[1]
    assert others[2] == f"{files[3]}: there is no such file"
    assert others[-1] == "and 2 more"
    assert len(others) == 11


def test_copies_are_mirrored_and_shifted() -> None:
    image = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    found = {name: change(image) for name, change in COPIES.items()}
    assert (found["as it is"] == image).all()
    assert (found["mirrored"][:, 0] == image[:, -1]).all()
    assert (found["shifted"][1:, 1:] == image[:-1, :-1]).all()
    assert (found["shifted"][0, 1:] == image[0, :-1]).all()
    assert (found["shifted back"][:-1, :-1] == image[1:, 1:]).all()


def test_pixels_are_on_the_scale_of_imagenet() -> None:
    pixels = np.full((1, 2, 2, 3), 255, dtype=np.uint8)
    expected = [(1 - m) / s for m, s in zip(pictures.MEAN, pictures.DEVIATION, strict=True)]
    assert normalised(pixels)[0, :, 0, 0].tolist() == pytest.approx(expected, rel=1e-6)


def test_without_pillow_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(FaircilError, match="pip install pillow"):
        pixels_of([], 8, 1.0, "as it is", {})
