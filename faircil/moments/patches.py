"""Features of images from small patches of other images, whitened as in Coates et al. 2011.

Nothing is trained: patches of first-task images serve as filters. Their responses above a
threshold, of either sign, are averaged over a coarse grid.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d

from faircil.compute import chunks_of, exact_convolutions, map_chunks
from faircil.errors import DataError
from faircil.moments.features import FARTHEST, FeatureMap, Standardise, with_constant

PATCH = 7
GRID = 4  # responses are averaged over GRID × GRID fields
WHITENING = 0.1  # added to the variances of patches, relative to their mean
THRESHOLD = 0.5  # deviations of a response that are cut off
FAINT = 0.1  # added to the local contrast, relative to its mean, to suppress plain areas
IN_CACHE, AT_ONCE = 16, 2048  # images whose responses are computed together, on CPU and GPU
FITTED = 2000  # images to which a patch map is fitted
DRAWN = 8  # patches drawn from each of them
LEVELLED = 500  # images to which the threshold is fitted


class Patches(FeatureMap):
    """Responses of images to patches of other images, averaged over a grid, and a constant.

    Each patch is centred and divided by its norm, patches are whitened, and ``filters`` of them
    are kept. A response is divided by the local contrast of the image. Its positive and negative
    parts beyond half a deviation are two features, averaged over each field of a 4 × 4 grid and
    standardised.

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
        """Return the number of filters for at most ``width`` features; at least one."""
        return max(1, (width - 1) // (2 * GRID**2))

    @staticmethod
    def width_for(filters: int) -> int:
        """Return the number of features from this many filters."""
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
        # The response of the centred, whitened patch: both steps are linear, so part of the filter.
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
        # Responses are relative to the contrast and thus bounded, so no logarithm is needed.
        return with_constant(z.clamp_(-FARTHEST, FARTHEST))


def _centred(patches: Tensor) -> Tensor:
    """Subtract each patch's mean and divide by its norm; a patch without contrast becomes 0."""
    patches = patches - patches.mean(dim=1, keepdim=True)
    norm = patches.norm(dim=1, keepdim=True)
    return torch.where(norm > 1e-6 * norm.max(), patches / norm.clamp(min=1e-12), 0)


def _whitening(patches: Tensor) -> Tensor:
    """Return the symmetric matrix that makes patch values nearly uncorrelated."""
    covariance = patches.T @ patches / len(patches)
    values, vectors = torch.linalg.eigh(covariance.double())
    scale = 1 / (values.clamp(min=0) + WHITENING * values.mean()).sqrt()
    matrix: Tensor = vectors * scale @ vectors.T
    return matrix.to(patches.dtype)
