"""A-GEM: memory is not trained on; it only keeps a step from undoing what was learned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.base import Batch, Samples
from faircil.learners.replay import Buffered


class AGem(Buffered):
    """Steps along the gradient of the current batch, without what would harm a memory batch."""

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the current samples; of memory if there is none."""
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

        # One after the other: a large net keeps what a backward pass needs of one loss at a time.
        gradient = gradient_of(self.loss(batch))
        reference = gradient_of(self._memory_loss(batch.memory))
        for parameter, part in zip(trained, project(gradient, reference), strict=True):
            parameter.grad = part
        self.optimizer.step()

    def _memory_loss(self, memory: Samples) -> Tensor:
        return cross_entropy(self.net(memory.x), memory.y)


def project(gradient: Sequence[Tensor], reference: Sequence[Tensor]) -> list[Tensor]:
    """Return the vector closest to a gradient that does not point against a reference.

    A step along −g raises the reference's loss, to first order, if ``g·r < 0``. Then g loses its
    part along r: ``g − (g·r / r·r) r``. Nothing is asked of the host, so a GPU need not wait.

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
