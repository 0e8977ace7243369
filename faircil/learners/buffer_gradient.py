"""The gradient of a whole buffer, and how the gradients of a task's samples lie to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.learners.sample_gradients import GradientMeter, SampleGradients
from faircil.samples import Samples


@dataclass(frozen=True)
class InputProducts:
    """Products ``h̃_i·h̃_j`` of the inputs of a layer that do not change while the net trains.

    Parameters
    ----------
    cross : Tensor, shape (n, m)
        Of the task's samples with those of the buffer.
    within : Tensor, shape (m, m)
        Of those of the buffer.
    """

    cross: Tensor
    within: Tensor


class BufferGradient:
    """Compares n samples of a task with the sum ``r = Σ_j g_j`` of the gradients of a buffer.

    In a layer, ``⟨g_i, r⟩ = δ_iᵀ R h̃_i`` and ``‖r‖ = ‖R‖`` with the matrix ``R = Σ_j δ_j h̃_jᵀ``, or
    ``Σ_j (δ_i·δ_j)(h̃_i·h̃_j)`` and ``Σ_jk (δ_j·δ_k)(h̃_j·h̃_k)``. The first layer of most nets sees
    the samples themselves: its products of inputs are made once, which saves the largest matrix.

    Parameters
    ----------
    meter : GradientMeter
    memory : Samples
        m of them.
    current : Samples
        Training data of the task, n of them.
    """

    def __init__(self, meter: GradientMeter, memory: Samples, current: Samples) -> None:
        self._meter, self._memory = meter, memory
        self._products = tuple(
            InputProducts(current.x.flatten(1) @ h.T + bias, h @ h.T + bias)
            if self._unchanging(h)
            else None
            for _, h, bias in self.measure()
        )

    def _unchanging(self, h: Tensor) -> bool:
        """Whether the input of a layer, (m, in), is the samples themselves, and m is small."""
        x = self._memory.x
        same = h.data_ptr() == x.data_ptr() and h.shape == (len(x), x[0].numel())
        return same and 2 * len(x) < h.shape[1]  # then products are smaller than the data

    def measure(self) -> SampleGradients:
        """Return the gradients of the buffer with the net as it is; or one row, their sum."""
        return self._meter.of_sum(self._memory.x, self._memory.y)

    def cosines(self, memory: SampleGradients, batch: SampleGradients, rows: Tensor) -> Tensor:
        """Return ``cos(g_i, r)``, (b,), of b samples; 0 where a gradient vanishes.

        Parameters
        ----------
        memory : SampleGradients
            What :meth:`measure` gave.
        batch : SampleGradients
            Of the b samples.
        rows : Tensor of int64, shape (b,)
            Their rows in the task.
        """
        # Only the direction of r matters: with 1 as the largest norm no square underflows.
        share = (memory.norms / memory.norms.max().clamp(min=1e-37))[:, None]
        inner, square = batch.norms.new_zeros(len(rows)), batch.norms.new_zeros(())
        for (delta, h, bias), (old_delta, old_h, _), products in zip(
            batch, memory, self._products, strict=True
        ):
            old_delta = old_delta * share
            if products is not None:
                cross = products.cross.index_select(0, rows)
                inner += torch.linalg.vecdot(delta @ old_delta.T, cross)
                # By rows first: a sum over all would depend on the number of threads.
                square += torch.linalg.vecdot(old_delta @ old_delta.T, products.within).sum()
                continue
            matrix = old_delta.T @ old_h
            inner += torch.linalg.vecdot(h @ matrix.T, delta)
            square += matrix.square().sum(dim=1).sum()
            if bias:
                column = old_delta.sum(dim=0)
                inner += delta @ column
                square += column.square().sum()
        return torch.where(square <= 0, 0.0, inner / square.clamp(min=0).sqrt())
