"""All that a run carries from one epoch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from faircil.buffer import ReplayBuffer
from faircil.learners import Learner
from faircil.metrics import TaskMetrics
from faircil.results.record import EpochRecord, Predictions, Seconds
from faircil.samples import Samples


@dataclass(frozen=True)
class Generators:
    """One stream of random numbers per purpose, so that methods on one seed share what they can."""

    init_seed: int  # of the net: its layers draw from torch's global generator
    shuffle: torch.Generator
    memory: torch.Generator
    buffer: torch.Generator
    weights: torch.Generator

    @classmethod
    def from_seed(cls, seed: int) -> Generators:
        """Derive independent generators from the seed of the run."""
        init, *seeds = (
            np.random.SeedSequence([seed, 1]).generate_state(5, np.uint64) >> 1
        ).tolist()
        return cls(init, *(torch.Generator().manual_seed(s) for s in seeds))


@dataclass
class RunState:
    """The learner with all that it has seen, and what was measured so far.

    Parameters
    ----------
    learner : Learner
    buffer : ReplayBuffer
    generators : Generators
    seen : dict
        ``{(y,): n}`` or ``{(y, z): n}``, training samples of the tasks so far.
    tests : list of Samples
        Test parts of the tasks so far.
    per_task, predictions, epochs, notes : list
        As in :class:`faircil.results.record.RunResult`.
    eval_seconds : float
        Wall time of the evaluations.
    """

    learner: Learner
    buffer: ReplayBuffer
    generators: Generators
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)
    tests: list[Samples] = field(default_factory=list)
    per_task: list[TaskMetrics] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    eval_seconds: float = 0.0

    def seconds(self, total: float) -> Seconds:
        """Split the wall time of the run."""
        weights = [epoch.weights for epoch in self.epochs if epoch.weights]
        return Seconds(
            gradient=sum(record.gradient for record in weights),
            lp=sum(record.lp for record in weights),
            train=sum(epoch.train for epoch in self.epochs),
            eval=self.eval_seconds,
            total=total,
        )
