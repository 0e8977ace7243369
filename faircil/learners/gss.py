"""GSS-greedy: a buffer of samples whose gradients point apart, chosen while the task is learned.

After each step every sample of the batch is compared with mini-batches of the pool, the samples
that the task has kept so far. Its score is the largest cosine of its gradient with theirs. While
there is room it enters. Then, if the batch as a whole points against all mini-batches, its samples
may take the places of others, rather of those whose score is large.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from faircil.buffer import ReplayBuffer, large_weight_first
from faircil.learners.base import Learner
from faircil.learners.batch import Batch, Material
from faircil.learners.options import TauOptions
from faircil.learners.pool import Pool
from faircil.learners.replay import replay_loss
from faircil.learners.sample_gradients import GradientMeter, cosines
from faircil.samples import Samples, concatenate
from faircil.weighting.groups import find_groups

FIRST_SCORE = 0.1  # of samples that find the pool empty
GLANCE = 2  # mini-batches that are looked at first: one that points the same way is enough


class GssOptions(TauOptions):
    """Settings of GSS."""

    quota: Literal["group", "task"] = "group"
    """who shares places in the buffer: each group has buffer_size of its own, or the groups of a
    task have as many together, in any proportion (the original rule)"""


class Gss(Learner):
    """Replays earlier tasks, and keeps a pool of the current one."""

    summary = "replay of samples whose gradients point apart"
    source = "Aljundi et al. 2019"
    options = GssOptions
    replays = True
    graphable = False

    settings: GssOptions
    train: Samples
    meter: GradientMeter
    pool: Pool

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Begin with an empty pool."""
        self.train, self.meter = train, GradientMeter(self.net, train.x)
        group = find_groups(train, None, by_attribute=train.z is not None).current
        size = torch.bincount(group)
        if self.settings.quota == "group":
            self.pool = Pool(group, size.clamp(max=buffer.quota))
        else:
            together = size.sum(dim=0, keepdim=True).clamp(max=buffer.quota * len(size))
            self.pool = Pool(torch.zeros_like(group), together)
        return super().begin_task(train, buffer)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of plain replay."""
        return replay_loss(self.net(batch.x), batch, self.settings.tau)

    def step(self, batch: Batch) -> None:
        """Update the net, then the pool."""
        super().step(batch)
        if len(batch.current):
            self._select(batch)

    def _select(self, batch: Batch) -> None:
        enters, competes = self.pool.candidates(batch.rows)
        parts = self._mini_batches(len(batch.current))
        # The batch is against all mini-batches, or else it does not matter against how many.
        if not enters.any() and self._scores(batch, competes, parts[:GLANCE])[1] >= 0:
            return
        scores, whole = self._scores(batch, competes, parts)
        self.pool.enter(batch.rows, enters, scores)
        if whole < 0:
            self.pool.compete(batch.rows, competes, scores, self.generators.method)

    def _mini_batches(self, size: int) -> Tensor:
        """Draw up to 2 · size mini-batches of the pool that share no sample, (k, size)."""
        rows = self.pool.rows
        size = max(1, min(size, len(rows)))
        order = torch.randperm(len(rows), generator=self.generators.method)
        order = order[: min(2 * size, len(rows) // size) * size]
        return rows[order.to(rows.device)].view(-1, size)

    def _scores(self, batch: Batch, competes: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
        """Compare the batch with mini-batches of the pool.

        Parameters
        ----------
        batch : Batch
            b current samples.
        competes : Tensor of bool, shape (b,)
            Those that count as the batch as a whole.
        parts : Tensor of int64, shape (k, size)
            Rows of the mini-batches.

        Returns
        -------
        scores : Tensor, shape (b,)
            The largest cosine of each sample's gradient with the gradient of a mini-batch.
        whole : Tensor, shape ()
            That of the mean gradient of those that compete; 0 if none does.
        """
        b, k = len(competes), len(parts)
        if k == 0:
            scores = batch.current.x.new_full((b,), FIRST_SCORE)
            return scores, scores[0]
        both = concatenate([batch.current, self.train.take(parts.flatten())])
        gradients = self.meter.of_samples(both.x, both.y)
        norms = gradients.norms
        each = torch.eye(b, len(both), dtype=norms.dtype, device=norms.device)
        whole = each.new_zeros(1, len(both))
        whole[0, :b] = competes * norms[:b]
        means = each.new_zeros(k, len(both))
        means[:, b:] = torch.eye(k).to(means).repeat_interleave(parts.shape[1], dim=1) * norms[b:]
        largest = cosines(gradients.gram(), torch.cat([each, whole]), means).amax(dim=1)
        return largest[:b], largest[b]

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add the pool; a place that is still free takes a sample that never came up."""
        del weights
        chosen = torch.zeros(len(train), device=train.y.device)
        chosen[self.pool.rows] = 1
        generator = self.generators.buffer
        if self.settings.quota == "group":
            return buffer.with_task(train, chosen, generator, "large-weight-first")
        rows = large_weight_first(chosen, generator)[: len(self.pool)]
        return buffer.with_samples(train.take(rows))
