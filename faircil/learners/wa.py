"""Weight aligning: distillation, and a last layer whose new rows are made as long as the old."""

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
    """whether the last layer's weights are kept at 0 or above, as the paper that proposes the
    method does, so that a longer row always means larger logits"""
    evaluate_before_alignment: bool = False
    """whether a task is evaluated before it is aligned, and the last never is; published tables
    that compare fair methods were made so"""


class WeightAligning(Distilling):
    """Distil; at the end of a task multiply the new classes' weights by γ.

    ``γ = mean over old classes of ‖W_k‖ / mean over new classes of ‖W_k‖`` with the rows W_k of
    the last layer: training on many new and few old samples makes new rows long, and with them
    the new classes' logits. Classes that are not seen yet are in neither mean. The net that
    teaches the next task is aligned.
    """

    options = WeightAligningOptions

    settings: WeightAligningOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.head: nn.Linear | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the last layer; align it if that was put off."""
        self.head = find_head(self.net, train.x)
        if self.settings.evaluate_before_alignment:
            self.align()
        return super().begin_task(train, buffer)

    def step(self, batch: Batch) -> None:
        """Update the net once, and clip the last layer if asked to."""
        super().step(batch)
        if self.settings.clip_nonneg and self.head is not None:
            self.head.weight.data.clamp_(min=0)

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Align the last layer, unless that is put off to the next task."""
        del buffer
        if not self.settings.evaluate_before_alignment:
            self.align()

    def align(self) -> None:
        """Scale the rows of the new classes to the mean length of the old classes' rows."""
        if self.head is None or not self.old or not self.new:
            return
        new = list(self.new)
        with torch.no_grad():
            length = self.head.weight.norm(dim=1)
            gamma = length[list(self.old)].mean() / length[new].mean()
            self.head.weight[new] *= gamma
            if self.settings.align_bias and self.head.bias is not None:
                self.head.bias[new] *= gamma
