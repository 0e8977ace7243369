"""GSS-greedy: a buffer of samples with diverse gradients, selected during training.

After each step, every sample of the batch is compared with mini-batches of the pool, which holds
the samples of the task kept so far. Its score is the maximum cosine of its gradient with theirs.
Samples enter while the pool has room. Once it is full, and if the batch gradient has a negative
cosine with all mini-batches, samples of the batch may replace others, preferably those with a large
score. Gradients are those of all layers; if a text encoder is trained, those of the last layer.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from faircil.buffer import large_weight_first
from faircil.learners.base import (
    Batch,
    Learner,
    Material,
    ReplayBuffer,
    Samples,
    TauOptions,
    concatenate,
)
from faircil.learners.gradients import GradientMeter, cosines, meter_of
from faircil.learners.replay import replay_loss
from faircil.weighting.groups import find_groups

MARGIN = 0.01  # keeps probabilities below 1, and defined if all scores are equal
LAST = 2.0  # larger than any random number
FIRST_SCORE = 0.1  # of samples that enter an empty pool
GLANCE = 2  # mini-batches compared first, since one with a nonnegative cosine is decisive


class Pool:
    """Slots for samples of one task, sorted by group.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        The group of each sample of the task, one of G.
    places : Tensor of int64, shape (G,)
        Number of slots of each group; P in total.
    """

    def __init__(self, group: Tensor, places: Tensor) -> None:
        self._group, self._places = group, places
        self._first = places.cumsum(0) - places
        self._taken = torch.zeros_like(places)
        self._owner = torch.repeat_interleave(places)
        # Each with one spare slot.
        self._row = self._owner.new_full((len(self._owner) + 1,), -1)
        self._score = torch.zeros(len(self._owner) + 1, device=group.device)
        self._inside = torch.zeros(len(group) + 1, dtype=torch.bool, device=group.device)

    def __len__(self) -> int:
        """Return the number of slots P, free or occupied."""
        return len(self._owner)

    @property
    def filled(self) -> Tensor:
        """Whether each slot is occupied, (P,)."""
        return self._row[:-1] >= 0

    @property
    def rows(self) -> Tensor:
        """Rows of the samples in the pool."""
        return self._row[:-1][self.filled]

    @property
    def scores(self) -> Tensor:
        """Scores of the samples in the pool."""
        return self._score[:-1][self.filled]

    def shuffled(self, noise: Tensor) -> Tensor:
        """Return the rows in all slots, (P,), ordered by noise in [0, 1); free slots, −1, last."""
        return self._row[torch.argsort(torch.where(self.filled, noise, LAST))]

    def candidates(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return which samples, (b,), get a free slot, and which compete for an occupied one.

        Returns
        -------
        enters, competes : Tensor of bool, shape (b,)
            Both are false for a sample that is in the pool.
        """
        new = ~self._inside[rows]
        free = self._rank(rows, new) < (self._places - self._taken)[self._group[rows]]
        return new & free, new & ~free

    def enter(self, rows: Tensor, enters: Tensor, scores: Tensor) -> None:
        """Put samples into free slots, given rows, a mask and scores, (b,) each."""
        group = self._group[rows]
        place = (self._first + self._taken)[group] + self._rank(rows, enters)
        self._put(place, enters, rows, scores)
        self._taken.index_add_(0, group, enters.to(self._taken))

    def compete(self, rows: Tensor, competes: Tensor, scores: Tensor, noise: Tensor) -> None:
        """Replace samples of the same group at random.

        Each sample draws a slot, without replacement, with probability proportional to the score
        there minus the smallest score of the group. The larger the score there is relative to its
        own, the more likely it takes the slot.

        Parameters
        ----------
        rows, competes, scores : Tensor, shape (b,)
            Rows, mask and scores of the samples; their groups have no free slot.
        noise : Tensor, shape (P + b,)
            Uniform in [0, 1).
        """
        group, rank = self._group[rows], self._rank(rows, competes)
        score = self._score[:-1]
        none = score.new_zeros(len(self._places))
        low, high = (
            none.scatter_reduce(0, self._owner, score, end, include_self=False)
            for end in ("amin", "amax")
        )
        chance = (score - low[self._owner]) / (high - low + MARGIN)[self._owner]
        wait, draw = noise[: len(self)], noise[len(self) :]
        # Decreasing chance/E, with E exponential, is an order of draws without replacement.
        key = chance / -torch.log1p(-wait).clamp(max=-1e-30)
        order = torch.argsort(key, descending=True)
        order = order[torch.argsort(self._owner[order], stable=True)]
        competes = competes & (rank < self._places[group])
        place = order[torch.where(competes, self._first[group] + rank, 0)]
        there, own = score[place] + 1, scores + 1
        wins = competes & (key[place] > 0) & (draw * (there + own) < there)
        self._inside.index_fill_(0, torch.where(wins, self._row[place], len(self._group)), False)
        self._put(place, wins, rows, scores)

    def _rank(self, rows: Tensor, which: Tensor) -> Tensor:
        """Count, for each sample, the masked samples of its group before it, (b,)."""
        group = self._group[rows]
        numbers = torch.arange(len(self._places), device=group.device)
        among = ((group[:, None] == numbers) & which[:, None]).long()
        return among.cumsum(0).gather(1, group[:, None]).squeeze(1) - which.long()

    def _put(self, place: Tensor, which: Tensor, rows: Tensor, scores: Tensor) -> None:
        place = torch.where(which, place, len(self))
        self._inside.index_fill_(0, torch.where(which, rows, len(self._group)), True)
        self._row[place] = rows
        self._score[place] = scores


class GssOptions(TauOptions):
    """Settings of GSS."""

    quota: Literal["group", "task"] = "group"
    """how the buffer is divided: group, buffer_size samples for each group; task, the same total
    shared by the groups of a task in any proportion (the original rule)"""


class Gss(Learner):
    """Replays earlier tasks and selects a pool of samples of the current one."""

    options = GssOptions

    settings: GssOptions
    train: Samples
    meter: GradientMeter
    pool: Pool

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start with an empty pool."""
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
        """Return the number of draws: an order of the pool and the competition."""
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
        # Samples compete only if the cosines with all mini-batches are negative, so a single other
        # cosine is decisive. On a GPU, this early exit would make the host wait.
        if not (batch.noise.is_cuda or enters.any()):
            _, whole = self._scores(batch, competes, parts[:GLANCE])
            if whole >= 0:
                return
        scores, whole = self._scores(batch, competes, parts)
        self.pool.enter(batch.rows, enters, scores)
        self.pool.compete(batch.rows, competes & (whole < 0), scores, chances)

    def _mini_batches(self, size: int, order: Tensor) -> Tensor:
        """Draw up to 2 · size disjoint mini-batches of the pool, (k, size); −1: no sample.

        They are complete, except the first if the pool has fewer samples.
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
            Samples that make up the batch gradient.
        parts : Tensor of int64, shape (k, size)
            Rows of the mini-batches; −1: no sample.

        Returns
        -------
        scores : Tensor, shape (b,)
            The maximum cosine of each sample's gradient with the gradient of a mini-batch.
        whole : Tensor, shape ()
            The same for the mean gradient of the competing samples; 0 if there are none.
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
        """Add the pool; free slots are filled with samples that were not selected."""
        del weights
        chosen = torch.zeros(len(train), device=train.y.device)
        chosen[self.pool.rows] = 1
        generator = self.generators.buffer
        if self.settings.quota == "group":
            return buffer.with_task(train, chosen, generator, "large-weight-first")
        rows = large_weight_first(chosen, generator)[: len(self.pool)]
        return buffer.with_samples(train.take(rows))
