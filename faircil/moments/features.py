"""Fixed feature maps: they are drawn or fitted once, on the first task, and never change.

Inputs are standardised on the first task. Where they hardly vary there, their deviation is taken as
a tenth of the usual one: a pixel or a category that only later tasks use must not count for
nothing, nor for a hundred deviations. Beyond five deviations a value counts by its logarithm: later
classes may lie far from the first ones, and must still differ from each other.

- ``raw``: the standardised inputs.
- ``relu``: ``relu(xR + b)`` with R ~ N(0, 1.5²/inputs) and b ~ U(−1, 1), random and never trained
  (RanPAC, McDonnell et al. 2023; ACIL, Zhuang et al. 2022).
- ``both``: the two side by side.
- ``patches``, for images: small patches of images of the first task serve as filters, whitened as
  in Coates et al. 2011; their responses, of both signs and above a threshold, are averaged over a
  coarse grid.
- ``trained``: activations of a net trained on the first task, standardised, beside ``relu``. Alone
  they are no match for it: a net that has seen two classes keeps little that tells others apart.

Every map ends with a constant 1.
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, conv2d, pad

from faircil.compute import CHUNK, chunks_of, exact_convolutions, map_chunks
from faircil.errors import DataError, UsageError
from faircil.nets import last_linear, with_last
from faircil.weighting.groups import Integers

SCALE = 1.5  # of R; deviations of a ReLU's argument
FLOOR = 0.1  # smallest deviation of an input by the usual one
FARTHEST = 5.0  # deviations of a standardised input from which on it counts by its logarithm
LOOKED_AT = 1000  # rows that tell whether inputs are on another scale
PATCH = 7
GRID = 4  # responses are averaged over GRID × GRID fields
WHITENING = 0.1  # added to the variances of patches, relative to their mean
THRESHOLD = 0.5  # deviations of a response that are cut off
FAINT = 0.1  # added to the local contrast, relative to its mean: plain fields have no response
IN_CACHE, AT_ONCE = 16, 2048  # images whose responses are computed together, on CPU and GPU
FITTED = 2000  # images that a map of patches is fitted on
DRAWN = 8  # patches of each of them
LEVELLED = 500  # images that the threshold is fitted on


class Standardise(nn.Module):
    """Subtract the mean and divide by the deviation.

    Parameters
    ----------
    x : Tensor, shape (n, inputs)
        What it is fitted on.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        deviation = x.std(dim=0, correction=0) if len(x) else x.new_ones(x.shape[1])
        usual = deviation.square().mean().sqrt()
        factor = 1 / deviation.clamp(min=FLOOR * float(usual) or 1.0)
        self.register_buffer("mean", x.mean(dim=0))
        self.register_buffer("factor", factor)

    def forward(self, x: Tensor) -> Tensor:
        """Return z, (n, inputs), and ``±(5 + log(|z| − 4))`` beyond ±5."""
        z = self.scaled(x)
        near = z.clamp(-FARTHEST, FARTHEST)
        beyond = z.sub_(near)
        return near.add_(beyond.abs().log1p_().mul_(beyond.sign_()))

    def scaled(self, x: Tensor) -> Tensor:
        """Return z, (n, inputs)."""
        return (x - self.mean) * self.factor

    def far(self, x: Tensor) -> float:
        """Return the share of values beyond ±5: large if x is on another scale.

        Some rows, evenly spread over x, are enough to tell.
        """
        x = x[:: max(1, len(x) // LOOKED_AT)]
        away = self.scaled(x).abs() > FARTHEST
        return float(away.float().mean()) if away.numel() else 0.0


class Raw(nn.Module):
    """The standardised inputs and a constant."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.standardise = Standardise(x.flatten(1))
        self.width = x[0].numel() + 1

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        return with_constant(self.standardise(x.flatten(1)))


class RandomRelu(nn.Module):
    """Random ReLU features of the standardised inputs, and a constant.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    width : int
        Number of features d, with the constant.
    generator : torch.Generator
    inputs : bool
        Whether the standardised inputs are features as well; they come first.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self, x: Tensor, width: int, generator: torch.Generator, *, inputs: bool = False
    ) -> None:
        super().__init__()
        count = x[0].numel()
        drawn = width - 1 - (count if inputs else 0)
        if drawn < 1:
            raise UsageError(
                f"`width={width}` leaves no room for random features beside {count} inputs and a "
                f"constant; choose at least {count + 2}, or `features='raw'`"
            )
        self.standardise = Standardise(x.flatten(1))
        self.width, self.inputs = width, inputs
        weight = torch.randn(count, drawn, generator=generator) * (SCALE / count**0.5)
        bias = torch.rand(drawn, generator=generator) * 2 - 1
        # relu(0 · x + 1) is the constant: no pass over the features to append it.
        self.register_buffer("weight", pad(weight, (0, 1)).to(x.device))
        self.register_buffer("bias", pad(bias, (0, 1), value=1.0).to(x.device))

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        z = self.standardise(x.flatten(1))
        drawn = torch.addmm(self.bias, z, self.weight).relu_()
        return torch.cat([z, drawn], dim=1) if self.inputs else drawn


class Activations(nn.Module):
    """Last activations of a copy of a net, and a constant.

    Parameters
    ----------
    net : Module
        Its output is that of its last linear layer, which the copy does without.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.width = last_linear(net).in_features + 1
        self.net = with_last(deepcopy(net), nn.Identity()).eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        return with_constant(self.net(x))


class Trained(nn.Module):
    """Activations of a trained net, beside random ReLU features of its inputs and a constant.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    net : Module
        The net, whose last activations are features.
    width : int
        Number of features d, with the constant.
    generator : torch.Generator
    """

    def __init__(self, x: Tensor, net: nn.Module, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.activations = Activations(net)
        activations = torch.cat([self.activations(x[rows]) for rows in chunks_of(len(x), CHUNK)])
        count = activations.shape[1] - 1
        if width < count + 2:
            raise UsageError(
                f"`width={width}` leaves no room for random features beside {count} activations of "
                f"the net and a constant; choose at least {count + 2}, or a narrower last layer "
                "with `hidden`"
            )
        self.width = width
        self.scaled = Standardise(activations[:, :-1])
        self.drawn = RandomRelu(x, width - count, generator)

    @property
    def standardise(self) -> Standardise:
        """That of the inputs."""
        return self.drawn.standardise

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        activations = self.activations(x)[:, :-1]  # the drawn ones have a constant
        return torch.cat([self.scaled(activations), self.drawn(x)], dim=1)


class Patches(nn.Module):
    """Responses of images to patches of other images, averaged over a grid, and a constant.

    Each patch is centred and divided by its norm, patches are whitened, and ``filters`` of them
    are kept. A response is divided by the local contrast of the image; its positive and its
    negative part beyond half a deviation are two features, averaged over each field of a 4 × 4
    grid and standardised.

    Parameters
    ----------
    x : Tensor, shape (n, channels · height · width)
        Images of the first task.
    shape : tuple of int
        Channels, height and width of an image.
    filters : int
    generator : torch.Generator
    """

    weight: Tensor
    threshold: Tensor
    fields: Tensor
    least: Tensor

    @staticmethod
    def filters_for(width: int) -> int:
        """Return how many filters give at most ``width`` features; at least one."""
        return max(1, (width - 1) // (2 * GRID**2))

    @staticmethod
    def width_for(filters: int) -> int:
        """Return the number of features that filters give."""
        return 2 * filters * GRID**2 + 1

    def __init__(
        self, x: Tensor, shape: tuple[int, int, int], filters: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.shape = shape
        self.side = min(PATCH, *shape[1:])
        self.width = self.width_for(filters)
        chosen = torch.randperm(len(x), generator=generator)[:FITTED].to(x.device)
        images = x.index_select(0, chosen).view(-1, *shape)
        # A view: (images, channels, rows, columns, side, side).
        found = images.unfold(2, self.side, 1).unfold(3, self.side, 1)
        high, wide = found.shape[2:4]
        places = torch.randint(high * wide, (len(images), DRAWN), generator=generator).to(x.device)
        each = torch.arange(len(images), device=x.device)[:, None]
        drawn = found[each, :, places // wide, places % wide]
        patches = _centred(drawn.flatten(0, 1).flatten(1))
        patches = patches[patches.norm(dim=1) > 0.5]  # a patch without contrast has no direction
        if len(patches) < 2:
            raise DataError(
                "the images of the first task are plain: no patch of them has any contrast; choose "
                "`features='relu'`"
            )
        whitening = _whitening(patches)
        few = torch.randint(len(patches), (filters,), generator=generator).to(x.device)
        kernels = patches.index_select(0, few) @ whitening
        kernels = kernels / kernels.norm(dim=1, keepdim=True)
        # A response is that of the whitened, centred patch: both are linear, so part of the filter.
        kernels = kernels @ whitening
        kernels = kernels - kernels.mean(dim=1, keepdim=True)
        self.register_buffer("weight", kernels.view(filters, shape[0], self.side, self.side))
        self.register_buffer("threshold", x.new_zeros(filters, 1))
        self.register_buffer("fields", self._fields().to(x))
        self.register_buffer("least", FAINT * self._contrast(images).mean())
        size = AT_ONCE if images.is_cuda else IN_CACHE
        some = images[:LEVELLED]
        squares = x.new_zeros(filters)
        for rows in chunks_of(len(some), size):
            squares += self._responses(some[rows]).square().sum(dim=(0, 2, 3))
        spread = (squares / (len(some) * high * wide)).sqrt()
        self.threshold.copy_(THRESHOLD * spread[:, None])
        pooled = map_chunks(
            lambda rows: self._pooled(images[rows]), len(images), LEVELLED, threads=not x.is_cuda
        )
        self.standardise = Standardise(torch.cat(pooled))

    def _fields(self) -> Tensor:
        """Return the matrix that averages over the fields of the grid, (places, GRID²)."""
        high, wide = (side - self.side + 1 for side in self.shape[1:])
        each = torch.eye(high * wide).view(-1, 1, high, wide)
        return adaptive_avg_pool2d(each, GRID).flatten(1)

    def _responses(self, images: Tensor) -> Tensor:
        """Return responses divided by the local contrast, (n, filters, places, places)."""
        with exact_convolutions() if images.is_cuda else nullcontext():
            return conv2d(images, self.weight) / (self._contrast(images) + self.least)

    def _contrast(self, images: Tensor) -> Tensor:
        """Return the norm of each centred patch, (n, 1, places, places)."""
        ones = self.weight.new_ones(1, *self.weight.shape[1:])
        total, squares = conv2d(images, ones), conv2d(images.square(), ones)
        return (squares - total.square() / ones.numel()).clamp(min=0).sqrt()

    def _pooled(self, images: Tensor) -> Tensor:
        """Return both signs of the responses beyond the threshold, averaged over the grid."""
        size = AT_ONCE if images.is_cuda else IN_CACHE
        parts = []
        for rows in chunks_of(len(images), size):
            responses = self._responses(images[rows]).flatten(2)
            above = (responses - self.threshold).relu_() @ self.fields
            below = responses.neg_().sub_(self.threshold).relu_() @ self.fields
            parts.append(torch.cat([above, below], dim=1).flatten(1))
        return torch.cat(parts) if parts else images.new_zeros(0, self.width - 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        z = self.standardise.scaled(self._pooled(x.view(-1, *self.shape)))
        # No order is lost far away: a response is a share of the contrast, so it is bounded.
        return with_constant(z.clamp_(-FARTHEST, FARTHEST))


FeatureMap = Raw | RandomRelu | Trained | Patches | Activations


class FeatureNet(nn.Module):
    """Fixed features and a linear head over all classes.

    Parameters
    ----------
    features : Module
        Maps inputs to features, (n, d).
    classes : int
    """

    seen: Tensor

    def __init__(self, features: FeatureMap, classes: int) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Linear(features.width, classes, bias=False)
        nn.init.zeros_(self.head.weight)
        self.register_buffer("seen", torch.zeros(classes, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores, (n, classes); −inf for classes that were not seen."""
        scores: Tensor = self.head(self.features(x))
        return scores.masked_fill(~self.seen, -torch.inf)

    def grow(self, classes: int) -> None:
        """Make room for further classes, which are not seen yet."""
        known = len(self.seen)
        self.seen = torch.cat([self.seen, self.seen.new_zeros(classes - known)])
        head = nn.Linear(self.head.in_features, classes, bias=False).to(self.head.weight)
        nn.init.zeros_(head.weight)
        with torch.no_grad():
            head.weight[:known] = self.head.weight
        self.head = head

    def show(self, classes: Integers, head: Tensor) -> None:
        """Take the columns of a head, (d, C), as the weights of these classes."""
        with torch.no_grad():
            chosen = torch.tensor(classes, device=self.seen.device)
            self.head.weight.zero_()
            self.head.weight.index_copy_(0, chosen, head.T.to(self.head.weight.dtype))
            self.seen.fill_(False).index_fill_(0, chosen, True)


def with_constant(features: Tensor) -> Tensor:
    """Append a column of ones."""
    return pad(features, (0, 1), value=1.0)


def _centred(patches: Tensor) -> Tensor:
    """Subtract each patch's mean and divide by its norm; one without contrast becomes 0."""
    patches = patches - patches.mean(dim=1, keepdim=True)
    norm = patches.norm(dim=1, keepdim=True)
    return torch.where(norm > 1e-6 * norm.max(), patches / norm.clamp(min=1e-12), 0)


def _whitening(patches: Tensor) -> Tensor:
    """Return the symmetric matrix that gives patches nearly uncorrelated values."""
    covariance = patches.T @ patches / len(patches)
    values, vectors = torch.linalg.eigh(covariance.double())
    scale = 1 / (values.clamp(min=0) + WHITENING * values.mean()).sqrt()
    matrix: Tensor = vectors * scale @ vectors.T
    return matrix.to(patches.dtype)
