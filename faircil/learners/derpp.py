"""Dark Experience Replay++: replay with labels, and with the logits that the net gave before.

Not the method called DER in the FSW paper: that is the dynamically expandable representation of
Yan et al. 2021, which grows a net per task.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from faircil.learners.base import (
    Batch,
    Generators,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    ReplayOptions,
    Samples,
)
from faircil.learners.replay import Replay, replay_loss


class DarkReplayOptions(ReplayOptions):
    """Settings of dark experience replay."""

    distill: NonNegative = 1.0
    """weight of the squared error between the buffer's logits and their targets"""
    logits: Literal["task-end", "stored"] = "task-end"
    """target logits of the buffer: task-end, the net's at the end of the last task; stored, the
    net's when the sample entered the buffer (the original rule)"""


class DarkReplay(Replay):
    """Minimise ``mean(w · CE) + τ · mean(CE of memory) + distill · mean((f(x) − target)²)``.

    The last mean is over the samples of the same memory batch and over all classes, those not yet
    seen included. The original draws a memory batch for each of the two terms: the same in
    expectation, and a third more to compute. Samples enter the buffer at the end of their task,
    so that is when their stored logits are from; the original fills it during the task.
    """

    options = DarkReplayOptions

    settings: DarkReplayOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.targets: Tensor | None = None  # (m, classes), a row for each sample of the buffer

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Take the net's logits of the buffer as targets: of all of it, or of what is new in it."""
        material = super().begin_task(train, buffer)
        memory = material.memory
        if memory is not None:
            # The net is still as the last task left it, and a buffer grows at its end.
            if self.settings.logits == "task-end" or self.targets is None:
                self.targets = self.scores(memory.x)
            else:
                added = memory.x[len(self.targets) :]
                self.targets = torch.cat([self.targets, self.scores(added)])
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Take both batches through the net at once."""
        logits = self.net(batch.x)
        loss = replay_loss(logits, batch, self.settings.tau)
        if self.targets is None or batch.memory_rows is None:
            return loss
        targets = self.targets.index_select(0, batch.memory_rows)
        distilled = mse_loss(batch.split(logits)[1], targets)
        return loss + self.settings.distill * distilled
