"""Settings for image inputs, and the inputs: cached embeddings of a frozen encoder, or pixels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, Field

from faircil.cache import EmbeddingProgress, Index, Recipe, Rows, cached_rows
from faircil.compute import exact_convolutions, map_chunks
from faircil.errors import DataError
from faircil.fields import SETTINGS, one_of
from faircil.vision.checkpoints import MOBILENET, PIXELS, ImageEncoder
from faircil.vision.pictures import (
    AUGMENTS,
    INNER,
    check_pillow,
    digests_of,
    normalised,
    pixels_of,
    refuse_problems,
)

SHARD_FILES = 256  # five seconds of work of a small encoder on one core
BATCH, GPU_BATCH = 16, 128  # images that pass through an encoder together
ENCODER_SIDE, PIXEL_SIDE = 224, 32
LEARNED_NETS = ("conv", "resnet18")  # values of the setting `net` that take pixels


class ImageOptions(BaseModel):
    """Settings of images.

    The docstring below a field is its help text, shown by ``faircil list settings``.
    """

    model_config = SETTINGS

    image_encoder: str = MOBILENET
    """image encoder: mobilenet, a checkpoint of a ResNet or a MobileNetV2, or none, for pixels"""
    image_size: Annotated[int, Field(ge=8)] | None = None
    """side of an image in pixels; default: 224 for an encoder, 32 without"""
    augment: Annotated[str, one_of("augment", AUGMENTS)] = "none"
    """further copies of training images: none; flip, mirrored; flip+shift, also two shifted ones"""

    @property
    def pixels(self) -> bool:
        """Whether inputs are pixels rather than embeddings."""
        return self.image_encoder == PIXELS

    @property
    def side(self) -> int:
        """Side of an image, with the default resolved."""
        return self.image_size or (PIXEL_SIDE if self.pixels else ENCODER_SIDE)

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Channels, height and width, if inputs are pixels."""
        return (3, self.side, self.side) if self.pixels else None

    @property
    def copies(self) -> int:
        """Number of inputs per training image."""
        return len(AUGMENTS[self.augment])


def image_mistakes(options: ImageOptions, net: str, given: Iterable[str]) -> list[str]:
    """Reject a net that takes pixels if an encoder computes embeddings."""
    if options.pixels or net not in LEARNED_NETS or "net" not in given:
        return []
    return [
        f"net '{net}' learns from pixels, and encoder '{options.image_encoder}' makes a vector of "
        "each image; use `image_encoder=none`, or leave net out"
    ]


@dataclass(frozen=True)
class ImageRecipe(Recipe):
    """Everything except the file that determines the embedding of an image.

    Parameters
    ----------
    encoder : str
        Digest of the encoder's file.
    width : int
        Dimension of an embedding.
    side : int
        Side of an image in pixels.
    copy : str
        How the image is augmented, see ``COPIES``.
    version : int
        Version of the code that computes an embedding; incremented manually when it changes.
    """

    side: int
    copy: str
    version: int = 1


def embed_images(
    files: Sequence[str],
    encoder: ImageEncoder,
    options: ImageOptions,
    *,
    copies: Sequence[str],
    device: torch.device | str = "cpu",
    cache: Path | None,
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Rows:
    """Return embeddings of image files.

    The same file has the same embedding, bit for bit, whether it is computed or read from the
    cache, since batches always have the same number of images.

    Parameters
    ----------
    files : sequence of str, length n
        Repeated files, under any name, are embedded once.
    encoder : ImageEncoder
        Not modified.
    options : ImageOptions
    copies : sequence of str, length k
        Copies of each image, see ``COPIES``.
    device : torch.device or str
    cache : Path or None
        Folder of all embeddings, see :func:`faircil.cache.cache_folder`; None: no cache.
    progress : callable
        Called after each shard of new embeddings.
    report : callable
        Receives messages about damaged parts of the cache.

    Returns
    -------
    ndarray of float32, shape (n · k, encoder.net.width)
        Copies of an image are consecutive.

    Raises
    ------
    DataError
        If files are missing or broken; all of them are listed.
    """
    check_pillow()
    files, device, problems = list(files), torch.device(device), dict[str, str]()
    contents = digests_of(files, problems)
    found = np.empty((len(files), len(copies), encoder.net.width), dtype=np.float32)
    net: torch.nn.Module = deepcopy(encoder.net).to(device)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for place, copy in enumerate(copies):
        recipe = ImageRecipe(encoder.digest, encoder.net.width, options.side, copy)

        def compute(
            missing: Index, out: Rows, keep: Callable[[Index], None], copy: str = copy
        ) -> None:
            start = time.perf_counter()
            for begin in range(0, len(missing), SHARD_FILES):
                rows = missing[begin : begin + SHARD_FILES]
                some = [files[row] for row in rows]
                pixels = pixels_of(some, options.side, INNER, copy, problems)
                if problems:  # the remaining files are only checked, to list all broken ones
                    continue
                out[rows] = _vectors(net, pixels, encoder, device)
                keep(rows)
                seconds = time.perf_counter() - start
                progress(EmbeddingProgress(begin + len(rows), len(missing), None, seconds))
            refuse_problems(problems, files)

        found[:, place] = cached_rows(recipe, recipe.keys(contents), cache, compute, report)
        refuse_problems(problems, files)
    return found.reshape(-1, encoder.net.width)


def _vectors(
    net: torch.nn.Module, pixels: np.ndarray, encoder: ImageEncoder, device: torch.device
) -> Rows:
    """Return the embeddings, (n, width), of pixels (n, S, S, 3), in batches of fixed size."""
    size = BATCH if device.type == "cpu" else GPU_BATCH

    def batch(rows: slice) -> torch.Tensor:
        some = pixels[rows]
        full = np.zeros((size, *some.shape[1:]), dtype=np.uint8)
        full[: len(some)] = some
        vectors: torch.Tensor = net(normalised(full).to(device))[: len(some)]
        return vectors.cpu()

    with torch.inference_mode(), exact_convolutions():
        parts = map_chunks(batch, len(pixels), size, threads=device.type == "cpu")
    found: Rows = torch.cat(parts).numpy()
    if not np.isfinite(found).all():  # must not be stored
        raise DataError(
            f"image encoder '{encoder.name}' gives NaN or infinite embeddings; its weights are "
            "damaged: get the file again"
        )
    return found


def pixel_inputs(files: Sequence[str], options: ImageOptions, copies: Sequence[str]) -> Rows:
    """Return the pixels of image files, float32 (n · k, 3 · S · S); see :func:`embed_images`."""
    files, problems = list(files), dict[str, str]()
    found = np.empty((len(files), len(copies), 3 * options.side**2), dtype=np.float32)
    for begin in range(0, len(files), SHARD_FILES):
        rows = slice(begin, begin + SHARD_FILES)
        for place, copy in enumerate(copies):
            pixels = pixels_of(files[rows], options.side, 1.0, copy, problems)
            found[rows, place] = normalised(pixels).flatten(1).numpy()
    refuse_problems(problems, files)
    return found.reshape(len(files) * len(copies), -1)
