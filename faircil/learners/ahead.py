"""Learners that know from a task's start which of its samples the buffer will keep."""

from __future__ import annotations

from torch import Tensor

from faircil.buffer import ReplayBuffer
from faircil.learners.base import Learner
from faircil.learners.batch import Material
from faircil.samples import Samples


class DrawsAhead(Learner):
    """Draws the task's part of the buffer when the task begins: the draw that replay makes later.

    The draw is blind to the weights of the task's last epoch, so there is no buffer rule to set.
    """

    replays = True

    kept: ReplayBuffer  # with the part of the current task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Let the task's part of the buffer be memory at once."""
        material = super().begin_task(train, buffer)
        self.kept = buffer.with_task(train, None, self.generators.buffer)
        return Material(material.current, self.kept.samples)

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Return what was drawn."""
        del train, weights, buffer
        return self.kept
