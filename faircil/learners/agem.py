"""A-GEM: gradients are projected so that the loss of a memory batch does not increase."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.base import Batch, Samples
from faircil.learners.replay import Buffered


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
