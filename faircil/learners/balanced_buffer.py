"""Training on the balanced buffer: GDumb trains a new net, BGS retrains the last layer."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from math import cos, frexp, pi
from typing import Literal

import torch
from torch import Tensor, nn

from faircil.learners.base import (
    Count,
    Generators,
    Material,
    Options,
    Positive,
    ReplayBuffer,
    ReplayOptions,
    Samples,
    unique_rows,
)
from faircil.learners.replay import Replay, SelectsAtTaskStart, fit_classifier, in_turn
from faircil.nets import features_of, find_head, last_linear, seeded, traits_of

WARM_UP = 0.1  # factor of the learning rate in the first epoch


class DumbOptions(Options):
    """Settings of training on the buffer alone."""

    lr: Positive = 0.01
    """largest learning rate of SGD; it decays to min_lr and restarts, in cycles of increasing
    length"""
    min_lr: Positive = 0.0005
    """smallest learning rate"""


class Dumb(SelectsAtTaskStart):
    """Train a new net on the buffer, including samples of the current task.

    All other samples of a task are ignored, so this baseline shows their value. The first task
    starts from the initial weights shared by all methods.
    """

    options = DumbOptions
    divisible = True
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


class BalancedReplayOptions(ReplayOptions):
    """Settings of group-class balanced greedy sampling."""

    head_lr: Positive = 0.001
    """learning rate of Adam for the last layer, after the task"""
    head_passes: Count = 20
    """passes over the buffer to train the last layer, after the task"""
    quota: Literal["group", "total"] = "group"
    """how the buffer is divided: group, buffer_size samples for each group; total, as many as that
    is for the groups of all classes, shared by the groups seen so far (the original rule)"""


class BalancedReplay(Replay):
    """Replay; after each task the last layer is trained on the balanced buffer, nothing else.

    A net trained on biased data still has features that separate the classes within every group;
    its last layer puts weight on features that correlate with the attribute. So all other layers
    are kept, and the last one is trained further by the cross-entropy of samples in which all pairs
    of class and attribute value are equally frequent.

    The original does this once, after the last task. Here every task is evaluated as if it were
    the last, and the next one continues from the last layer as it was before.

    The original's buffer has a total size. A new pair of class and value obtains its share one
    random sample at a time, each replacing a sample of the pair that currently has the most. Here
    every method keeps ``buffer_size`` samples of each pair seen, which is balanced as well.
    ``quota=total`` is the original's rule with the final size of all pairs, so early tasks keep
    more than other methods may.
    """

    options = BalancedReplayOptions
    divisible = True

    settings: BalancedReplayOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.classes = last_linear(net).out_features
        self.unbalanced: dict[str, Tensor] | None = None  # last layer before it is retrained

    def grow(self, classes: int) -> None:
        """Add outputs, also to the stored last layer."""
        super().grow(classes)
        self.classes = classes
        if self.unbalanced is not None:
            grown = last_linear(self.net).state_dict()
            self.unbalanced = {
                name: torch.cat([before, grown[name][len(before) :]])
                for name, before in self.unbalanced.items()
            }

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Restore the last layer as it was before it was retrained."""
        if self.unbalanced is not None:
            find_head(self.net, train.x).load_state_dict(self.unbalanced)
            self.unbalanced = None
        return super().begin_task(train, buffer)

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add samples of each group; with a total size, remove some of the largest groups."""
        if self.settings.quota == "group":
            return super().remember(train, weights, buffer)
        parts = [train] if buffer.samples is None else [buffer.samples, train]
        seen = torch.cat([part.keys() for part in parts])
        values = len(unique_rows(seen[:, 1:])[0])
        size = buffer.quota * values * self.classes
        share = size // (values * len(torch.unique(seen[:, 0])))
        added = super().remember(train, weights, replace(buffer, quota=share))
        assert added.samples is not None
        _, group = unique_rows(added.samples.keys())
        rows = in_turn(group, self.generators.buffer)[:size].sort().values
        return replace(added, quota=buffer.quota, samples=added.samples.take(rows))

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Train the last layer on the buffer, which already contains the task."""
        super().end_task(buffer)
        if buffer.samples is None:
            return
        head = find_head(self.net, buffer.samples.x)
        self.unbalanced = deepcopy(head.state_dict())
        fit_classifier(
            head,
            replace(buffer.samples, x=features_of(self.net, buffer.samples.x)),
            None,
            self.generators.method,
            lr=self.settings.head_lr,
            tau=0.0,
            passes=self.settings.head_passes,
        )
