"""GDumb: train a new net on the buffer alone."""

from __future__ import annotations

from copy import deepcopy
from math import cos, frexp, pi

import torch
from torch import nn

from faircil.learners.base import Material, Options, Positive, ReplayBuffer, Samples
from faircil.learners.replay import SelectsAtTaskStart
from faircil.nets import seeded, traits_of

WARM_UP = 0.1  # factor of the learning rate in the first epoch


class DumbOptions(Options):
    """Settings of training on the buffer alone."""

    lr: Positive = 0.01
    """largest learning rate of SGD; it decays to min_lr and restarts, in cycles of increasing
    length"""
    min_lr: Positive = 0.0005
    """smallest learning rate"""


class Dumb(SelectsAtTaskStart):
    """Train a new net on the buffer, the current task's part included.

    It ignores all other samples of a task, so it is the baseline that shows their value. The first
    task starts from the initial weights of all methods.
    """

    options = DumbOptions
    graphable = False  # a graph would keep the recorded learning rate

    settings: DumbOptions

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start with new weights and the buffer as the only data."""
        if self.old or self.new:
            reset(self.net, int(torch.randint(2**62, (), generator=self.generators.method)))
        super().begin_task(train, buffer)
        assert self.kept.samples is not None
        return Material(self.kept.samples)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Set the learning rate of the epoch."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate(epoch, epochs, self.settings.lr, self.settings.min_lr)


def rate(epoch: int, epochs: int, largest: float, smallest: float) -> float:
    """Return the learning rate of epoch 1, 2, … of ``epochs``: a cosine with warm restarts.

    After one warm-up epoch, each cycle is twice as long as the previous one, and the last cycle
    ends with the task. With 256 epochs the lengths are the original's 1, 2, 4, …, 128; with another
    number of epochs the cycles start at one half of it, one quarter, and so on.
    """
    if epoch == 1:
        return WARM_UP * largest
    # (epoch − 1)/epochs = m · 2^e with m in [½, 1): e is the cycle and m the position in it.
    place = 2 * frexp((epoch - 1) / epochs)[0] - 1
    return smallest + (largest - smallest) * (1 + cos(pi * place)) / 2


def reset(net: nn.Module, seed: int) -> None:
    """Reinitialise all layers in place, with weights drawn from the seed.

    Weights are drawn on the CPU, so that they are the same on every device; the global generator is
    not changed. A net that does not start from random weights defines ``restart`` in its traits.
    """
    restart = traits_of(net).restart
    if restart is not None:
        restart(seed)
        return
    fresh = deepcopy(net).cpu()
    with seeded(seed):
        for module in fresh.modules():
            draw = getattr(module, "reset_parameters", None)
            if callable(draw):
                draw()
    net.load_state_dict(fresh.state_dict())
