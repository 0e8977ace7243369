"""How training uses the weights: selection of an epoch's samples, and control weightings.

A weighting is a table row: a function from the weights of the program, solved for the current
net, to the weights used in the epoch. The controls test whether it matters *which* samples the
program keeps or only *how many*. Functions import torch when they are called, so that the table
can be listed without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KEEP_ABOVE = 0.05  # samples with smaller weights are only used to fill the last batch
EQUALLY = 0.5  # fraction of draws divided equally among all groups


@dataclass(frozen=True)
class Selection:
    """The samples of an epoch in training order.

    Parameters
    ----------
    index : Tensor of int64, shape (k,)
        Row numbers in the task's training data.
    weight : Tensor, shape (k,), or None
        Their weights; None means all 1.
    """

    index: Tensor
    weight: Tensor | None = None


def everything(n: int, generator: torch.Generator, device: torch.device) -> Selection:
    """Select all n samples, shuffled, with weight 1."""
    import torch

    return Selection(torch.randperm(n, generator=generator).to(device))


def select(
    weights: Tensor, _group: Tensor, batch_size: int, generator: torch.Generator
) -> Selection:
    """Keep samples with weight above .05, fill the last batch with dropped ones, shuffle.

    The samples that fill the batch are drawn at random and keep their small weight. If no sample is
    kept, the selection is empty.

    Parameters
    ----------
    weights : Tensor, shape (n,)
    batch_size : int
    generator : torch.Generator
    """
    import torch

    order = torch.randperm(len(weights), generator=generator).to(weights.device)
    keep = weights[order] > KEEP_ABOVE
    kept, dropped = order[keep], order[~keep]
    fillers = dropped[: -len(kept) % batch_size]
    index = torch.cat([kept, fillers])
    index = index[torch.randperm(len(index), generator=generator).to(index.device)]
    return Selection(index, weights[index])


def select_all(
    weights: Tensor, _group: Tensor, _batch_size: int, generator: torch.Generator
) -> Selection:
    """Keep all samples, regardless of their weight, and shuffle.

    Samples with weight zero reduce the mean of their batch, so they make steps smaller instead of
    fewer. This is Alg. 1 of the paper taken literally, whose sum is over the whole task.
    """
    index = everything(len(weights), generator, weights.device).index
    return Selection(index, weights[index])


def draw_fairly(
    weights: Tensor, group: Tensor, _batch_size: int, generator: torch.Generator
) -> Selection:
    """Draw as many samples as have a weight above .05, with replacement.

    Half of the draws are divided equally among all groups, half by the groups' mean weights. Within
    a group, the first half is uniform over samples, the second follows their weights. So group size
    has no effect: samples of a small group are drawn repeatedly, and samples that the program drops
    still occur.

    Parameters
    ----------
    weights : Tensor, shape (n,)
    group : Tensor of int64, shape (n,)
        Group of each sample.
    generator : torch.Generator
    """
    draws = int((weights > KEEP_ABOVE).sum())
    if not draws:
        return Selection(group[:0])
    index = draw_rows(fair_chances(weights, group), draws, generator)
    return Selection(index.to(group.device))


def fair_chances(weights: Tensor, group: Tensor, equally: float = EQUALLY) -> Tensor:
    """Return the probability of each sample to be drawn; see :func:`draw_fairly`.

    Parameters
    ----------
    weights : Tensor, shape (n,)
        Nonnegative, not all zero.
    group : Tensor of int64, shape (n,)
    equally : float
        Fraction of draws divided equally among all groups; the rest follows their mean weights.

    Returns
    -------
    Tensor of float64, shape (n,)
        On the host, so that draws are the same on every device. It sums to 1.
    """
    import torch

    number = group.cpu()
    equal = 1 / torch.bincount(number).double()[number]  # per sample: sums to 1 over a group
    share = weights.double().cpu() * equal
    return equally * equal / equal.sum() + (1 - equally) * share / share.sum()


def draw_rows(chance: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw rows with replacement, (count,), with probabilities proportional to ``chance``, (n,)."""
    import torch

    reach = chance.cumsum(0)
    noise = torch.rand(count, generator=generator, dtype=torch.float64) * reach[-1]
    return torch.searchsorted(reach, noise, right=True).clamp(max=len(chance) - 1)


# From weights and groups, (n,), and the batch size to the samples of an epoch.
Select: TypeAlias = "Callable[[Tensor, Tensor, int, torch.Generator], Selection]"
SELECTIONS: dict[str, Select] = {"weighted": select, "all": select_all, "draw": draw_fairly}


def rounded(weights: Tensor) -> Tensor:
    """Return 1 for weights of at least ½ and 0 for the others, (n,)."""
    return (weights >= 0.5).to(weights.dtype)  # torch.round would round ½ to 0


def as_solved(weights: Tensor, _group: Tensor, _generator: torch.Generator) -> Tensor:
    """Use the weights of the program."""
    return weights


def random_subset(weights: Tensor, _group: Tensor, generator: torch.Generator) -> Tensor:
    """Use the same weights, permuted over the whole task."""
    import torch

    return weights[torch.randperm(len(weights), generator=generator).to(weights.device)]


def balanced_subset(weights: Tensor, group: Tensor, generator: torch.Generator) -> Tensor:
    """Keep as many samples as the program, drawn at random in equal numbers per group.

    A group with too few samples is kept whole, and the other groups share the rest.
    """
    import torch

    from faircil.samples import rows_of_groups

    budget = int((weights > KEEP_ABOVE).sum())
    members = [rows for rows in rows_of_groups(group, int(group.max()) + 1) if len(rows)]
    result = torch.zeros_like(weights)
    for position, rows in enumerate(sorted(members, key=len)):
        quota = min(len(rows), round(budget / (len(members) - position)))
        chosen = torch.randperm(len(rows), generator=generator)[:quota].to(rows.device)
        result[rows[chosen]] = 1.0
        budget -= quota
    return result


# From the program's weights, (n,), and the group of each sample, (n,), to the training weights.
Reweighting: TypeAlias = "Callable[[Tensor, Tensor, torch.Generator], Tensor]"


@dataclass(frozen=True)
class Weighting:
    """A row of the table: a function of the program's weights; None: no program is solved."""

    reweight: Reweighting | None
    summary: str


WEIGHTINGS: dict[str, Weighting] = {
    "none": Weighting(None, "every current sample at weight 1"),
    "fsw": Weighting(as_solved, "the weights that the linear program gives"),
    "random": Weighting(random_subset, "control: the program's weights, permuted over the task"),
    "balanced": Weighting(
        balanced_subset, "control: as many samples as the program keeps, equally many per group"
    ),
}
