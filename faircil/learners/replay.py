"""Experience replay: the current batch plus τ times a batch of the buffer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.base import Learner, weighted_mean
from faircil.samples import Samples


class Replay(Learner):
    """Minimise ``mean(w · loss of the current batch) + τ · mean(loss of a memory batch)``."""

    summary = "experience replay: current batch + tau · memory batch"
    replays = True

    def loss(self, current: Samples, weight: Tensor | None, memory: Samples | None) -> Tensor:
        """Take both batches through the net at once."""
        if memory is None:
            return super().loss(current, weight, memory)
        logits = self.net(torch.cat([current.x, memory.x]))
        losses = cross_entropy(logits, torch.cat([current.y, memory.y]), reduction="none")
        new, old = losses[: len(current)], losses[len(current) :]
        replay = self.settings.tau * old.mean()
        return replay + weighted_mean(new, weight) if len(current) else replay
