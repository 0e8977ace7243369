"""BGS: replay, and the last layer trained again on a buffer balanced over classes and groups."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
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
    concatenate,
    unique_rows,
)
from faircil.learners.fairl import fit_classifier
from faircil.learners.replay import Replay
from faircil.nets import features_of, find_head, last_linear


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

    A net trained on biased data still has features that tell the classes in every group; its last
    layer puts weight on those that go with the attribute. So all other layers are kept, and the
    last one is trained further, from where it is, by the cross-entropy of samples in which all
    pairs of class and attribute value are equally frequent.

    The original does this once, after the last task. Here every task is evaluated as if it were
    the last: the next one goes on from the last layer as it was before.

    The original's buffer has a total size. A new pair of class and value takes its share of it,
    one random sample after another, each in place of a sample of the pair that then has the most.
    Here every method keeps ``buffer_size`` samples of each pair that was seen, which is balanced
    as well; ``quota=total`` is the original's rule with the size that all pairs have in the end, so
    early tasks keep more than other methods may.
    """

    options = BalancedReplayOptions

    settings: BalancedReplayOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.classes = last_linear(net).out_features
        self.unbalanced: dict[str, Tensor] | None = None  # last layer before it is trained again

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Go on from the last layer as the task before has left it."""
        if self.unbalanced is not None:
            find_head(self.net, train.x).load_state_dict(self.unbalanced)
            self.unbalanced = None
        return super().begin_task(train, buffer)

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add samples of each group; with a total size, remove some of the largest ones."""
        if self.settings.quota == "group":
            return super().remember(train, weights, buffer)
        seen = train if buffer.samples is None else concatenate([buffer.samples, train])
        values = len(unique_rows(seen.keys()[:, 1:])[0])
        size = buffer.quota * values * self.classes
        share = size // (values * len(torch.unique(seen.y)))
        added = super().remember(train, weights, replace(buffer, quota=share))
        assert added.samples is not None
        _, group = unique_rows(added.samples.keys())
        rows = in_turn(group, self.generators.buffer)[:size].sort().values
        return ReplayBuffer(buffer.quota, added.samples.take(rows))

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Train the last layer on the buffer, which already contains the task."""
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


def in_turn(group: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows in random order such that groups take turns; a group that is used up passes.

    The first m rows are what remains of all of them if, until m are left, a random row of the
    largest group goes.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of int64, shape (n,)
    """
    order = torch.randperm(len(group), generator=generator).to(group.device)
    # Number the rows of each group in this order; then all first rows come first, and so on.
    by_group = order[torch.argsort(group[order], stable=True)]
    count = torch.bincount(group)
    number = torch.empty_like(group)
    each = torch.arange(len(group), device=group.device)
    number[by_group] = each - (count.cumsum(0) - count)[group[by_group]]
    return order[torch.argsort(number[order], stable=True)]
