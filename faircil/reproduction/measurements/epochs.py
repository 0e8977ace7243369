"""A run seen epoch by epoch: how well losses were predicted, and how cost and disparity moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import nn

from faircil.config import RunConfig, resolve
from faircil.data.stream import TaskStream
from faircil.experiment import run
from faircil.loading import load_stream
from faircil.reproduction.measurements import disparity, expansion, watching
from faircil.reproduction.measurements.disparity import (
    CostAndDisparity,
    Fit,
    cost_and_disparity,
    fit,
)
from faircil.reproduction.measurements.store import Measurement
from faircil.samples import Samples, concatenate
from faircil.state import RunState
from faircil.weighting.groups import Floats, find_groups
from faircil.weighting.measures import find_measure


@dataclass(frozen=True)
class PredictionErrors:
    """Mean over groups of the distance between a group's loss after an epoch and a prediction.

    Parameters
    ----------
    unchanged : float
        Of the loss before the epoch.
    first, second : float
        Of Taylor's formula with the step that the epoch took.
    program : float
        Of the linear program, which has a step of its own.
    """

    unchanged: float
    first: float
    second: float
    program: float


@dataclass(frozen=True)
class WatchedEpoch:
    """An epoch, counted from 1: on its training data (task and buffer), and on seen test data.

    ``errors`` is None in the first task, where nothing is predicted.
    """

    task: int
    epoch: int
    errors: PredictionErrors | None
    train: CostAndDisparity
    test: CostAndDisparity


@dataclass(frozen=True)
class WatchedRun:
    """All epochs of a run, in order."""

    epochs: tuple[WatchedEpoch, ...]


@dataclass(frozen=True)
class EpochByEpoch(Measurement[WatchedRun]):
    """FSW with the shipped settings, watched.

    Parameters
    ----------
    dataset : str
        Compared by the measure that is its own.
    seed : int
    overrides : tuple of str
        ``name=value`` settings.
    """

    name: ClassVar[str] = "epochs"
    values: ClassVar[type[WatchedRun]] = WatchedRun
    sources = (disparity, expansion, watching)

    dataset: str
    seed: int
    overrides: tuple[str, ...] = ()

    def compute(self) -> WatchedRun:
        """Run and look at every epoch."""
        config = resolve(dataset=self.dataset, method="fsw", overrides=self.overrides)
        return watched_run(config, self.seed, load_stream(config, self.seed))


def watched_run(config: RunConfig, seed: int, stream: TaskStream) -> WatchedRun:
    """Run a configuration of replay on a stream and look at every epoch."""
    epochs: list[WatchedEpoch] = []

    def look(state: RunState, before: nn.Module | None) -> None:
        assert state.task is not None
        number = len(state.per_task) + 1
        tests = concatenate([task.test for task in stream.tasks[:number]])
        parts = _parts(state)
        fits = [fit(state.learner, part) for part in parts]
        errors = None
        if before is not None and len(parts) == 2:
            errors = _prediction_errors(config, state, before, fits)
        epochs.append(
            WatchedEpoch(
                task=number,
                epoch=state.task.epoch,
                errors=errors,
                train=cost_and_disparity(config.measure, parts, fits),
                test=cost_and_disparity(config.measure, [tests], [fit(state.learner, tests)]),
            )
        )

    run(config, seed, stream=stream, checkpoint=watching.watching(look))
    return WatchedRun(tuple(epochs))


def _parts(state: RunState) -> list[Samples]:
    """Return the training data of the task, and the buffer where there is one."""
    assert state.task is not None
    memory = state.buffer.samples
    return [state.task.material.current, *([] if memory is None else [memory])]


def _prediction_errors(
    config: RunConfig, state: RunState, before: nn.Module, after: Sequence[Fit]
) -> PredictionErrors:
    current, memory = _parts(state)
    by_attribute = find_measure(config.measure).by_attribute
    membership = find_groups(current, memory, by_attribute=by_attribute)
    step = expansion.step_between(before, state.learner.net)
    expected = expansion.expand_groups(before, step, current, memory, membership)
    truth = expansion.group_means([part.losses for part in after], membership)
    program = watching.weights_of_epoch(config, state, before).groups.predicted_losses

    def error(prediction: Floats) -> float:
        return float(np.abs(truth - prediction).mean())

    return PredictionErrors(
        unchanged=error(expected.loss),
        first=error(expected.first_order),
        second=error(expected.second_order),
        program=error(program),
    )
