"""What a variable of the program stands for: a sample, or all current samples of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from faircil.errors import DataError
from faircil.weighting.groups import Floats, Integers, Membership


@dataclass(frozen=True)
class Variables:
    """The variables of a program.

    Parameters
    ----------
    columns : ndarray, shape (G, variables)
        Alignment with the groups, summed over the samples that a variable stands for.
    owner : ndarray of int64, shape (n,), or None
        Variable of each sample; None: each sample is its own.
    shares : callable
        From the solution, (variables,), to one share per group, (G,); None where that says nothing.
    """

    columns: Floats
    owner: Integers | None
    shares: Callable[[Floats], Floats | None]

    def sample_weights(self, solution: Floats, generator: torch.Generator | None) -> Floats:
        """Return one weight per sample, (n,): the solution, or 0/1 drawn with its probabilities."""
        if self.owner is None:
            return solution
        if generator is None:
            raise DataError("this granularity draws samples: pass generator=torch.Generator()")
        draw = torch.rand(len(self.owner), generator=generator, dtype=torch.float64)
        return (draw.numpy() < solution[self.owner]).astype(np.float64)


def by_sample(alignment: Floats, _: Membership) -> Variables:
    """One variable per sample, as in the paper."""
    return Variables(alignment, None, lambda _: None)


def by_group(alignment: Floats, membership: Membership) -> Variables:
    """One variable per current group.

    The program decides how much of each group, chance decides which samples: what is kept stays
    representative of its group, and the program shrinks to a handful of columns.
    """
    current = np.flatnonzero(membership.groups.current)
    variable = np.full(len(membership.groups), -1)
    variable[current] = np.arange(len(current))
    owner = variable[membership.current.cpu().numpy()]
    columns = np.zeros((len(current), len(alignment)))
    np.add.at(columns, owner, alignment.T)

    def shares(solution: Floats) -> Floats:
        result = np.full(len(alignment), np.nan)
        result[current] = solution
        return result

    return Variables(columns.T, owner, shares)


GRANULARITIES: dict[str, Callable[[Floats, Membership], Variables]] = {
    "sample": by_sample,
    "group": by_group,
}
