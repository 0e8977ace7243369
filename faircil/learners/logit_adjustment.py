"""Logit adjustment on replay: a class is not preferred for being trained on more often."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
from faircil.learners.replay import Replay, replay_loss

NOTHING = 1e-9


class LogitAdjustmentOptions(ReplayOptions):
    """Settings of logit adjustment."""

    adjustment: NonNegative = 1.0
    """how much of the log frequency of the classes is added to the logits in training"""


class LogitAdjustment(Replay):
    """Replay, with ``adjustment · log π`` added to the logits in training and not in prediction.

    π_y is how often class y is trained on. The loss of a step, in expectation, is
    ``Σ_y (n_y/|T|) · E[ℓ | y, T] + τ · Σ_y (m_y/|M|) · E[ℓ | y, M]``, for n_y of the |T| samples
    of the task and m_y of the |M| in the buffer: class y has weight

        ``π_y ∝ n_y/|T| + τ · m_y/|M|``,

    that is, n_y for a new class and τ·|T| over the number of old classes for one of these, if the
    buffer is even. The minimiser of plain cross-entropy has softmax ``∝ π_y · p(x | y)``. With
    log π added it is the adjusted softmax that must be so, so the plain one is ``∝ p(x | y)``: the
    classes as if all were equally frequent. Weights of samples change the frequencies within an
    epoch; they are left out of π.

    A class that was not seen has π = 0: it takes no part in the softmax, and since its logit is
    not trained it is not predicted either.
    """

    options = LogitAdjustmentOptions

    settings: LogitAdjustmentOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        device = next(net.parameters()).device
        self.log_prior = torch.zeros((), device=device)  # (classes,) from the first task on

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Work out how often each class will be trained on."""
        material = super().begin_task(train, buffer)
        classes = self.scores(train.x[:1]).shape[1]
        frequency = _frequency(train.y, classes)
        seen = frequency > 0
        if material.memory is not None:
            replayed = _frequency(material.memory.y, classes)
            frequency, seen = frequency + self.settings.tau * replayed, seen | (replayed > 0)
        # With τ = 0 an old class is seen but weighs nothing: as good as nothing, so that its loss
        # stays finite.
        logs = (frequency / frequency.sum()).clamp(min=NOTHING).log()
        prior = torch.where(seen, self.settings.adjustment * logs, -torch.inf)
        self.log_prior = prior.float()
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Take both batches through the net at once."""
        return replay_loss(self.net(batch.x) + self.log_prior, batch, self.settings.tau)

    def logits(self, x: Tensor) -> Tensor:
        """Return plain logits; −inf for classes that were not seen."""
        return super().logits(x).masked_fill(self.log_prior == -torch.inf, -torch.inf)


def _frequency(labels: Tensor, classes: int) -> Tensor:
    """Return the share of each class among labels, (classes,)."""
    return torch.bincount(labels, minlength=classes).double() / len(labels)
