"""Training samples that are not trained on: a fresh pool for post-processing."""

from __future__ import annotations

import torch

from faircil.rows import rows_of_groups
from faircil.samples import Samples
from faircil.weighting.groups import find_groups

SMALLEST_PART = 4  # at most every fourth sample of a group is held out


def hold_out(train: Samples, per_group: int, seed: int) -> tuple[Samples, Samples | None]:
    """Split a task's training data into what is trained on and what is held out.

    A net is surer of samples that it was trained on than of new ones, and those in the buffer it
    was trained on most. What is fitted on their probabilities does not fit new samples.

    Parameters
    ----------
    train : Samples
        n samples.
    per_group : int
        How many of each group (y, z) to hold out; fewer where a group is small. 0: None is held
        out.
    seed : int
        Of the draw; the same split for the same task, also where a run goes on from a saved state.
    """
    if per_group == 0:
        return train, None
    generator = torch.Generator().manual_seed(seed)
    membership = find_groups(train, None, by_attribute=train.z is not None)
    held = torch.zeros(len(train), dtype=torch.bool)
    for rows in rows_of_groups(membership.current, len(membership.groups)):
        order = rows[torch.randperm(len(rows), generator=generator)]
        held[order[: min(per_group, len(rows) // SMALLEST_PART)]] = True
    return train.take(~held), train.take(held)
