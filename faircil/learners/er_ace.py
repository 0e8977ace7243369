"""ER-ACE: replay with a cross-entropy in which current samples ignore the old classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.base import Batch, Material, NonNegative, Options, ReplayBuffer, Samples
from faircil.learners.replay import SelectsAtTaskStart


class AsymmetricOptions(Options):
    """Settings of replay with an asymmetric cross-entropy."""

    tau: NonNegative = 1.0
    """weight of the replay loss"""


class AsymmetricReplay(SelectsAtTaskStart):
    """Minimise ``mean(w · CE of current, old classes left out) + τ · mean(CE of memory)``.

    In the first term the softmax runs over the classes of the batch and those of no earlier task.
    Only the memory contrasts old classes with new ones, so it must contain current samples during
    the task, including the first task. The original adds samples during training by reservoir
    sampling; here the task's buffer samples are selected at its start. The original's cosine head
    is not used: all methods have the same net.
    """

    options = AsymmetricOptions

    settings: AsymmetricOptions

    old_classes: Tensor  # int64, on the device of the task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Store the old classes on the device, so that a step needs no copy from the host."""
        material = super().begin_task(train, buffer)
        self.old_classes = torch.tensor(self.old, dtype=torch.int64, device=train.y.device)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute both terms in one forward pass."""
        new, old = batch.split(self.net(batch.x))
        y = batch.current.y
        left_out = torch.zeros(new.shape[1], dtype=torch.bool, device=y.device)
        left_out = left_out.index_fill(0, self.old_classes, True).index_fill(0, y, False)
        losses = cross_entropy(new.masked_fill(left_out, -torch.inf), y, reduction="none")
        loss = batch.weighted_mean(losses)
        if batch.memory is None:
            return loss
        return loss + self.settings.tau * cross_entropy(old, batch.memory.y)
