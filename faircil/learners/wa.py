"""Weight aligning: distillation, and weights of new classes rescaled to the norm of the old."""

from __future__ import annotations

import torch
from torch import nn

from faircil.learners.base import Batch, Generators, Material, Options, ReplayBuffer, Samples
from faircil.learners.distillation import DistillationOptions, Distilling
from faircil.nets import find_head


class WeightAligningOptions(DistillationOptions):
    """Settings of weight aligning."""

    align_bias: bool = False
    """whether the biases of the new classes are scaled with their weights"""
    clip_nonneg: bool = True
    """whether to clip the last layer's weights at 0 from below, as in the paper that proposes the
    method, so that a larger norm always means larger logits"""
    evaluate_before_alignment: bool = False
    """whether to evaluate a task before alignment, so that the last task is never aligned;
    published tables that compare fair methods used this order"""


class WeightAligning(Distilling):
    """Distillation; at the end of a task the new classes' weights are multiplied by γ.

    ``γ = mean over old classes of ‖W_k‖ / mean over new classes of ‖W_k‖`` with the rows W_k of
    the last layer: training on many new and few old samples increases the norms of the new rows,
    and with them the new classes' logits. Unseen classes are excluded from both means. The teacher
    of the next task is the aligned net.
    """

    options = WeightAligningOptions

    settings: WeightAligningOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.head: nn.Linear | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the last layer; apply an alignment that was deferred."""
        self.head = find_head(self.net, train.x)
        if self.settings.evaluate_before_alignment:
            self.align()
        return super().begin_task(train, buffer)

    def step(self, batch: Batch) -> None:
        """Update the net once, and clip the last layer if enabled."""
        super().step(batch)
        if self.settings.clip_nonneg and self.head is not None:
            self.head.weight.data.clamp_(min=0)

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Align the last layer, unless deferred to the next task."""
        del buffer
        if not self.settings.evaluate_before_alignment:
            self.align()

    def align(self) -> None:
        """Scale the rows of the new classes to the mean norm of the old classes' rows."""
        if self.head is None or not self.old or not self.new:
            return
        new = list(self.new)
        with torch.no_grad():
            length = self.head.weight.norm(dim=1)
            gamma = length[list(self.old)].mean() / length[new].mean()
            self.head.weight[new] *= gamma
            if self.settings.align_bias and self.head.bias is not None:
                self.head.bias[new] *= gamma
