"""GSS-greedy: a buffer of samples whose gradients point apart, chosen while the task is learned.

After each step every sample of the batch is compared with mini-batches of the pool, the samples
that the task has kept so far. Its score is the largest cosine of its gradient with theirs. While
there is room it enters. Then, if the batch as a whole points against all mini-batches, its samples
may take the places of others, rather of those whose score is large. Gradients are those of all
layers; of the last one where an encoder of texts is trained.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from faircil.buffer import ReplayBuffer, large_weight_first
from faircil.learners.base import Learner
from faircil.learners.batch import Batch, Material
from faircil.learners.head_gradients import meter_of
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

    settings: GssOptions
    train: Samples
    meter: GradientMeter
    pool: Pool

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Begin with an empty pool."""
        self.train, self.meter = train, meter_of(self.net, train.x)
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

    def draws_for(self, batch: Batch) -> int | None:
        """Return what a step needs: an order of the pool, and the luck of those who compete."""
        return 2 * len(self.pool) + len(batch.current) if len(batch.current) else None

    def step(self, batch: Batch) -> None:
        """Update the net, then the pool."""
        super().step(batch)
        if len(batch.current):
            self._select(self.prepared(batch))

    def _select(self, batch: Batch) -> None:
        assert batch.noise is not None
        order, chances = batch.noise[: len(self.pool)], batch.noise[len(self.pool) :]
        enters, competes = self.pool.candidates(batch.rows)
        parts = self._mini_batches(len(batch.current), order)
        # The batch is against all mini-batches, or else it does not matter against how many. The
        # host of a GPU does not wait to know.
        if not (batch.noise.is_cuda or enters.any()):
            _, whole = self._scores(batch, competes, parts[:GLANCE])
            if whole >= 0:
                return
        scores, whole = self._scores(batch, competes, parts)
        self.pool.enter(batch.rows, enters, scores)
        self.pool.compete(batch.rows, competes & (whole < 0), scores, chances)

    def _mini_batches(self, size: int, order: Tensor) -> Tensor:
        """Draw up to 2 · size mini-batches of the pool that share no sample, (k, size); −1: none.

        They are complete, but for the first where the pool has fewer samples.
        """
        size = max(1, min(size, len(self.pool)))
        rows = self.pool.shuffled(order)
        parts = rows[: min(2 * size, len(rows) // size) * size].view(-1, size)
        complete = (parts >= 0).all(dim=1, keepdim=True)
        complete[:1] = True
        return torch.where(complete, parts, -1)

    def _scores(self, batch: Batch, competes: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
        """Compare the batch with mini-batches of the pool.

        Parameters
        ----------
        batch : Batch
            b current samples.
        competes : Tensor of bool, shape (b,)
            Those that count as the batch as a whole.
        parts : Tensor of int64, shape (k, size)
            Rows of the mini-batches; −1: none.

        Returns
        -------
        scores : Tensor, shape (b,)
            The largest cosine of each sample's gradient with the gradient of a mini-batch.
        whole : Tensor, shape ()
            That of the mean gradient of those that compete; 0 if none does.
        """
        b, (k, size) = len(competes), parts.shape
        there = parts >= 0
        both = concatenate([batch.current, self.train.take(parts.clamp(min=0).flatten())])
        gradients = self.meter.of_samples(both.x, both.y)
        norms = gradients.norms
        each = torch.eye(b, len(both), dtype=norms.dtype, device=norms.device)
        whole = each.new_zeros(1, len(both))
        whole[0, :b] = competes * norms[:b]
        means = each.new_zeros(k, len(both))
        block = torch.eye(k, dtype=norms.dtype, device=norms.device).repeat_interleave(size, dim=1)
        means[:, b:] = block * (there.flatten() * norms[b:])
        found = cosines(gradients.gram(), torch.cat([each, whole]), means)
        largest = torch.where(there.any(dim=1), found, -1.0).amax(dim=1)
        largest = torch.where(there.any(), largest, FIRST_SCORE)
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
