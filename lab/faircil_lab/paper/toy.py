"""Fig. 1, measured: gradients of three classes in the plane, and who is forgotten, by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize, one_hot

from faircil.data.stream import TaskStream
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_stream
from faircil.samples import Samples, concatenate
from faircil.weighting.functional import FunctionalNet
from faircil_lab.paper import watching
from faircil_lab.paper.store import Measurement

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
    """

    before: Angles
    after: Angles


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
        return Turn(before=angles(mean, self.old), after=angles(self.weighted, self.old))

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


NEW = 2  # the class of the second task; 1 is its neighbour, 0 is far away


@dataclass(frozen=True)
class ToySeed:
    """What was measured with one seed.

    Parameters
    ----------
    last, every : Angles
        At the start of the second task, by the gradients of the last layer and of all layers.
    turns : tuple of Turn
        In every epoch of the second task with FSW.
    vectors : Vectors
        In the first of them.
    replay, fsw : tuple
        Test accuracy of classes 0, 1 and 2 before the second task, then after each of its epochs.
    data : tuple
        Some training samples of each class.
    """

    last: Angles
    every: Angles
    turns: tuple[Turn, ...]
    vectors: Vectors
    replay: tuple[tuple[float, ...], ...]
    fsw: tuple[tuple[float, ...], ...]
    data: tuple[tuple[Point, ...], ...]


@dataclass(frozen=True)
class ToyForgetting(Measurement[ToySeed]):
    """Replay and FSW on the toy, with the shipped settings."""

    name: ClassVar[str] = "toy"
    values: ClassVar[type[ToySeed]] = ToySeed
    sources = (watching,)

    seed: int
    overrides: tuple[str, ...] = ()

    def compute(self) -> ToySeed:
        """Run both, and look at every epoch of the second task."""
        config = resolve(dataset="toy", method="fsw", overrides=self.overrides)
        plain = resolve(dataset="toy", method="er", overrides=self.overrides)
        stream = load_stream(config, self.seed)
        every: list[Angles] = []
        epochs: list[EpochGradients] = []

        def look(state: RunState, before: nn.Module) -> None:
            weights = watching.weights_of_epoch(config, state, before).weights
            epochs.append(EpochGradients(*_gradients(state, before, last=True), weights))
            if not every:
                samples, means = _gradients(state, before, last=False)
                every.append(angles(samples.mean(dim=0), means))

        fsw = _accuracies(config, self.seed, stream, look)
        turns = tuple(epoch.turn() for epoch in epochs)
        return ToySeed(
            last=turns[0].before,
            every=every[0],
            turns=turns,
            vectors=epochs[0].vectors(),
            replay=_accuracies(plain, self.seed, stream, lambda *_: None),
            fsw=fsw,
            data=tuple(
                as_points(task.train.x[task.train.y == label][:SHOWN])
                for task in stream.tasks
                for label in task.classes
            ),
        )


def _gradients(state: RunState, net: nn.Module, *, last: bool) -> tuple[Tensor, Tensor]:
    """Return the gradients of the new samples, and the means of the old classes."""
    assert state.task is not None
    assert state.buffer.samples is not None
    memory = state.buffer.samples
    old = sample_gradients(net, memory, last=last)
    means = torch.stack([old[memory.y == label].mean(dim=0) for label in range(NEW)])
    return sample_gradients(net, state.task.material.current, last=last), means


def _accuracies(
    config: RunConfig, seed: int, stream: TaskStream, look: Callable[[RunState, nn.Module], None]
) -> tuple[tuple[float, ...], ...]:
    """Run, and return the test accuracy of each class around the epochs of the second task."""
    tests = concatenate([task.test for task in stream.tasks])
    found: list[tuple[float, ...]] = []

    def measure(net: nn.Module) -> None:
        with torch.no_grad():
            right = (net(tests.x).argmax(dim=1) == tests.y).double()
        found.append(tuple(float(right[tests.y == label].mean()) for label in range(NEW + 1)))

    def look_at_second(state: RunState, before: nn.Module | None) -> None:
        if before is not None and state.buffer.samples is not None:
            if not found:
                measure(before)
            measure(state.learner.net)
            look(state, before)

    run(config, seed, stream=stream, checkpoint=watching.watching(look_at_second))
    return tuple(found)
