"""Convolutional nets for images: ResNets (He et al. 2016) and MobileNetV2 (Sandler et al. 2018).

Both consist of *units*, convolutions with batch normalisation. The same ResNet serves as an encoder
with published weights and as a net that a learner trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from faircil.errors import UsageError
from faircil.nets import AT_ONCE, IN_CACHE, NetTraits, seeded

SMALL_IMAGE = 64  # largest side in pixels for which the stem keeps full resolution
TYPICAL = 32  # side in pixels for which as many images pass together as in other nets
SMALLEST = 16  # side in pixels that leaves a single image four positions in the last layer
WIDTH = 64  # channels of the first stage
RESNET18 = (2, 2, 2, 2)  # blocks of each stage
# For each block of MobileNetV2, from table 2 of its paper.
STRIDES = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)


class Unit(nn.Sequential):
    """A convolution without bias, with batch normalisation.

    Parameters
    ----------
    inputs, outputs : int
        Channels.
    size : int
        Side of the filters; borders are padded so that a stride of 1 keeps the image's size.
    stride : int
    groups : int
        Groups of channels: as many as inputs for a depthwise convolution.
    """

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv: nn.Module = nn.Conv2d(
            inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False
        )
        self.norm: nn.Module = nn.BatchNorm2d(outputs)


class Residual(nn.Module):
    """A block of a ResNet: two or three units, whose output is added to the input.

    Parameters
    ----------
    inputs, middle, outputs : int
        Channels. With ``bottleneck``, three units: 1 × 1, 3 × 3 and 1 × 1; else two of 3 × 3.
    stride : int
        Stride of the first 3 × 3 unit.
    bottleneck : bool
    """

    def __init__(
        self, inputs: int, middle: int, outputs: int, stride: int, *, bottleneck: bool
    ) -> None:
        super().__init__()
        units = (
            [Unit(inputs, middle, 1), Unit(middle, middle, 3, stride), Unit(middle, outputs, 1)]
            if bottleneck
            else [Unit(inputs, middle, 3, stride), Unit(middle, outputs, 3)]
        )
        self.units = nn.ModuleList(units)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else Unit(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        found = x
        for unit in self.units[:-1]:
            found = torch.relu(unit(found))
        shown: Tensor = self.units[-1](found) + self.shortcut(x)
        return torch.relu(shown)


class ResNet(nn.Module):
    """Stem, four stages of residual blocks, and the mean over positions.

    Parameters
    ----------
    blocks : sequence of int
        Number of blocks in each of the four stages.
    width : int
        Channels of the first stage; each further stage has twice as many.
    bottleneck : bool
        Whether blocks have three units, and outputs of four times their width.
    small : bool
        For small images: the stem has 3 × 3 filters and keeps full resolution. Otherwise it has
        7 × 7 filters and reduces each side to a quarter.
    """

    def __init__(
        self, blocks: Sequence[int], width: int, *, bottleneck: bool = False, small: bool = False
    ) -> None:
        super().__init__()
        self.small = small
        self.stem = Unit(3, width, 3) if small else Unit(3, width, 7, 2)
        stages, inputs = [], width
        for number, count in enumerate(blocks):
            middle = width * 2**number
            outputs = 4 * middle if bottleneck else middle
            stage = []
            for place in range(count):
                stride = 2 if number > 0 and place == 0 else 1
                stage.append(Residual(inputs, middle, outputs, stride, bottleneck=bottleneck))
                inputs = outputs
            stages.append(nn.Sequential(*stage))
        self.stages = nn.Sequential(*stages)
        self.width = inputs

    def forward(self, x: Tensor) -> Tensor:
        """Return one vector for each image: (n, 3, h, w) to (n, width)."""
        x = torch.relu(self.stem(x))
        if not self.small:
            x = nn.functional.max_pool2d(x, 3, 2, padding=1)
        maps: Tensor = self.stages(x)
        return maps.mean(dim=(2, 3))


@dataclass(frozen=True)
class Channels:
    """Channels of an inverted residual: after its expansion (None without one), and at its end."""

    expanded: int | None
    outputs: int


class Inverted(nn.Module):
    """An inverted residual: 1 × 1 expansion, 3 × 3 depthwise, 1 × 1 projection without ReLU.

    Parameters
    ----------
    inputs : int
        Channels.
    channels : Channels
    stride : int
        With stride 1, and as many outputs as inputs, the input is added.
    """

    def __init__(self, inputs: int, channels: Channels, stride: int) -> None:
        super().__init__()
        wide = channels.expanded or inputs
        self.expand = None if channels.expanded is None else Unit(inputs, wide, 1)
        self.depthwise = Unit(wide, wide, 3, stride, groups=wide)
        self.project = Unit(wide, channels.outputs, 1)
        self.adds = stride == 1 and inputs == channels.outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        found = x if self.expand is None else nn.functional.relu6(self.expand(x))
        found = nn.functional.relu6(self.depthwise(found))
        shown: Tensor = self.project(found)
        return x + shown if self.adds else shown


class MobileNetV2(nn.Module):
    """Stem, 17 inverted residuals, a 1 × 1 unit, and the mean over positions.

    Parameters
    ----------
    stem, last : int
        Channels of the first and the last unit.
    blocks : sequence of Channels, length 17
    """

    def __init__(self, stem: int, blocks: Sequence[Channels], last: int) -> None:
        super().__init__()
        self.stem = Unit(3, stem, 3, 2)
        parts, inputs = [], stem
        for channels, stride in zip(blocks, STRIDES, strict=True):
            parts.append(Inverted(inputs, channels, stride))
            inputs = channels.outputs
        self.blocks = nn.ModuleList(parts)
        self.last = Unit(inputs, last, 1)
        self.width = last

    def forward(self, x: Tensor) -> Tensor:
        """Return one vector for each image: (n, 3, h, w) to (n, width)."""
        x = nn.functional.relu6(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return nn.functional.relu6(self.last(x)).mean(dim=(2, 3))


Backbone = ResNet | MobileNetV2


def fused(net: Backbone) -> Backbone:
    """Merge each normalisation into its convolution, in place; the net is then for eval mode only.

    In eval mode, a normalisation is a factor and a shift per channel, which the weights can
    incorporate: this halves the number of passes over the feature maps.
    """
    net.eval()
    for unit in net.modules():
        if isinstance(unit, Unit):
            assert isinstance(unit.conv, nn.Conv2d)
            assert isinstance(unit.norm, nn.BatchNorm2d)
            unit.conv = fuse_conv_bn_eval(unit.conv, unit.norm)
            unit.norm = nn.Identity()
    return net


class ResNetClassifier(nn.Module):
    """A ResNet with a linear head over all classes; a :class:`faircil.nets.Net`.

    It has batch normalisation, as published ResNets do, so in training a row's output depends on
    the other rows of its batch. Everything that evaluates the net, such as sample weighting, does
    so in eval mode, with fixed statistics. For these statistics to follow the classes of all tasks,
    train with replay.

    Parameters
    ----------
    image : tuple of int
        Channels, 3, height and width of an image, each side at least 16.
    n_classes : int
    width : int
        Channels of the first stage.
    """

    def __init__(self, image: tuple[int, int, int], n_classes: int, width: int) -> None:
        super().__init__()
        channels, height, side = image
        if min(height, side) < SMALLEST or channels not in (1, 3):
            raise UsageError(
                f"a ResNet needs images of at least {SMALLEST} × {SMALLEST} pixels and one or "
                f"three channels, and these are {channels} × {height} × {side}; use `net=conv`"
            )
        self.image = image
        self.body = ResNet(RESNET18, width, small=max(height, side) <= SMALL_IMAGE)
        self.head = nn.Linear(self.body.width, n_classes)

    @property
    def traits(self) -> NetTraits:
        """Large: a step is worth several threads, and gradients of all layers are large."""
        return NetTraits(large=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for images, (n, channels · height · width)."""
        _, height, width = self.image
        images = x.reshape(-1, *self.image).expand(-1, 3, height, width)
        if len(images) == 0:  # statistics over nothing would be NaN
            parts = [x.new_empty(0, self.head.in_features)]
        elif torch.is_grad_enabled() or self.training:
            parts = [self.body(images)]
        else:  # any number of images: their feature maps are far larger than the images
            pixels = (AT_ONCE if x.is_cuda else IN_CACHE) * TYPICAL**2
            size = max(1, pixels // (height * width))
            parts = [self.body(part) for part in torch.split(images, size)]
        logits: Tensor = self.head(parts[0] if len(parts) == 1 else torch.cat(parts))
        return logits


def build_resnet18(image: tuple[int, int, int], n_classes: int, seed: int) -> ResNetClassifier:
    """Build a ResNet-18 with initial weights from the seed; the global generator is not changed."""
    with seeded(seed):
        return ResNetClassifier(image, n_classes, WIDTH)
