"""A pool of samples with scores: every group has its places, and samples compete for them.

Nothing here depends on values that the host would have to wait for: what is not meant goes to a
spare place that nobody reads. So on a GPU a step with a pool can be recorded.
"""

from __future__ import annotations

import torch
from torch import Tensor

MARGIN = 0.01  # keeps chances below 1, and defined where all scores are equal
LAST = 2.0  # above all random numbers


class Pool:
    """Places for samples of one task, sorted by group.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        The group of each sample of the task, one of G.
    places : Tensor of int64, shape (G,)
        How many places each group has; P in all.
    """

    def __init__(self, group: Tensor, places: Tensor) -> None:
        self._group, self._places = group, places
        self._first = places.cumsum(0) - places
        self._taken = torch.zeros_like(places)
        self._owner = torch.repeat_interleave(places)
        # Each with one more, the spare one.
        self._row = self._owner.new_full((len(self._owner) + 1,), -1)
        self._score = torch.zeros(len(self._owner) + 1, device=group.device)
        self._inside = torch.zeros(len(group) + 1, dtype=torch.bool, device=group.device)

    def __len__(self) -> int:
        """Return the number of places P, free or not."""
        return len(self._owner)

    @property
    def filled(self) -> Tensor:
        """Whether there is a sample at each place, (P,)."""
        return self._row[:-1] >= 0

    @property
    def rows(self) -> Tensor:
        """Rows of the samples in the pool."""
        return self._row[:-1][self.filled]

    @property
    def scores(self) -> Tensor:
        """Their scores."""
        return self._score[:-1][self.filled]

    def shuffled(self, noise: Tensor) -> Tensor:
        """Return the rows at all places, (P,), in the order of noise in [0, 1); −1, free, last."""
        return self._row[torch.argsort(torch.where(self.filled, noise, LAST))]

    def candidates(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Say which of the samples, (b,), would get a free place, and which would have to compete.

        Returns
        -------
        enters, competes : Tensor of bool, shape (b,)
            Neither holds for a sample that is in the pool.
        """
        new = ~self._inside[rows]
        free = self._rank(rows, new) < (self._places - self._taken)[self._group[rows]]
        return new & free, new & ~free

    def enter(self, rows: Tensor, enters: Tensor, scores: Tensor) -> None:
        """Give free places to samples: rows, whether they are meant, and scores, each (b,)."""
        group = self._group[rows]
        place = (self._first + self._taken)[group] + self._rank(rows, enters)
        self._put(place, enters, rows, scores)
        self._taken.index_add_(0, group, enters.to(self._taken))

    def compete(self, rows: Tensor, competes: Tensor, scores: Tensor, noise: Tensor) -> None:
        """Let samples take the places of others of their group, by chance.

        Each one draws a place, without replacement, with probability proportional to the score
        there above the smallest of the group. The larger that score against its own, the likelier
        it takes the place.

        Parameters
        ----------
        rows, competes, scores : Tensor, shape (b,)
            Rows, whether they are meant, and scores of the samples; their groups have no free
            place.
        noise : Tensor, shape (P + b,)
            Uniform in [0, 1).
        """
        group, rank = self._group[rows], self._rank(rows, competes)
        score = self._score[:-1]
        none = score.new_zeros(len(self._places))
        low, high = (
            none.scatter_reduce(0, self._owner, score, end, include_self=False)
            for end in ("amin", "amax")
        )
        chance = (score - low[self._owner]) / (high - low + MARGIN)[self._owner]
        wait, luck = noise[: len(self)], noise[len(self) :]
        # Falling chance/E, with E exponential, is an order of draws without replacement.
        key = chance / -torch.log1p(-wait).clamp(max=-1e-30)
        order = torch.argsort(key, descending=True)
        order = order[torch.argsort(self._owner[order], stable=True)]
        competes = competes & (rank < self._places[group])
        place = order[torch.where(competes, self._first[group] + rank, 0)]
        there, own = score[place] + 1, scores + 1
        wins = competes & (key[place] > 0) & (luck * (there + own) < there)
        self._inside.index_fill_(0, torch.where(wins, self._row[place], len(self._group)), False)
        self._put(place, wins, rows, scores)

    def _rank(self, rows: Tensor, which: Tensor) -> Tensor:
        """Count, for each sample, those of its group that are meant and come before it, (b,)."""
        group = self._group[rows]
        numbers = torch.arange(len(self._places), device=group.device)
        among = ((group[:, None] == numbers) & which[:, None]).long()
        return among.cumsum(0).gather(1, group[:, None]).squeeze(1) - which.long()

    def _put(self, place: Tensor, which: Tensor, rows: Tensor, scores: Tensor) -> None:
        place = torch.where(which, place, len(self))
        self._inside.index_fill_(0, torch.where(which, rows, len(self._group)), True)
        self._row[place] = rows
        self._score[place] = scores
