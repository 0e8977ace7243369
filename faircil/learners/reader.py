"""Fit a classifier to features that no longer change, on the task and the buffer."""

from __future__ import annotations

import torch
from torch import nn

from faircil.buffer import ReplayBatches
from faircil.learners.batch import Batch
from faircil.learners.replay import replay_loss
from faircil.samples import Samples
from faircil.threads import one_thread

BATCH = 64


def fit_reader(
    reader: nn.Module,
    current: Samples,
    memory: Samples | None,
    generator: torch.Generator,
    *,
    lr: float,
    tau: float,
    passes: int,
) -> None:
    """Pass over the task with Adam, a batch of the buffer beside each of the task's.

    Parameters
    ----------
    reader : Module
        Returns logits; trained from the weights that it has.
    current, memory : Samples, Samples or None
        Features, (n, d) and (m, d), in place of inputs.
    generator : torch.Generator
        Of the order of the samples.
    lr, tau, passes : float, float, int
        Learning rate, weight of the buffer, and how often to pass over the task.
    """
    adam = torch.optim.Adam(reader.parameters(), lr, fused=True)
    replay = None if memory is None else ReplayBatches(memory, BATCH, generator)
    with one_thread():
        for _ in range(passes):
            order = torch.randperm(len(current), generator=generator).to(current.y.device)
            for rows in torch.split(order, BATCH):
                old, old_rows = (None, None) if replay is None else replay.next()
                batch = Batch(current.take(rows), rows, None, old, old_rows)
                adam.zero_grad()
                loss = replay_loss(reader(batch.x), batch, tau)
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
