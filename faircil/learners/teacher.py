"""The net as it was when the task began, as outputs for all that the task trains on.

The old net does not change during a task, so its outputs are computed once, in one pass, and looked
up by row afterwards: no step passes a second net.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.learners.base import Learner
from faircil.learners.batch import Batch, Material


@dataclass(frozen=True)
class Teacher:
    """Logits of the old net.

    Parameters
    ----------
    current : Tensor, shape (n, classes)
        For the material's current samples.
    memory : Tensor, shape (m, classes), or None
        For its memory.
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
    """Ask the learner as it is for its scores on the material of the task that begins."""
    memory = material.memory
    return Teacher(
        learner.scores(material.current.x), None if memory is None else learner.scores(memory.x)
    )
