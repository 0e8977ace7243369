"""Asymmetric cross-entropy: current samples do not push the logits of old classes down."""

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

    In the first term the softmax runs over the classes of the batch and those that no earlier task
    had. Only the memory sets old classes against new ones, so it must hold current samples while
    the task goes on, in the first task too. The original takes samples in one by one as they pass,
    by reservoir; here those that the buffer keeps are at hand from the task's start. The original's
    cosine head is not used: the net is that of all methods.
    """

    options = AsymmetricOptions

    settings: AsymmetricOptions

    old_classes: Tensor  # of int64; on the device of the task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Note the old classes where a step finds them without a copy from the host."""
        material = super().begin_task(train, buffer)
        self.old_classes = torch.tensor(self.old, dtype=torch.int64, device=train.y.device)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Take both batches through the net at once."""
        new, old = batch.split(self.net(batch.x))
        y = batch.current.y
        left_out = torch.zeros(new.shape[1], dtype=torch.bool, device=y.device)
        left_out = left_out.index_fill(0, self.old_classes, True).index_fill(0, y, False)
        losses = cross_entropy(new.masked_fill(left_out, -torch.inf), y, reduction="none")
        loss = batch.weighted_mean(losses)
        if batch.memory is None:
            return loss
        return loss + self.settings.tau * cross_entropy(old, batch.memory.y)
