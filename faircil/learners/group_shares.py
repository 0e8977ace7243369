"""Replay whose group shares follow the losses: group-DRO weights groups, FairBatch samples them.

In both, groups with a large loss count more in the following steps.
"""

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
    Share,
    concatenate,
    rows_of_groups,
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

    The maximum is the largest loss of a group, as in the measure ``worst``.
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


class FairBatchOptions(BufferOptions):
    """Settings of FairBatch-style sampling."""

    share_step: Share = 0.01
    """share of a class that moves per epoch from its best to its worst group"""


class FairBatch(Buffered):
    """Minimise the mean loss of batches whose group shares are adapted to the losses.

    The task and the buffer form one pool, and half of each batch comes from each. With an
    attribute, its values have shares λ within each class that sum to 1 and start at their values in
    the pool. At the start of each epoch the mean losses of all groups are measured, and the class
    with the largest difference moves ``share_step`` of λ from its best to its worst group. With two
    values this is the rule for equalized odds, generalised from two to any number of classes.

    Without an attribute the classes are the groups, and share moves between any two of them, old
    or new: the analogue for equal error rates. The halves are then only the starting point. The
    same holds with an attribute if the measure of the run compares classes, as ``eer`` does.

    An epoch draws twice as many samples as the task has. With batches twice as large as usual it
    makes as many steps as replay does.
    """

    options = FairBatchOptions
    follows = ("eer", "eo")

    settings: FairBatchOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.pool: Samples | None = None
        self.count = 0  # rows to draw in an epoch
        self.group = torch.zeros(0, dtype=torch.int64)  # group of each sample of the pool, (n,)
        self.block = torch.zeros(0, dtype=torch.int64)  # groups of a block exchange shares, (G,)
        self.share = torch.zeros(0)  # share of each group in a batch, (G,)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Pool the task with the buffer; initialise the shares, half for each."""
        memory = super().begin_task(train, buffer).memory
        parts = [train] if memory is None else [train, memory]
        self.pool, self.count = concatenate(parts), 2 * len(train)
        old = (torch.arange(len(self.pool), device=train.y.device) >= len(train)).long()
        # A recurring class is a separate block in the buffer.
        kinds = self.pool.keys(self.by_attribute)
        keys, self.group = unique_rows(torch.cat([old[:, None], kinds], dim=1))
        by_value = self.by_attribute and train.z is not None
        columns = 2 if by_value else 0  # a block is a half and class, or everything
        _, self.block = unique_rows(keys[:, :columns])
        half = torch.bincount(old).float()
        self.share = torch.bincount(self.group) / half[keys[:, 0]] / len(parts)
        return Material(self.pool)

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor:
        """Measure the group losses, move a share, and draw the epoch's rows."""
        del epoch, epochs
        self.share = moved(self.share, self._group_losses(), self.block, self.settings.share_step)
        return draw_by_share(self.group, self.share, self.count, self.generators.method)

    def _group_losses(self) -> Tensor:
        """Return the mean loss of each group in the pool, (G,)."""
        assert self.pool is not None  # set by begin_task
        losses = cross_entropy(self.scores(self.pool.x), self.pool.y, reduction="none")
        members = rows_of_groups(self.group, len(self.share))
        return torch.stack([losses[rows].mean() for rows in members])


def moved(share: Tensor, losses: Tensor, block: Tensor, step: float) -> Tensor:
    """Move share from the best to the worst group of the block with the largest difference.

    Parameters
    ----------
    share, losses : Tensor, shape (G,)
    block : Tensor of int64, shape (G,)
        Block of each group, numbered from 0 without gaps.
    step : float
        Amount of the block's share that moves; less if the best group has less.
    """
    inside = block == torch.arange(int(block.max()) + 1, device=block.device)[:, None]
    worst_loss, worst = torch.where(inside, losses, -torch.inf).max(dim=1)
    best_loss, best = torch.where(inside, losses, torch.inf).min(dim=1)
    widest = (worst_loss - best_loss).argmax()
    giving, taking = best[widest], worst[widest]
    amount = torch.minimum(step * share[inside[widest]].sum(), share[giving])
    result = share.clone()
    result[giving] -= amount
    result[taking] += amount
    return result
