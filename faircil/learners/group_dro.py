"""Group-DRO with replay: the groups with the largest losses have the largest weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.learners.base import (
    Batch,
    BufferOptions,
    Generators,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    Samples,
    unique_rows,
)
from faircil.learners.replay import Buffered, draw_by_share


class GroupDroOptions(BufferOptions):
    """Settings of group-DRO."""

    group_step: NonNegative = 0.01
    """step size of the group weights"""
    size_adjustment: NonNegative = 0.0
    """C in C/√(samples of the group), added to its loss because small groups are overfitted"""


class GroupDro(Buffered):
    """Minimise ``Σ_G q_G ℓ_G`` over the net and maximise it over the q, which sum to 1.

    The maximum is the largest loss of a group, measure ``worst``.
    A group is a class with an attribute value, or a class if there is no attribute or the measure
    of the run compares classes, as ``eer`` does. All groups seen so far are included. ℓ_G is the
    mean loss of the group in the current and the memory batch. Before each step
    ``q_G ← q_G · exp(group_step · (ℓ_G + C/√n_G))`` for the groups in the batch, then all q are
    divided by their sum. They are reset to equal values in every task, like the optimizer.

    An epoch draws as many current samples as the task has, with equally frequent groups; the buffer
    is balanced by its quota. There is no τ: the q balance old and new groups.
    """

    options = GroupDroOptions
    follows = ("eer", "eo", "worst")

    settings: GroupDroOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.group = torch.zeros(0, dtype=torch.int64)  # of the current samples, (n,)
        self.memory_group = self.group  # (m,)
        self.adjustment = torch.zeros(0)  # C/√n_G, (G,)
        self.q = torch.zeros(0)  # (G,)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the groups, old and new, and reset their weights."""
        material = super().begin_task(train, buffer)
        parts = [train] if material.memory is None else [train, material.memory]
        keys, group = unique_rows(torch.cat([part.keys(self.by_attribute) for part in parts]))
        self.group, self.memory_group = group[: len(train)], group[len(train) :]
        size = torch.bincount(group, minlength=len(keys)).float()
        self.adjustment = self.settings.size_adjustment / size.sqrt()
        self.q = torch.full_like(size, 1 / len(keys))
        return material

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor:
        """Draw as many current samples as the task has, equally many from each group."""
        del epoch, epochs
        there = torch.bincount(self.group, minlength=len(self.q)) > 0
        return draw_by_share(self.group, there, len(self.group), self.generators.method)

    def loss(self, batch: Batch) -> Tensor:
        """Update the group weights, then return the weighted loss."""
        losses = cross_entropy(self.net(batch.x), batch.y, reduction="none")
        group = self.group.index_select(0, batch.rows)
        if batch.memory_rows is not None:
            group = torch.cat([group, self.memory_group.index_select(0, batch.memory_rows)])
        # A matrix product instead of a scatter: it is deterministic on a GPU as well.
        numbers = torch.arange(len(self.q), device=group.device)
        member = (group == numbers[:, None]).to(losses.dtype)
        count = member.sum(dim=1)
        mean = member @ losses / count.clamp(min=1)
        with torch.no_grad():
            ascent = torch.where(count > 0, mean + self.adjustment, 0)
            q = self.q * torch.exp(self.settings.group_step * ascent)
            q = q / q.sum()
            self.q.copy_(q)  # in place, at the address that a recorded step reads
        return q @ mean
