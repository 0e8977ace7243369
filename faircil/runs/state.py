"""The state of a run between epochs, which can be saved and resumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.compute import Generators
from faircil.learners import Learner, Material
from faircil.metrics import TaskMetrics
from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.record import EpochRecord, Predictions, Seconds
from faircil.samples import Samples


@dataclass
class TaskInProgress:
    """A task that has begun and not ended.

    Parameters
    ----------
    material : Material
        What its steps draw from.
    replay : ReplayBatches or None
        Batches of the memory, in the middle of a pass.
    epoch : int
        Epochs that are done.
    weights : Tensor, shape (n,), or None
        Of the last epoch.
    """

    material: Material
    replay: ReplayBatches | None
    epoch: int = 0
    weights: Tensor | None = None


@dataclass
class RunState:
    """The learner with all that it has seen, and what was measured so far.

    Parameters
    ----------
    learner : Learner
    buffer : ReplayBuffer
    generators : Generators
    task : TaskInProgress or None
        None between two tasks.
    seen : dict
        ``{(y,): n}`` or ``{(y, z): n}``, training samples of the tasks so far.
    held_out : list of Samples
        Of each task so far, never trained on; empty if none are held out.
    per_task, predictions, epochs, notes, probabilities : list
        As in :class:`faircil.results.record.RunResult`.
    eval_seconds, total_seconds : float
        Wall time of the evaluations, and of everything.
    """

    learner: Learner
    buffer: ReplayBuffer
    generators: Generators
    task: TaskInProgress | None = None
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)
    held_out: list[Samples] = field(default_factory=list)
    per_task: list[TaskMetrics] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    probabilities: list[TaskProbabilities] = field(default_factory=list)
    eval_seconds: float = 0.0
    total_seconds: float = 0.0

    def seconds(self) -> Seconds:
        """Split the wall time of the run."""
        weights = [epoch.weights for epoch in self.epochs if epoch.weights]
        return Seconds(
            gradient=sum(record.gradient for record in weights),
            lp=sum(record.lp for record in weights),
            train=sum(epoch.train for epoch in self.epochs),
            eval=self.eval_seconds,
            total=self.total_seconds,
        )


def save_state(state: RunState, file: Path | BinaryIO) -> None:
    """Write a state that :func:`load_state` reads; the training data of its task is part of it."""
    torch.save(state, file)


def load_state(file: Path | BinaryIO) -> RunState:
    """Read a state; only from a file of your own, since reading it can run code."""
    state: RunState = torch.load(file, weights_only=False)
    return state
