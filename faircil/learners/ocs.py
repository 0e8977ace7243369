"""OCS: each step trains on a coreset of its batch, selected by gradient similarity.

With g_i the gradient of sample i, ḡ their mean and r that of the whole buffer, a sample scores
``cos(g_i, ḡ) − mean_j cos(g_i, g_j) + affinity · cos(g_i, r)``: high if it is representative of the
batch, diverse, and aligned with earlier tasks. The gradient of the step is assembled from the
factors of the compared gradients, without another pass. If a text encoder is trained, only
last-layer gradients are compared, and the step needs a separate pass.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from faircil.buffer import large_weight_first
from faircil.learners.base import (
    Batch,
    Count,
    Learner,
    Material,
    Natural,
    NonNegative,
    ReplayBuffer,
    Samples,
    TauOptions,
    concatenate,
    rows_of_groups,
    unique_rows,
)
from faircil.learners.gradients import (
    BufferGradient,
    GradientMeter,
    SampleGradients,
    cosines,
    meter_of,
)
from faircil.learners.replay import replay_loss

CANDIDATES = 1000  # selected samples of a task's last epoch that may enter the buffer


class OcsOptions(TauOptions):
    """Settings of OCS."""

    pick: Count = 32
    """number of samples selected from each batch"""
    affinity: NonNegative = 1000.0
    """weight of the buffer's gradient in the selection score; the batch's own has weight 1"""
    warm_up: Natural = 100
    """steps at the start of each task that select at random"""
    quota: Literal["group", "total"] = "group"
    """how the buffer is divided: group, buffer_size samples for each group; total, the size that
    all groups of all tasks need, shared equally by the tasks and classes so far (original rule)"""


class Ocs(Learner):
    """Replay with selection of the samples to train on and to keep."""

    options = OcsOptions

    settings: OcsOptions
    meter: GradientMeter
    buffer_gradient: BufferGradient | None
    steps: Tensor  # number of steps of the task so far, on the net's device
    picked: Tensor  # rows selected in the epoch, and a spare slot
    count: Tensor  # number of selected rows
    sizes: tuple[int, ...] = ()  # number of buffer samples of each task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Prepare the gradient comparison."""
        self.meter, old = meter_of(self.net, train.x, training=True), buffer.samples
        self.buffer_gradient = None if old is None else BufferGradient(self.meter, old, train)
        self.steps, self.count = train.y.new_zeros(()), train.y.new_zeros(())
        self.picked = train.y.new_zeros(CANDIDATES + 1)
        return super().begin_task(train, buffer)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Discard the selection of the previous epoch."""
        del epoch, epochs
        self.count.zero_()

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of plain replay."""
        return replay_loss(self.net(batch.x), batch, self.settings.tau)

    @property
    def picks(self) -> Tensor:
        """Rows selected in the epoch, up to the limit."""
        return self.picked[: min(int(self.count), CANDIDATES)]

    def draws_for(self, batch: Batch) -> int | None:
        """Return the batch size, as the batch is ordered at random."""
        return len(batch.current)

    def step(self, batch: Batch) -> None:
        """Select samples and update the net."""
        batch, size = self.prepared(batch), self.settings.pick
        assert batch.noise is not None
        self.steps += 1
        small = len(batch.current) <= size
        # On a GPU the host does not wait for the step number, so scores are computed even if they
        # are not needed.
        if small or not (batch.noise.is_cuda or self.steps > self.settings.warm_up):
            self._train_on(batch, torch.argsort(batch.noise)[:size])
            return
        self._pick_and_train(batch, batch.noise)

    def _pick_and_train(self, batch: Batch, noise: Tensor) -> None:
        new = self.meter.of_samples(batch.current.x, batch.current.y)
        score, old = typicality(new), None
        if self.buffer_gradient is not None:
            old = self.buffer_gradient.measure()
            score += self.settings.affinity * self.buffer_gradient.cosines(old, new, batch.rows)
        score = torch.where(self.steps > self.settings.warm_up, score, -noise)
        picked = score.topk(self.settings.pick).indices
        if self.meter.layers is None:
            self._train_on(batch, picked)
        else:
            self._train_by(batch, picked, new, old)

    def _note(self, rows: Tensor) -> None:
        """Record the selected rows; once the limit is reached, in the spare slot."""
        place = self.count + torch.arange(len(rows), device=rows.device)
        self.picked[place.clamp(max=CANDIDATES)] = rows
        self.count += len(rows)

    def _train_on(self, batch: Batch, picked: Tensor) -> None:
        """Update with a separate forward and backward pass."""
        rows = batch.rows[picked]
        self._note(rows)
        weight = None if batch.weight is None else batch.weight[picked]
        current = batch.current.take(picked)
        super().step(Batch(current, rows, weight, batch.memory, batch.memory_rows))

    def _train_by(
        self, batch: Batch, picked: Tensor, new: SampleGradients, old: SampleGradients | None
    ) -> None:
        """Update with gradients already computed, of the batch and of the whole buffer."""
        self._note(batch.rows[picked])
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
        """Add random samples from those selected in the last epoch; others if these are too few."""
        del weights
        candidate = torch.zeros(len(train), device=train.y.device)
        candidate[self.picks] = 1
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
        """Keep representative and diverse samples of an earlier task."""
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
