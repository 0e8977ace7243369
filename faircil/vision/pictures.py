"""Image files as pixels, in any format and mode that Pillow reads; unusable files are listed.

The largest centred square is scaled to S × S RGB pixels. An encoder uses the inner 7/8 of it, as in
the evaluation of published weights: 224 pixels of 256.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.compute import map_tasks
from faircil.errors import DataError, FaircilError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
MOST_NAMED = 10  # files listed in a message
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, by channel
INNER = 7 / 8  # of the square, used by an encoder
SHIFT = 16  # a shifted copy is moved by a sixteenth of a side
AT_ONCE = 16  # files processed per thread at a time


def _as_it_is(pixels: Pixels) -> Pixels:
    return pixels


def _mirrored(pixels: Pixels) -> Pixels:
    return pixels[:, ::-1]


def _shifted(pixels: Pixels, steps: int) -> Pixels:
    """Shift an image (S, S, 3) right and down; its border fills the gap."""
    place = np.clip(np.arange(len(pixels)) - steps * (len(pixels) // SHIFT), 0, len(pixels) - 1)
    return pixels[place][:, place]


COPIES: Mapping[str, Callable[[Pixels], Pixels]] = {
    "as it is": _as_it_is,
    "mirrored": _mirrored,
    "shifted": lambda pixels: _shifted(pixels, 1),
    "shifted back": lambda pixels: _shifted(pixels, -1),
}
# Copies of a training image for each value of the setting `augment`.
AUGMENTS: Mapping[str, tuple[str, ...]] = {
    "none": ("as it is",),
    "flip": ("as it is", "mirrored"),
    "flip+shift": tuple(COPIES),
}


class UnusableImageError(Exception):
    """An image that cannot be used; the message says why."""


def check_pillow() -> None:
    """Raise a FaircilError if Pillow (extra ``images``) is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise FaircilError(
            f"images need the Pillow package ({error}): pip install pillow"
        ) from None


def decode(content: bytes, side: int, inner: float = 1.0) -> Pixels:
    """Return the pixels of an image file, (side, side, 3).

    The image is rotated according to its EXIF data. Transparent parts become white, grey is
    repeated for each colour, 16 bits become 8, and of several images in a file the first is used.

    Parameters
    ----------
    content : bytes
        Content of the file.
    side : int
    inner : float
        Fraction of the central square that is used.

    Raises
    ------
    UnusableImageError
        If the content is not an image, or a broken one.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            wanted = int(side / inner) + 1
            image.draft("RGB", (wanted, wanted))  # a large JPEG is decoded at a lower resolution
            ImageOps.exif_transpose(image, in_place=True)
            colours = _in_colour(image)
        width, height = colours.size
        half = inner * min(width, height) / 2
        box = (width / 2 - half, height / 2 - half, width / 2 + half, height / 2 + half)
        scaled = colours.resize((side, side), Image.Resampling.BILINEAR, box=box)
    except UnidentifiedImageError:
        raise UnusableImageError("it is not in an image format that Pillow reads") from None
    except UnusableImageError:
        raise
    except Exception as error:  # of many types, as each format has its own
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise UnusableImageError(f"it is broken: {reason}") from None
    return np.asarray(scaled)


def _in_colour(image: Image) -> Image:
    """Convert an image of any mode to RGB."""
    from PIL import Image as Images

    if image.mode == "F":
        raise UnusableImageError("its pixels are floating-point numbers; save it with 8 bits")
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip at 255
        grey = np.clip(np.asarray(image), 0, 65535) // 257
        return Images.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        white = Images.new("RGBA", clear.size, "white")
        return Images.alpha_composite(white, clear).convert("RGB")
    return image.convert("RGB")


def digests_of(files: Sequence[str], problems: dict[str, str]) -> list[bytes]:
    """Return a hash of each file's content; add unreadable files to ``problems``."""

    def digest(file: str) -> bytes:
        return hashlib.blake2b(_content(file, problems), digest_size=32).digest()

    return [digest(file) for file in files]


def _content(file: str, problems: dict[str, str]) -> bytes:
    try:
        content = Path(file).read_bytes()
    except FileNotFoundError:
        problems[file] = "there is no such file"
    except OSError as error:
        problems[file] = f"it cannot be read: {error.strerror or error}"
    else:
        if not content:
            problems[file] = "it is empty"
        return content
    return b""


def pixels_of(
    files: Sequence[str],
    side: int,
    inner: float,
    copy: str,
    problems: dict[str, str],
) -> Pixels:
    """Decode files on several threads.

    Parameters
    ----------
    files : sequence of str
    side, inner
        See :func:`decode`.
    copy : str
        A key of ``COPIES``.
    problems : dict
        Reasons why files cannot be used, by file; further ones are added.

    Returns
    -------
    ndarray of uint8, shape (n, side, side, 3)
        Zeros for files with a problem.
    """
    check_pillow()
    found = np.zeros((len(files), side, side, 3), dtype=np.uint8)
    change = COPIES[copy]

    def read(rows: range) -> None:
        for row in rows:
            file = files[row]
            content = b"" if file in problems else _content(file, problems)
            if content:
                try:
                    found[row] = change(decode(content, side, inner))
                except UnusableImageError as error:
                    problems[file] = str(error)

    batches = [range(n, min(n + AT_ONCE, len(files))) for n in range(0, len(files), AT_ONCE)]
    map_tasks(read, batches, threads=True)
    return found


def refuse_problems(problems: Mapping[str, str], files: Sequence[str]) -> None:
    """Raise a DataError that lists the unusable files, if there are any."""
    if not problems:
        return
    wrong = [file for file in dict.fromkeys(files) if file in problems]
    more = len(wrong) - MOST_NAMED
    raise DataError(
        f"{len(wrong)} of {len(set(files))} image files cannot be used, and nothing was changed; "
        "replace them, or leave them out",
        *(f"{file}: {problems[file]}" for file in wrong[:MOST_NAMED]),
        *([f"and {more} more"] if more > 0 else []),
    )


def normalised(pixels: Pixels) -> Tensor:
    """Return pixels (n, S, S, 3) as inputs of a net, float32 (n, 3, S, S), channels last in memory.

    Values from 0 to 1 are reduced by ImageNet's mean and divided by its standard deviation.
    """
    values = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(torch.float32)
    mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in (MEAN, DEVIATION))
    return values.div_(255).sub_(mean).div_(deviation)
