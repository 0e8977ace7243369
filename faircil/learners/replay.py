"""Fine-tuning, joint training, experience replay, and base classes of replay methods."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

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

GOLDEN = (5**0.5 - 1) / 2


class FineTune(Learner):
    """Train on each task in turn, without replay."""


class Joint(Learner):
    """Train on all data seen so far, starting from the current weights (warm start)."""

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
        return buffer.with_task(
            train, weights, self.generators.buffer, rule, lambda: features_of(self.net, train.x)
        )


class Replay(Buffered):
    """Minimise ``mean(w · loss of the current batch) + τ · mean(loss of a memory batch)``.

    With ``predictor=moments``, a ridge head on the buffer's last activations predicts from the end
    of a task until training changes the net; the net's own head is trained as ever.
    """

    options = ReplayOptions

    settings: ReplayOptions
    fitted: Moments | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start a task, with the scores of the net."""
        self.fitted = None
        return super().begin_task(train, buffer)

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Fit the head that predicts, if it is not that of the net."""
        if self.settings.predictor == "moments" and buffer.samples is not None:
            self.fitted = Moments.on_activations(self, buffer.samples)

    def logits(self, x: Tensor) -> Tensor:
        """Return scores of the head that predicts."""
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
    return loss if batch.memory is None else tau * old.mean() + loss


class SelectsAtTaskStart(Learner):
    """Selects the task's buffer samples when the task begins instead of when it ends.

    The selection equals the random one that replay makes at the end of the task.
    It cannot depend on the weights of the last epoch, so there is no buffer rule to set.
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
