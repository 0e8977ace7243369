"""OCS: each step trains on the part of its batch that suits the batch and the buffer best.

With g_i the gradient of sample i, ḡ their mean and r that of the whole buffer, a sample scores
``cos(g_i, ḡ) − mean_j cos(g_i, g_j) + affinity · cos(g_i, r)``: typical of the batch, unlike the
other samples, and of use for what was learned before. The gradient of the step is put together from
the factors of the gradients that were compared, so it takes no further pass.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from faircil.buffer import ReplayBuffer, large_weight_first
from faircil.learners.base import Learner
from faircil.learners.batch import Batch, Material
from faircil.learners.buffer_gradient import BufferGradient
from faircil.learners.options import Count, NonNegative, TauOptions
from faircil.learners.replay import replay_loss
from faircil.learners.sample_gradients import GradientMeter, SampleGradients, cosines
from faircil.samples import Samples, concatenate
from faircil.threads import many_threads
from faircil.weighting.groups import rows_of_groups, unique_rows

CANDIDATES = 1000  # picks of a task's last epoch that may stay in the buffer


class OcsOptions(TauOptions):
    """Settings of OCS."""

    pick: Count = 32
    """how many samples of each batch are trained on"""
    affinity: NonNegative = 1000.0
    """how much the buffer's gradient counts in the choice; the batch's own counts 1"""
    warm_up: Annotated[int, Field(ge=0)] = 100
    """steps at the start of each task that pick at random"""
    quota: Literal["group", "total"] = "group"
    """how the buffer is divided: buffer_size for each group, or as much as all groups of all tasks
    will need for the tasks so far, equally per task and class (the original rule)"""


class Ocs(Learner):
    """Replay with a choice: of what to train on, and of what may stay."""

    summary = "replay, trained on the part of each batch that suits batch and buffer best"
    source = "Yoon et al. 2022"
    options = OcsOptions
    replays = True
    graphable = False

    settings: OcsOptions
    meter: GradientMeter
    buffer_gradient: BufferGradient | None
    steps: int  # of the task so far
    picks: list[Tensor]  # rows that the steps of the epoch have picked
    sizes: tuple[int, ...] = ()  # how many samples of the buffer are of each task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Get ready to compare gradients."""
        self.meter, old = GradientMeter(self.net, train.x, training=True), buffer.samples
        self.buffer_gradient = None if old is None else BufferGradient(self.meter, old, train)
        self.steps, self.picks = 0, []
        return super().begin_task(train, buffer)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Forget the picks of the epoch before."""
        del epoch, epochs
        self.picks = []

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of plain replay."""
        return replay_loss(self.net(batch.x), batch, self.settings.tau)

    def step(self, batch: Batch) -> None:
        """Pick, and update the net."""
        self.steps += 1
        n, size = len(batch.current), self.settings.pick
        if n <= size or self.steps <= self.settings.warm_up:
            picked = torch.randperm(n, generator=self.generators.method)[:size]
            self._train_on(batch, picked.to(batch.rows.device))
            return
        with many_threads():  # the whole buffer passes through the net
            self._pick_and_train(batch)

    def _pick_and_train(self, batch: Batch) -> None:
        size = self.settings.pick
        new = self.meter.of_samples(batch.current.x, batch.current.y)
        score, old = typicality(new), None
        if self.buffer_gradient is not None:
            old = self.buffer_gradient.measure()
            score += self.settings.affinity * self.buffer_gradient.cosines(old, new, batch.rows)
        picked = score.topk(size).indices
        if self.meter.layers is None:
            self._train_on(batch, picked)
        else:
            self._train_by(batch, picked, new, old)

    def _train_on(self, batch: Batch, picked: Tensor) -> None:
        """Step with a pass of its own."""
        self.picks.append(batch.rows[picked])
        weight = None if batch.weight is None else batch.weight[picked]
        current, rows = batch.current.take(picked), batch.rows[picked]
        super().step(Batch(current, rows, weight, batch.memory, batch.memory_rows))

    def _train_by(
        self, batch: Batch, picked: Tensor, new: SampleGradients, old: SampleGradients | None
    ) -> None:
        """Step by gradients that are known: those of the batch, and of the whole buffer."""
        self.picks.append(batch.rows[picked])
        weight = torch.ones_like(new.norms) if batch.weight is None else batch.weight
        parts = [(new, picked, weight[picked] / len(picked))]
        if old is not None and batch.memory_rows is not None:
            share = old.norms.new_full(batch.memory_rows.shape, self.settings.tau)
            parts.append((old, batch.memory_rows, share / len(share)))
        self.meter.write(parts)
        self.optimizer.step()

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add samples picked in the last epoch, at random; others where these are too few."""
        del weights
        candidate = torch.zeros(len(train), device=train.y.device)
        candidate[torch.cat([train.y[:0], *self.picks])[:CANDIDATES]] = 1
        generator = self.generators.buffer
        if self.settings.quota == "group":
            return buffer.with_task(train, candidate, generator, "large-weight-first")
        outputs, values = self.scores(train.x[:1]).shape[1], unique_rows(train.keys()[:, 1:])[0]
        share = buffer.quota * outputs * len(values) // (len(self.sizes) + 1)
        parts = [train.take(balanced(train.y, large_weight_first(candidate, generator), share))]
        if buffer.samples is not None:
            tasks = torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes))
            tasks = tasks.to(train.y.device)
            earlier = rows_of_groups(tasks, len(self.sizes))
            parts = [self._shrunk(buffer.samples.take(rows), share) for rows in earlier] + parts
        self.sizes = tuple(map(len, parts))
        return ReplayBuffer(buffer.quota, concatenate(parts))

    def _shrunk(self, task: Samples, size: int) -> Samples:
        """Keep what is typical of an earlier task and not alike."""
        score = typicality(self.meter.of_samples(task.x, task.y))
        return task.take(balanced(task.y, torch.argsort(score, descending=True), size))


def typicality(gradients: SampleGradients) -> Tensor:
    """Return ``cos(g_i, ḡ) − mean_j cos(g_i, g_j)`` of n samples, (n,)."""
    gram = gradients.gram()
    each = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return cosines(gram, each, gradients.norms[None]).squeeze(1) - gram.mean(dim=1)


def balanced(y: Tensor, order: Tensor, size: int) -> Tensor:
    """Return the first rows of each class, y (n,), in the given order: ``size`` in equal parts."""
    classes, index = unique_rows(y[order][:, None])
    each = size // len(classes)
    return torch.cat([order[rows[:each]] for rows in rows_of_groups(index, len(classes))])
