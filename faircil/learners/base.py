"""What every learner does: begin a task, step, end the task, predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.samples import Samples
from faircil.threads import chunk_size, map_chunks, thread_safe


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of the update.

    Parameters
    ----------
    lr, momentum : float
        Of SGD.
    tau : float
        Weight of the replay loss.
    """

    lr: float
    momentum: float = 0.9
    tau: float = 1.0


class Learner:
    """Trains on the current task alone; replay methods override :meth:`loss`.

    Parameters
    ----------
    net : Module
        Returns logits over all classes, seen or not.
    settings : LearnerSettings
    """

    summary: ClassVar[str] = ""
    replays: ClassVar[bool] = False  # whether it needs a replay buffer
    graphable: ClassVar[bool] = True  # a step is the same kernels for every batch of a shape
    no_weighting: ClassVar[str | None] = None  # why current samples cannot be weighted

    def __init__(self, net: nn.Module, settings: LearnerSettings) -> None:
        self.net = net
        self.settings = settings
        self.optimizer = self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            self.net.parameters(),
            lr=self.settings.lr,
            momentum=self.settings.momentum,
            fused=True,
        )

    def begin_task(self, train: Samples) -> Samples:
        """Start a task with a fresh optimizer; return the samples to train on."""
        self.optimizer = self._new_optimizer()
        return train

    def loss(self, current: Samples, weight: Tensor | None, memory: Samples | None) -> Tensor:
        """Return the loss of one step.

        Parameters
        ----------
        current : Samples
            A batch of the current task, b samples; may be empty where there is memory.
        weight : Tensor, shape (b,), or None
            Weights of these samples; None: all 1.
        memory : Samples or None
            A batch of the replay buffer.
        """
        del memory
        losses = cross_entropy(self.net(current.x), current.y, reduction="none")
        return weighted_mean(losses, weight)

    def step(self, current: Samples, weight: Tensor | None, memory: Samples | None) -> None:
        """Update the net once: one forward and one backward pass."""
        self.net.train()
        self.optimizer.zero_grad()
        self.loss(current, weight, memory).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def end_task(self) -> None:
        """Do what the method does after a task's last epoch, before the net is evaluated."""

    def predict(self, x: Tensor) -> Tensor:
        """Return the predicted class, (n,), of inputs (n, ...)."""
        self.net.eval()

        def classes(rows: slice) -> Tensor:
            found: Tensor = self.net(x[rows]).argmax(dim=1)
            return found

        with torch.inference_mode():
            size, threads = chunk_size(x.device), thread_safe(self.net)
            parts = map_chunks(classes, len(x), size, threads=threads)
        return torch.cat([torch.zeros(0, dtype=torch.int64, device=x.device), *parts])


def weighted_mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """Return ``mean(w · loss)``: the mean is over the batch, whatever its weights add up to."""
    return losses.mean() if weight is None else (weight * losses).mean()
