"""FairBatch-style sampling: groups with larger losses are drawn more often."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.learners.base import (
    BufferOptions,
    Generators,
    Material,
    Options,
    ReplayBuffer,
    Samples,
    Share,
    concatenate,
    rows_of_groups,
    unique_rows,
)
from faircil.learners.replay import Buffered, draw_by_share


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
