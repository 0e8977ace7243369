"""Gradients of a new class against those of two old ones: angles, and a picture in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize, one_hot

from faircil.samples import Samples
from faircil.weighting.all_layers.functional import FunctionalNet

HEAD = 2  # the last parameters, weight and bias, are those of the last layer
SHOWN = 150  # samples in the picture

Point = tuple[float, float]


@dataclass(frozen=True)
class Angles:
    """Degrees between the mean gradient of the new class and those of the old ones."""

    neighbour: float
    far: float


@dataclass(frozen=True)
class Turn:
    """What weights do to the gradient of the new class in an epoch, by the last layer.

    Parameters
    ----------
    before, after : Angles
        Of the plain mean g₂, and of the weighted mean g₂*.
    between : float
        Degrees between the two.
    kept : float
        Mean weight.
    """

    before: Angles
    after: Angles
    between: float
    kept: float


@dataclass(frozen=True)
class Vectors:
    """Directions of last-layer gradients, vectors of length 1, seen in the plane of g₁ and g₂.

    One that lies in the plane keeps its length, one across it is short.
    """

    means: tuple[Point, ...]  # g₀, g₁, g₂
    weighted: Point
    samples: tuple[Point, ...]


@dataclass(frozen=True)
class EpochGradients:
    """Last-layer gradients at the start of an epoch.

    Parameters
    ----------
    new : Tensor, shape (n, P)
        Of the samples of the new class.
    old : Tensor, shape (2, P)
        Means of the classes 0 and 1 in the buffer.
    weights : Tensor, shape (n,)
        That the program gives to the new samples.
    """

    new: Tensor
    old: Tensor
    weights: Tensor

    @property
    def weighted(self) -> Tensor:
        """The mean of the new class with weights, (P,)."""
        return self.weights @ self.new / len(self.new)

    def turn(self) -> Turn:
        """Say by how much weights turn the mean."""
        mean = self.new.mean(dim=0)
        return Turn(
            before=angles(mean, self.old),
            after=angles(self.weighted, self.old),
            between=degrees(mean, self.weighted),
            kept=float(self.weights.mean()),
        )

    def vectors(self) -> Vectors:
        """Project to the plane in which the angle between g₁ and g₂ is the true one.

        Its first axis is g₁, its second what g₂ has besides.
        """
        mean = self.new.mean(dim=0)
        along = normalize(self.old[1], dim=0)
        across = normalize(mean - (mean @ along) * along, dim=0)
        axes = torch.stack([along, across], dim=1)

        def seen(vectors: Tensor) -> tuple[Point, ...]:
            return as_points(normalize(vectors, dim=1) @ axes)

        return Vectors(
            means=seen(torch.cat([self.old, mean[None]])),
            weighted=seen(self.weighted[None])[0],
            samples=seen(self.new[:SHOWN]),
        )


def degrees(a: Tensor, b: Tensor) -> float:
    """Return the angle between two vectors, (P,)."""
    cosine = cosine_similarity(a.double(), b.double(), dim=0)
    return float(torch.rad2deg(torch.acos(cosine.clamp(-1, 1))))


def angles(new: Tensor, old: Tensor) -> Angles:
    """Return the angles of a vector, (P,), to the means of classes 0 and 1, (2, P)."""
    return Angles(neighbour=degrees(new, old[1]), far=degrees(new, old[0]))


def sample_gradients(net: nn.Module, samples: Samples, *, last: bool) -> Tensor:
    """Return the gradient of each sample's cross-entropy, by the last layer or by all: (n, P)."""
    function = FunctionalNet(net)
    logits = function.logits(samples.x).detach()
    at_logits = logits.softmax(dim=1) - one_hot(samples.y, logits.shape[1])
    parts = function.gradients(samples.x, at_logits)
    return torch.cat(parts[-HEAD:] if last else parts, dim=1).detach()


def as_points(values: Tensor) -> tuple[Point, ...]:
    """Return rows of two numbers, (n, 2), as plain numbers."""
    return tuple((x, y) for x, y in values.double().round(decimals=4).tolist())
