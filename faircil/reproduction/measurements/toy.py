"""Figure 1 again: angles between the gradients of three classes, and who is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from faircil.config import RunConfig, resolve
from faircil.data.stream import TaskStream
from faircil.experiment import run
from faircil.loading import load_stream
from faircil.reproduction.measurements import gradients, watching
from faircil.reproduction.measurements.gradients import (
    SHOWN,
    Angles,
    EpochGradients,
    Point,
    Turn,
    Vectors,
    angles,
    as_points,
    sample_gradients,
)
from faircil.reproduction.measurements.store import Measurement
from faircil.samples import concatenate
from faircil.state import RunState

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
    sources = (gradients, watching)

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
