"""Knowledge distillation: cross-entropy plus the previous net's soft targets for old classes.

The old net does not change during a task, so its outputs are computed once, in one pass, and then
looked up by row; no step evaluates a second net.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.learners.base import (
    Batch,
    BufferOptions,
    Generators,
    Learner,
    Material,
    Options,
    Positive,
    ReplayBuffer,
    Samples,
)
from faircil.learners.replay import Buffered


@dataclass(frozen=True)
class Teacher:
    """Logits of the previous net.

    Parameters
    ----------
    current : Tensor, shape (n, classes)
        Logits of the current samples.
    memory : Tensor, shape (m, classes), or None
        Logits of the memory.
    """

    current: Tensor
    memory: Tensor | None = None

    def of(self, batch: Batch) -> Tensor:
        """Return the logits of a batch, (b + k, classes): current samples, then replayed ones."""
        current = self.current.index_select(0, batch.rows)
        if self.memory is None or batch.memory_rows is None:
            return current
        return torch.cat([current, self.memory.index_select(0, batch.memory_rows)])


def teach(learner: Learner, material: Material) -> Teacher:
    """Compute the learner's current scores on the data of the new task."""
    memory = material.memory
    return Teacher(
        material.current.mapped(learner.scores),
        None if memory is None else learner.scores(memory.x),
    )


class DistillationOptions(BufferOptions):
    """Settings of learners with knowledge distillation."""

    temperature: Positive = 2.0
    """temperature of the softmax over the old classes' logits"""


class Distilling(Buffered):
    """Minimise ``mean((1 − λ) · w · CE + λ · KD)`` over the current and the memory batch together.

    λ is the fraction of old classes among those seen. KD is the cross-entropy between
    softmax(logits of the old classes / temperature) of the net at the start of the task and of the
    current net, without the factor temperature² that other methods have. There is one mean over
    both batches, so only the size of the memory batch sets the weight of replay. Weights w apply to
    the cross-entropy of current samples.
    """

    options = DistillationOptions

    settings: DistillationOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.targets: Teacher | None = None  # probabilities of the old classes; None in task 1
        self.old_columns = torch.zeros(0, dtype=torch.int64)

    @property
    def distilled(self) -> float:
        """λ, the fraction of old classes among those seen."""
        return len(self.old) / (len(self.old) + len(self.new))

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Compute the current probabilities of the old classes."""
        material = super().begin_task(train, buffer)
        self.old_columns = torch.tensor(self.old, dtype=torch.int64, device=train.y.device)
        if self.old:
            teacher = teach(self, material)
            memory = None if teacher.memory is None else self._softened(teacher.memory).exp()
            self.targets = Teacher(self._softened(teacher.current).exp(), memory)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute both batches in one forward pass."""
        logits = self.net(batch.x)
        current, memory = batch.split(cross_entropy(logits, batch.y, reduction="none"))
        weighted = current if batch.weight is None else batch.weight * current
        classified = batch.mean(torch.cat([weighted, memory]))
        if self.targets is None:
            return classified
        kept = -batch.mean((self.targets.of(batch) * self._softened(logits)).sum(dim=1))
        return (1 - self.distilled) * classified + self.distilled * kept

    def _softened(self, logits: Tensor) -> Tensor:
        """Return log-probabilities, (n, old classes), from logits (n, classes)."""
        old = logits.index_select(1, self.old_columns)
        return torch.log_softmax(old / self.settings.temperature, dim=1)
