"""CLAD: separate the new task's features from those of the old classes it is confused with.

Reconstructed from descriptions of the method, not from the code of its authors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from faircil.learners.base import (
    Batch,
    Generators,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    ReplayOptions,
    Samples,
    Share,
)
from faircil.learners.replay import Replay, replay_loss
from faircil.nets import features_of, find_head, with_features


@dataclass(frozen=True)
class Conflicts:
    """The old classes that the previous net confuses with the new task, and their features.

    Parameters
    ----------
    head : Linear
        Last layer of the net; its inputs are the d features.
    new : Tensor of int64, shape (a,)
        Classes of the current task.
    old : Tensor of int64, shape (q,)
        Conflict classes, by decreasing score.
    in_conflict : Tensor, shape (m,)
        1 for samples of conflict classes in the memory, 0 for others.
    centre : Tensor, shape (d,)
        Mean feature of the samples in conflict.
    prototypes : Tensor, shape (q, d)
        Mean feature of each conflict class.
    """

    head: nn.Linear
    new: Tensor
    old: Tensor
    in_conflict: Tensor
    centre: Tensor
    prototypes: Tensor


def find_conflicts(
    net: nn.Module, scores: Tensor, train: Samples, memory: Samples, share: float
) -> Conflicts | None:
    """Find the old classes with the highest mean score over the new task.

    Return None if all classes in memory belong to the task.

    Parameters
    ----------
    net : Module
        The net at the end of the previous task.
    scores : Tensor, shape (n, classes)
        Its scores on the task.
    train, memory : Samples
        The task, n samples, and the buffer, m samples.
    share : float
        Fraction of the old classes to return, rounded down; at least one class.
    """
    new, known = torch.unique(train.y), torch.unique(memory.y)
    candidates = known[torch.isin(known, new, invert=True)]
    if not len(candidates):
        return None
    order = scores.mean(dim=0)[candidates].argsort(descending=True)
    old = candidates[order[: max(1, int(share * len(candidates)))]]
    features = features_of(net, memory.x)
    of_class = (memory.y[:, None] == old).to(features.dtype)  # (m, q)
    in_conflict = of_class.sum(dim=1)
    return Conflicts(
        head=find_head(net, train.x),
        new=new,
        old=old,
        in_conflict=in_conflict,
        centre=in_conflict @ features / in_conflict.sum(),
        prototypes=of_class.T @ features / of_class.sum(dim=0)[:, None],
    )


class CladOptions(ReplayOptions):
    """Settings of CLAD."""

    tau: NonNegative = 1.0
    """weight of the replay loss"""
    eta: NonNegative = 1.0
    """weight of the separation term"""
    conflicts: Share = 0.5
    """share of the old classes to separate from: those most similar to the new task"""
    variant: Literal["batch", "class"] = "batch"
    """features that are separated: batch, the mean feature of a batch; class, the mean feature of
    each of its classes (our variant)"""


class Clad(Replay):
    """Minimise ``mean(w · CE) + τ · mean(CE of memory) + η · (1 + cos(u, v) + 1 + cos(u, c))``.

    u and v are the mean features of the current batch and of the conflict classes in the memory
    batch, and c is the previous net's mean feature of all conflict samples in the buffer. A batch
    without conflict samples has no term in v. Weights apply to the cross-entropy; u is an
    unweighted mean.
    """

    options = CladOptions

    settings: CladOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.conflicts: Conflicts | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the conflict classes under the previous net."""
        material = super().begin_task(train, buffer)
        memory = material.memory
        if memory is not None:
            scores, share = self.scores(train.x), self.settings.conflicts
            self.conflicts = find_conflicts(self.net, scores, train, memory, share)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute logits and features of both batches in one forward pass."""
        conflicts = self.conflicts
        if conflicts is None or batch.memory_rows is None or len(batch.current) == 0:
            return super().loss(batch)
        logits, features = with_features(self.net, conflicts.head, batch.x)
        current, replayed = batch.split(features)
        if self.settings.variant == "class":
            apart = class_similarity(current, batch.current.y, conflicts)
        else:
            in_conflict = conflicts.in_conflict.index_select(0, batch.memory_rows)
            apart = batch_similarity(current, replayed, in_conflict, conflicts.centre)
        return replay_loss(logits, batch, self.settings.tau) + self.settings.eta * apart


def batch_similarity(
    current: Tensor, replayed: Tensor, in_conflict: Tensor, centre: Tensor
) -> Tensor:
    """Return ``1 + cos(u, v) + 1 + cos(u, c)``, without ``1 + cos(u, v)`` if v does not exist.

    Parameters
    ----------
    current, replayed : Tensor, shape (b, d), (k, d)
        Features of the batch.
    in_conflict : Tensor, shape (k,)
        1 for replayed samples of conflict classes, 0 for others.
    centre : Tensor, shape (d,)
    """
    mean, count = current.mean(dim=0), in_conflict.sum()
    replayed_mean = in_conflict @ replayed / count.clamp(min=1)
    online = 1 + cosine_similarity(mean, replayed_mean, dim=0)
    return (count > 0) * online + 1 + cosine_similarity(mean, centre, dim=0)


def class_similarity(current: Tensor, y: Tensor, conflicts: Conflicts) -> Tensor:
    """Return the mean of ``1 + cos(mean feature, prototype)`` over new and conflict classes.

    Parameters
    ----------
    current : Tensor, shape (b, d)
        Features of the current batch.
    y : Tensor of int64, shape (b,)
        Classes; classes of the task that are not in the batch are ignored.
    conflicts : Conflicts
    """
    of_class = (y[:, None] == conflicts.new).to(current.dtype)  # (b, a)
    count = of_class.sum(dim=0)
    means = of_class.T @ current / count.clamp(min=1)[:, None]
    cosines = cosine_similarity(means[:, None], conflicts.prototypes, dim=2)  # (a, q)
    there = count > 0
    return 1 + (cosines.mean(dim=1) * there).sum() / there.sum()
