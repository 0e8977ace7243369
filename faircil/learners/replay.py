"""Fine-tuning, joint training, experience replay, A-GEM, and what replay methods share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBatches
from faircil.compute import one_thread
from faircil.learners.base import (
    Batch,
    BufferOptions,
    Generators,
    Learner,
    Material,
    Options,
    ReplayBuffer,
    ReplayOptions,
    Samples,
    concatenate,
)
from faircil.learners.moments import Moments
from faircil.nets import features_of

BATCH = 64  # of a classifier on fixed features
GOLDEN = (5**0.5 - 1) / 2


class FineTune(Learner):
    """Train on each task in turn, without replay."""

    divisible = True


class Joint(Learner):
    """Train on all data seen so far, starting from the current weights (warm start)."""

    divisible = True
    keeps_inputs = True

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.seen: list[Samples] = []

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Add the task to the data seen so far."""
        super().begin_task(train, buffer)
        self.seen.append(train)
        return Material(concatenate(self.seen))


class Buffered(Learner):
    """Keeps samples of each group in a buffer filled by a rule."""

    options = BufferOptions

    settings: BufferOptions

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add up to ``quota`` samples of each group, chosen by the rule."""
        rule = self.settings.buffer_rule
        features = partial(train.mapped, partial(features_of, self.net))
        return buffer.with_task(train, weights, self.generators.buffer, rule, features)


class Replay(Buffered):
    """Minimise ``mean(w · loss of the current batch) + τ · mean(loss of a memory batch)``.

    With ``predictor=moments``, a ridge head on the buffer's last activations predicts from the end
    of a task until training changes the net; the net's own head is trained as usual.
    """

    options = ReplayOptions
    divisible = True

    settings: ReplayOptions
    fitted: Moments | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start a task, predicting with the head of the net."""
        self.fitted = None
        return super().begin_task(train, buffer)

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Fit the predicting head, unless it is the net's own."""
        if self.settings.predictor == "moments" and buffer.samples is not None:
            self.fitted = Moments.on_activations(self, buffer.samples)

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores of the predicting head."""
        return super().logits(x) if self.fitted is None else self.fitted.logits(x)

    def loss(self, batch: Batch) -> Tensor:
        """Compute both terms in one forward pass."""
        return replay_loss(self.net(batch.x), batch, self.settings.tau)


def replay_loss(logits: Tensor, batch: Batch, tau: float) -> Tensor:
    """Return ``mean(w · CE of the current batch) + τ · mean(CE of the memory batch)``.

    Parameters
    ----------
    logits : Tensor, shape (b + k, classes)
        Of the current samples, then of the replayed ones.
    batch : Batch
    tau : float
    """
    new, old = batch.split(cross_entropy(logits, batch.y, reduction="none"))
    loss = batch.weighted_mean(new)
    return loss if batch.memory is None else tau * batch.memory_mean(old) + loss


class SelectsAtTaskStart(Learner):
    """Selects a task's buffer samples when the task begins instead of when it ends.

    The selection equals the random one that replay makes at the end of the task. It cannot depend
    on weights of the last epoch, so there is no buffer rule to set.
    """

    kept: ReplayBuffer  # including the samples of the current task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Select buffer samples of the task and replay them from the start."""
        material = super().begin_task(train, buffer)
        self.kept = buffer.with_task(train, None, self.generators.buffer)
        return Material(material.current, self.kept.samples)

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Return the buffer selected at the start of the task."""
        del train, weights, buffer
        return self.kept


def draw_by_share(group: Tensor, shares: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw rows with replacement: first a group by its share, then one of its rows.

    Multiples of the golden ratio, modulo 1, are a low-discrepancy sequence: of *any* k consecutive
    ones, a subinterval of length s contains k·s, plus or minus one or two. With the unit interval
    divided by the shares, every batch has its share of every group for any batch size.
    Independent draws would deviate by about √(k·s).

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        Group of each row.
    shares : Tensor, shape (G,)
        Shares of the groups, at least 0, up to a common factor; a group with a positive share has
        at least one row.
    count : int
        Rows to draw.
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of int64, shape (count,)
    """
    device = group.device
    chance = torch.rand(1 + count, generator=generator, dtype=torch.float64).to(device)
    steps = GOLDEN * torch.arange(count, dtype=torch.float64, device=device)
    ends = shares.to(torch.float64).cumsum(0)
    # right=True: a share of 0 is an empty interval that is never hit.
    drawn = torch.searchsorted(ends / ends[-1], (chance[0] + steps) % 1, right=True)
    size = torch.bincount(group, minlength=len(shares))
    place = (size.cumsum(0) - size)[drawn] + (chance[1:] * size[drawn]).long()
    return torch.argsort(group, stable=True)[place]


class AGem(Buffered):
    """Follows the gradient of the current batch, projected against that of a memory batch."""

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the current samples; of the memory if there are none."""
        if len(batch.current) or batch.memory is None:
            return super().loss(batch)
        return self._memory_loss(batch.memory)

    def step(self, batch: Batch) -> None:
        """Update the net along the projected gradient."""
        if len(batch.current) == 0 or batch.memory is None:
            super().step(batch)
            return
        self.net.train()
        trained = [p for p in self.net.parameters() if p.requires_grad]

        def gradient_of(loss: Tensor) -> tuple[Tensor, ...]:
            return torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True)

        # One after the other: a large net then stores the activations of one loss at a time.
        gradient = gradient_of(self.loss(batch))
        reference = gradient_of(self._memory_loss(batch.memory))
        for parameter, part in zip(trained, project(gradient, reference), strict=True):
            parameter.grad = part
        self.optimizer.step()

    def _memory_loss(self, memory: Samples) -> Tensor:
        return cross_entropy(self.net(memory.x), memory.y)


def project(gradient: Sequence[Tensor], reference: Sequence[Tensor]) -> list[Tensor]:
    """Return the vector closest to a gradient that has a nonnegative product with a reference.

    A step along −g raises the reference's loss, to first order, if ``g·r < 0``. Then the
    component of g along r is removed: ``g − (g·r / r·r) r``. There is no host synchronisation.

    Parameters
    ----------
    gradient, reference : sequence of Tensor
        g and r, parameter by parameter.
    """
    inner, square = (
        torch.stack([torch.sum(one * r) for one, r in zip(ones, reference, strict=True)]).sum()
        for ones in (gradient, reference)
    )
    share = torch.where(inner < 0, inner / square, 0.0)
    return [g - share * r for g, r in zip(gradient, reference, strict=True)]


def fit_classifier(
    classifier: nn.Module,
    current: Samples,
    memory: Samples | None,
    generator: torch.Generator,
    *,
    lr: float,
    tau: float,
    passes: int,
) -> None:
    """Train the classifier on the task with Adam, with a memory batch for each current batch.

    Parameters
    ----------
    classifier : Module
        Returns logits; training starts from its current weights.
    current, memory : Samples, Samples or None
        Features, (n, d) and (m, d), in place of inputs.
    generator : torch.Generator
        For the order of the samples.
    lr, tau, passes : float, float, int
        Learning rate, weight of the buffer, and number of passes over the task.
    """
    adam = torch.optim.Adam(classifier.parameters(), lr, fused=True)
    replay = None if memory is None else ReplayBatches(memory, BATCH, generator)
    with one_thread():
        for _ in range(passes):
            order = torch.randperm(len(current), generator=generator).to(current.y.device)
            for rows in torch.split(order, BATCH):
                old, old_rows = (None, None) if replay is None else replay.next()
                batch = Batch(current.take(rows), rows, None, old, old_rows)
                adam.zero_grad()
                loss = replay_loss(classifier(batch.x), batch, tau)
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()


def in_turn(group: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows in random order such that groups take turns, skipping exhausted groups.

    The first m rows equal those that remain if random rows of the largest group are removed until m
    are left.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of int64, shape (n,)
    """
    order = torch.randperm(len(group), generator=generator).to(group.device)
    # Number the rows of each group in this order; rows numbered 0 come first, and so on.
    by_group = order[torch.argsort(group[order], stable=True)]
    count = torch.bincount(group)
    number = torch.empty_like(group)
    each = torch.arange(len(group), device=group.device)
    number[by_group] = each - (count.cumsum(0) - count)[group[by_group]]
    return order[torch.argsort(number[order], stable=True)]
