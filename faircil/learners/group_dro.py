"""Group-DRO on replay: the groups with the largest losses count most."""

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
    """how fast weight moves to groups with a large loss"""
    size_adjustment: NonNegative = 0.0
    """adds this over √(samples of the group) to its loss, since small groups are overfitted"""


class GroupDro(Buffered):
    """Minimise ``Σ_G q_G ℓ_G`` over the net and maximise it over the q, which add up to 1.

    A group is a class with an attribute value, or a class where there is no attribute or the
    measure of the run compares classes, as ``eer`` does; all that were seen take part. ℓ_G is its
    mean loss in the current and the memory batch. Before each step
    ``q_G ← q_G · exp(group_step · (ℓ_G + C/√n_G))`` for the groups in the batch, then all q are
    divided by their sum. They begin equal in every task, as the optimizer starts afresh.

    The current samples are drawn so that their groups are equally frequent, as many as the task
    has; the buffer is even by its quota. Old and new need no τ between them: the q balance them.
    """

    options = GroupDroOptions
    follows = ("eer", "eo")

    settings: GroupDroOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.group = torch.zeros(0, dtype=torch.int64)  # of the current samples, (n,)
        self.memory_group = self.group  # (m,)
        self.adjustment = torch.zeros(0)  # C/√n_G, (G,)
        self.q = torch.zeros(0)  # (G,)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the groups, old and new; all of them begin with the same weight."""
        material = super().begin_task(train, buffer)
        parts = [train] if material.memory is None else [train, material.memory]
        keys, group = unique_rows(torch.cat([part.keys(self.by_attribute) for part in parts]))
        self.group, self.memory_group = group[: len(train)], group[len(train) :]
        size = torch.bincount(group, minlength=len(keys)).float()
        self.adjustment = self.settings.size_adjustment / size.sqrt()
        self.q = torch.full_like(size, 1 / len(keys))
        return material

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor:
        """Draw as many current samples as there are, from each group equally many."""
        del epoch, epochs
        there = torch.bincount(self.group, minlength=len(self.q)) > 0
        return draw_by_share(self.group, there, len(self.group), self.generators.method)

    def loss(self, batch: Batch) -> Tensor:
        """Move the weights to the groups with the largest losses, then weigh these."""
        losses = cross_entropy(self.net(batch.x), batch.y, reduction="none")
        group = self.group.index_select(0, batch.rows)
        if batch.memory_rows is not None:
            group = torch.cat([group, self.memory_group.index_select(0, batch.memory_rows)])
        # A product, not a scatter: the same sums in the same order on a GPU as well.
        numbers = torch.arange(len(self.q), device=group.device)
        member = (group == numbers[:, None]).to(losses.dtype)
        count = member.sum(dim=1)
        mean = member @ losses / count.clamp(min=1)
        with torch.no_grad():
            ascent = torch.where(count > 0, mean + self.adjustment, 0)
            q = self.q * torch.exp(self.settings.group_step * ascent)
            q = q / q.sum()
            self.q.copy_(q)  # in place, where a recorded step finds it again
        return q @ mean
