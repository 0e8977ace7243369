"""Experience replay: the current batch plus τ times a batch of the buffer."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.learners.base import Learner
from faircil.learners.batch import Batch
from faircil.learners.options import BufferOptions, ReplayOptions
from faircil.samples import Samples


class Buffered(Learner):
    """Keeps a part of each group that it has seen."""

    options = BufferOptions
    replays = True

    settings: BufferOptions

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add as many samples of each group as the quota allows, chosen by the rule."""
        rule = self.settings.buffer_rule
        return buffer.with_task(train, weights, self.generators.buffer, rule)


class Replay(Buffered):
    """Minimise ``mean(w · loss of the current batch) + τ · mean(loss of a memory batch)``."""

    summary = "experience replay: current batch + tau · memory batch"
    source = "Chaudhry et al. 2019"
    options = ReplayOptions

    settings: ReplayOptions

    def loss(self, batch: Batch) -> Tensor:
        """Take both batches through the net at once."""
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
