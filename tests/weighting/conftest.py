"""Real programs: those of a net that has learned two tasks of the digits and meets the third."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.data.datasets import load_dataset
from faircil.nets import build_mlp
from faircil.samples import Samples, concatenate, group_counts
from faircil.weighting import FairSampleWeights, Solution, WeightProgram, choice, solve

DigitProgram = Callable[..., WeightProgram]
Scene = tuple[nn.Module, Samples, Samples, dict[tuple[int, ...], int]]


def _train(net: nn.Module, samples: Samples, steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        rows = torch.randint(len(samples), (64,), generator=generator)
        optimizer.zero_grad()
        loss = cross_entropy(net(samples.x[rows]), samples.y[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@cache
def _scene(dataset: str, steps: int) -> Scene:
    """Return the net after some steps of the third task, its samples, the buffer, and counts."""
    generator = torch.Generator().manual_seed(0)
    first, second, third = (task.train for task in load_dataset(dataset, 0).tasks[:3])
    net = build_mlp(first.x[0].numel(), 10, (32,), 0)
    buffer = ReplayBuffer(32)
    for samples in (first, second):
        _train(net, samples, 60, generator)
        buffer = buffer.with_task(samples, None, generator)
    assert buffer.samples is not None
    _train(net, concatenate([buffer.samples, third]), steps, generator)
    return net, third, buffer.samples, group_counts(concatenate([first, second, third]))


@pytest.fixture(scope="session")
def digit_program() -> DigitProgram:
    """Return ``(measure, alpha="auto", steps=20) -> program`` of about 5,000 weights."""

    @cache
    def program(measure: str, alpha: float | str = "auto", steps: int = 20) -> WeightProgram:
        caught: list[WeightProgram] = []

        def spy(program: WeightProgram, solver: str) -> Solution:
            caught.append(program)
            return solve(program, solver)

        net, current, memory, seen = _scene(
            "digits" if measure == "eer" else "biased-digits", steps
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choice, "solve", spy)
            FairSampleWeights(measure=measure, alpha=alpha)(net, current, memory, seen=seen)  # type: ignore[arg-type]
        for array in vars(caught[0]).values():
            array.setflags(write=False)  # it is used again
        return caught[0]

    return program
