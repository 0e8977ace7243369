"""The old classes that a new task is taken for, and the features the old net has for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from faircil.learners.features import features_of
from faircil.samples import Samples
from faircil.weighting.head import find_head


@dataclass(frozen=True)
class Conflicts:
    """The old classes that the old net takes new samples for, as that net saw them.

    Parameters
    ----------
    head : Linear
        Last layer of the net; its inputs are the features, d of them.
    new : Tensor of int64, shape (a,)
        Classes of the current task.
    old : Tensor of int64, shape (q,)
        Conflict classes, the one with the highest score first.
    in_conflict : Tensor, shape (m,)
        1 for samples of conflict classes in the memory, 0 for others.
    centre : Tensor, shape (d,)
        Mean feature of the former.
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

    None: the memory has no class that is not in the task.

    Parameters
    ----------
    net : Module
        As the last task left it.
    scores : Tensor, shape (n, classes)
        Its scores of the task.
    train, memory : Samples
        The task, n samples, and the buffer, m samples.
    share : float
        Of the old classes, rounded down; at least one is taken.
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
