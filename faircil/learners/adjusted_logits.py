"""Replay with changed logits in training: ER-ACE omits classes, logit adjustment adds a prior.

Both counteract the effect of many current samples on a few replayed ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from faircil.learners.base import (
    Batch,
    Generators,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    ReplayOptions,
    Samples,
)
from faircil.learners.replay import Replay, SelectsAtTaskStart, replay_loss

NOTHING = 1e-9


class AsymmetricOptions(Options):
    """Settings of replay with an asymmetric cross-entropy."""

    tau: NonNegative = 1.0
    """weight of the replay loss"""


class AsymmetricReplay(SelectsAtTaskStart):
    """Minimise ``mean(w · CE of current, old classes left out) + τ · mean(CE of memory)``.

    In the first term the softmax runs over the classes of the batch and those of no earlier task.
    Only the memory contrasts old classes with new ones, so it must contain current samples during
    the task, including the first task. The original adds samples during training by reservoir
    sampling; here the task's buffer samples are selected at its start. The original's cosine head
    is not used: all methods have the same net.
    """

    options = AsymmetricOptions
    divisible = True

    settings: AsymmetricOptions

    old_classes: Tensor  # int64, on the device of the task

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Store the old classes on the device, so that a step needs no copy from the host."""
        material = super().begin_task(train, buffer)
        self.old_classes = torch.tensor(self.old, dtype=torch.int64, device=train.y.device)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute both terms in one forward pass."""
        new, old = batch.split(self.net(batch.x))
        y = batch.current.y
        left_out = torch.zeros(new.shape[1], dtype=torch.bool, device=y.device)
        left_out = left_out.index_fill(0, self.old_classes, True)
        left_out = left_out.index_fill(0, batch.labels, False)
        losses = cross_entropy(new.masked_fill(left_out, -torch.inf), y, reduction="none")
        loss = batch.weighted_mean(losses)
        if batch.memory is None:
            return loss
        how = "mean" if batch.whole is None else "none"
        replayed = batch.memory_mean(cross_entropy(old, batch.memory.y, reduction=how))
        return loss + self.settings.tau * replayed


class LogitAdjustmentOptions(ReplayOptions):
    """Settings of logit adjustment."""

    adjustment: NonNegative = 1.0
    """factor of the log class frequencies added to the logits in training"""


class LogitAdjustment(Replay):
    """Replay with ``adjustment · log π`` added to the logits in training, not in prediction.

    π_y is the training frequency of class y. The expected loss of a step is
    ``Σ_y (n_y/|T|) · E[ℓ | y, T] + τ · Σ_y (m_y/|M|) · E[ℓ | y, M]``, for n_y of the |T| samples
    of the task and m_y of the |M| in the buffer: class y has weight

        ``π_y ∝ n_y/|T| + τ · m_y/|M|``,

    that is, n_y for a new class and τ·|T| over the number of old classes for an old one, if the
    buffer is balanced. The minimiser of plain cross-entropy has softmax ``∝ π_y · p(x | y)``. With
    log π added this holds for the adjusted softmax, so the plain one is ``∝ p(x | y)``, as if all
    classes were equally frequent. Sample weights change the frequencies within an epoch, but are
    not included in π.

    An unseen class has π = 0: it is excluded from the softmax and is never predicted.
    """

    options = LogitAdjustmentOptions
    divisible = True

    settings: LogitAdjustmentOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        device = next(net.parameters()).device
        self.log_prior = torch.zeros((), device=device)  # (classes,) from the first task on

    def grow(self, classes: int) -> None:
        """Add outputs; new classes have no frequency before their task begins."""
        super().grow(classes)
        if self.log_prior.ndim:
            self.log_prior = pad(self.log_prior, (0, classes - len(self.log_prior)))

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Compute the training frequency of each class."""
        material = super().begin_task(train, buffer)
        classes = self.scores(train.x[:1]).shape[1]
        frequency = _frequency(train.y, classes)
        seen = frequency > 0
        if material.memory is not None:
            replayed = _frequency(material.memory.y, classes)
            frequency, seen = frequency + self.settings.tau * replayed, seen | (replayed > 0)
        # With τ = 0 an old class is seen but has frequency 0, which is clamped so that its loss
        # stays finite.
        logs = (frequency / frequency.sum()).clamp(min=NOTHING).log()
        prior = torch.where(seen, self.settings.adjustment * logs, -torch.inf)
        self.log_prior = prior.float()
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute both terms in one forward pass."""
        return replay_loss(self.net(batch.x) + self.log_prior, batch, self.settings.tau)

    def logits(self, x: Tensor) -> Tensor:
        """Return unadjusted logits; −inf for unseen classes."""
        return super().logits(x).masked_fill(self.log_prior == -torch.inf, -torch.inf)


def _frequency(labels: Tensor, classes: int) -> Tensor:
    """Return the relative frequency of each class among labels, (classes,)."""
    return torch.bincount(labels, minlength=classes).double() / len(labels)
