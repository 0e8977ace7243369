"""What a learner is given: the material of a task, and a batch of it for each step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.samples import Samples


@dataclass(frozen=True)
class Material:
    """What the steps of a task draw their batches from.

    Parameters
    ----------
    current : Samples
        The samples that an epoch passes through, n.
    memory : Samples or None
        The samples that are replayed beside them, m.
    """

    current: Samples
    memory: Samples | None = None


@dataclass(frozen=True)
class Batch:
    """What one step trains on.

    Parameters
    ----------
    current : Samples
        b samples; may be none where there is memory.
    rows : Tensor of int64, shape (b,)
        Their rows in the material, to look up what was prepared for them.
    weight : Tensor, shape (b,), or None
        Their weights; None: all 1.
    memory : Samples or None
        k replayed samples.
    memory_rows : Tensor of int64, shape (k,), or None
        Their rows in the material's memory.
    noise : Tensor or None
        Random numbers that the learner has drawn for the step, see ``Learner.prepared``.
    """

    current: Samples
    rows: Tensor
    weight: Tensor | None = None
    memory: Samples | None = None
    memory_rows: Tensor | None = None
    noise: Tensor | None = None

    @property
    def x(self) -> Tensor:
        """Inputs of the current samples, then of the replayed ones, (b + k, ...)."""
        return self.current.x if self.memory is None else torch.cat([self.current.x, self.memory.x])

    @property
    def y(self) -> Tensor:
        """Classes of the current samples, then of the replayed ones, (b + k,)."""
        return self.current.y if self.memory is None else torch.cat([self.current.y, self.memory.y])

    def split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Part values of ``x``, (b + k, ...), into those of current and of replayed samples."""
        return values[: len(self.current)], values[len(self.current) :]

    def weighted_mean(self, losses: Tensor) -> Tensor:
        """Return ``mean(w · loss)`` of losses of the current samples, (b,); 0 if there is none.

        The mean is over the batch, whatever its weights add up to.
        """
        if len(losses) == 0:
            return losses.sum()
        return losses.mean() if self.weight is None else (self.weight * losses).mean()
