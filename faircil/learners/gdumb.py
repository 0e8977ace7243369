"""GDumb: forget everything but the buffer, and learn that from scratch."""

from __future__ import annotations

from copy import deepcopy
from math import cos, frexp, pi

import torch
from torch import nn

from faircil.learners.base import Material, Options, Positive, ReplayBuffer, Samples
from faircil.learners.replay import SelectsAtTaskStart
from faircil.nets import traits_of

WARM_UP = 0.1  # of the learning rate, in the first epoch


class DumbOptions(Options):
    """Settings of training on the buffer alone."""

    lr: Positive = 0.01
    """learning rate of SGD, the largest: it falls to min_lr and starts again, in ever longer
    cycles"""
    min_lr: Positive = 0.0005
    """smallest learning rate"""


class Dumb(SelectsAtTaskStart):
    """Train a new net on the buffer, the current task's part included.

    It sees none of the other samples of a task, so what a method gains over it is what these are
    worth. The first task starts from the initial weights that all methods have.
    """

    options = DumbOptions
    graphable = False  # a graph would keep the learning rate that it was recorded with

    settings: DumbOptions

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start again with new weights, and with the buffer as all there is."""
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

    After an epoch of warm-up there are cycles, each twice as long as the one before, and the last
    ends with the task. With 256 epochs their lengths are the original's 1, 2, 4, …, 128; with
    another number the cycles start at its half, quarter and so on.
    """
    if epoch == 1:
        return WARM_UP * largest
    # (epoch − 1)/epochs = m · 2^e with m in [½, 1): e tells the cycle, and m the place in it.
    place = 2 * frexp((epoch - 1) / epochs)[0] - 1
    return smallest + (largest - smallest) * (1 + cos(pi * place)) / 2


def reset(net: nn.Module, seed: int) -> None:
    """Draw new weights from the seed, in place: every layer as it does when it is made.

    They are drawn on the CPU, so that they are the same on every device; torch's global generator
    is left as it was. A net that does not begin with random weights names a
    ``restart`` among its traits.
    """
    restart = traits_of(net).restart
    if restart is not None:
        restart(seed)
        return
    fresh = deepcopy(net).cpu()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for module in fresh.modules():
            draw = getattr(module, "reset_parameters", None)
            if callable(draw):
                draw()
    net.load_state_dict(fresh.state_dict())
