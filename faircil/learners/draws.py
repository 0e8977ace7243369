"""Rows of an epoch, drawn so that every batch has each group in its share."""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = (5**0.5 - 1) / 2


def draw_by_share(group: Tensor, shares: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw rows with replacement: first the group, by its share, then any of its rows.

    Steps of the golden ratio, modulo 1, fill the unit interval evenly: of *any* k in a row, a part
    of length s gets k·s, give or take one or two. So with the interval cut by the shares, every
    batch has its share of every group, whatever the batch size. Independent draws would be off by
    about √(k·s).

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        Group of each row.
    shares : Tensor, shape (G,)
        Of the groups, at least 0, up to a common factor. A group with a share has a row.
    count : int
        Rows to draw.
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of int64, shape (count,)
    """
    device = group.device
    chance = torch.rand(1 + count, generator=generator, dtype=torch.float64).to(device)
    steps = GOLDEN * torch.arange(count, dtype=torch.float64, device=device)
    ends = shares.to(torch.float64).cumsum(0)
    # Right of all ends that it reaches: a share of 0 is an empty interval, and is never hit.
    drawn = torch.searchsorted(ends / ends[-1], (chance[0] + steps) % 1, right=True)
    size = torch.bincount(group, minlength=len(shares))
    place = (size.cumsum(0) - size)[drawn] + (chance[1:] * size[drawn]).long()
    return torch.argsort(group, stable=True)[place]
