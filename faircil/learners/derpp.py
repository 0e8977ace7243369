"""DER++ (dark experience replay): replay with labels and with earlier logits of the net.

This is not the method called DER in the FSW paper, which is the dynamically expandable
representation of Yan et al. 2021 with a growing net.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, pad

from faircil.errors import DataError
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

    The last mean is over the samples of the same memory batch and over all classes, including
    unseen ones. The original draws a memory batch for each of the two terms, which is equal in
    expectation and takes a third more computation. Samples enter the buffer, and their logits are
    stored, at the end of their task; the original fills the buffer during the task.
    """

    options = DarkReplayOptions
    divisible = True

    settings: DarkReplayOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.targets: Tensor | None = None  # (m, classes), one row per buffer sample

    def grow(self, classes: int) -> None:
        """Add outputs; stored logits of classes that were unknown then are 0."""
        super().grow(classes)
        if self.targets is not None:
            self.targets = pad(self.targets, (0, classes - self.targets.shape[1]))

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Use the net's logits as targets, for the whole buffer or for its new samples only."""
        material = super().begin_task(train, buffer)
        memory = material.memory
        if memory is not None:
            # The net has not changed since the last task, and new samples are at the buffer's end.
            if self.settings.logits == "task-end" or self.targets is None:
                self.targets = self.scores(memory.x)
            else:
                added = memory.x[len(self.targets) :]
                self.targets = torch.cat([self.targets, self.scores(added)])
        return material

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add samples of each group; with stored logits, check that old samples are unchanged."""
        after, old = super().remember(train, weights, buffer), buffer.samples
        assert after.samples is not None
        if self.settings.logits == "task-end" or old is None:
            return after
        if not torch.equal(after.samples.take(slice(len(old))).x, old.x):
            raise DataError(
                "classes came back whose new samples replace others in the buffer, and "
                "`logits=stored` keeps the logits of those; use `logits=task-end`"
            )
        return after

    def loss(self, batch: Batch) -> Tensor:
        """Compute all terms in one forward pass."""
        logits = self.net(batch.x)
        loss = replay_loss(logits, batch, self.settings.tau)
        if self.targets is None or batch.memory_rows is None:
            return loss
        targets = self.targets.index_select(0, batch.memory_rows)
        how = "mean" if batch.whole is None else "none"
        distilled = batch.memory_mean(mse_loss(batch.split(logits)[1], targets, reduction=how))
        return loss + self.settings.distill * distilled
