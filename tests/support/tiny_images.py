"""Checkpoints of narrow nets with random weights, in several naming schemes; and small images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Units = list[tuple[str, str, tuple[int, ...]]]  # convolution, normalisation, shape of the weights
COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


def random_tensors(units: Units, seed: int = 0) -> dict[str, Tensor]:
    """Return weights, and statistics of normalisations, that keep the scale of feature maps."""
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for conv, norm, shape in units:
        spread = (2 / (shape[1] * shape[2] * shape[3])) ** 0.5
        found[f"{conv}.weight"] = spread * torch.randn(shape, generator=draw)
        for part in ("weight", "running_var"):
            found[f"{norm}.{part}"] = 0.5 + torch.rand(shape[0], generator=draw)
        for part in ("bias", "running_mean"):
            found[f"{norm}.{part}"] = 0.1 * torch.randn(shape[0], generator=draw)
        found[f"{norm}.num_batches_tracked"] = torch.tensor(7)
    return found


def resnet_units(
    width: int = 2, blocks: tuple[int, ...] = (2, 2, 2, 2), bottleneck: bool = False
) -> Units:
    """Return the units of a ResNet with the names of torchvision and timm."""
    units: Units = [("conv1", "bn1", (width, 3, 7, 7))]
    inputs = width
    for stage, count in enumerate(blocks):
        middle = width * 2**stage
        outputs = 4 * middle if bottleneck else middle
        for block in range(count):
            at = f"layer{stage + 1}.{block}"
            shapes = [(middle, inputs, 3, 3), (outputs, middle, 3, 3)]
            if bottleneck:
                shapes = [(middle, inputs, 1, 1), (middle, middle, 3, 3), (outputs, middle, 1, 1)]
            units += [(f"{at}.conv{n}", f"{at}.bn{n}", s) for n, s in enumerate(shapes, start=1)]
            if block == 0 and (stage > 0 or inputs != outputs):
                units.append((f"{at}.downsample.0", f"{at}.downsample.1", (outputs, inputs, 1, 1)))
            inputs = outputs
    return units


# Names of expansion, depthwise convolution and projection in a block, and of the last two alone.
INSIDE = {
    "list": ([("0", "1"), ("3", "4"), ("6", "7")], [("0", "1"), ("3", "4")]),
    "torchvision": ([("0.0", "0.1"), ("1.0", "1.1"), ("2", "3")], [("0.0", "0.1"), ("1", "2")]),
    "timm": (
        [("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3")],
        [("conv_dw", "bn1"), ("conv_pw", "bn2")],
    ),
}


def mobilenet_units(layout: str) -> Units:
    """Return the units of a MobileNetV2 of 2 to 6 channels."""
    timm = layout == "timm"
    prefixes = list(_stages()) if timm else [f"features.{n}.conv" for n in range(1, 18)]
    stem = ("conv_stem", "bn1") if timm else ("features.0.0", "features.0.1")
    units: Units = [(*stem, (2, 3, 3, 3))]
    for number, prefix in enumerate(prefixes):
        shapes = [(2, 1, 3, 3), (2, 2, 1, 1)]
        if number > 0:
            shapes = [(4, 2, 1, 1), (4, 1, 3, 3), (2, 4, 1, 1)]
        places = INSIDE[layout][number == 0]
        units += [
            (f"{prefix}.{conv}", f"{prefix}.{norm}", shape)
            for (conv, norm), shape in zip(places, shapes, strict=True)
        ]
    last = ("conv_head", "bn2") if timm else ("features.18.0", "features.18.1")
    return [*units, (*last, (6, 2, 1, 1))]


def _stages() -> Iterator[str]:
    for stage, count in enumerate((1, 2, 3, 4, 3, 3, 1)):
        yield from (f"blocks.{stage}.{block}" for block in range(count))


def write_checkpoint(path: Path, seed: int = 0) -> str:
    """Write a ResNet-18 of width 2."""
    torch.save(random_tensors(resnet_units(), seed), path)
    return str(path)


def write_images(folder: Path, each: int = 6, seed: int = 0, names: object = COLOURS) -> Path:
    """Write noisy images of one colour in several sizes, with a folder for each colour."""
    draw = np.random.default_rng(seed)
    for name in names:  # type: ignore[attr-defined]
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            size = (20 + 3 * number, 26, 3)
            pixels = np.clip(np.array(COLOURS[name]) + draw.normal(0, 30, size), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder
