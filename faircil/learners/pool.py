"""A pool of samples with scores: every group has its places, and samples compete for them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

MARGIN = 0.01  # keeps chances below 1, and defined where all scores are equal


class Pool:
    """Places for samples of one task, sorted by group.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        The group of each sample of the task, one of G.
    places : Tensor of int64, shape (G,)
        How many places each group has.
    """

    def __init__(self, group: Tensor, places: Tensor) -> None:
        self._group, self._places = group, places
        self._first = places.cumsum(0) - places
        self._taken = torch.zeros_like(places)
        self._owner = torch.repeat_interleave(places)
        self._row = torch.full_like(self._owner, -1)
        self._inside = torch.zeros_like(group, dtype=torch.bool)
        self._free = len(self._row)
        self._score = torch.zeros(len(self._row), device=group.device)

    def __len__(self) -> int:
        """Return the number of places, free or not."""
        return len(self._row)

    @property
    def rows(self) -> Tensor:
        """Rows of the samples in the pool."""
        return self._row[self._row >= 0]

    @property
    def scores(self) -> Tensor:
        """Their scores."""
        return self._score[self._row >= 0]

    def candidates(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Say which of the samples, (b,), would get a free place, and which would have to compete.

        Returns
        -------
        enters, competes : Tensor of bool, shape (b,)
            Neither holds for a sample that is in the pool.
        """
        new = ~self._inside[rows]
        if self._free == 0:
            return torch.zeros_like(new), new
        free = self._rank(rows, new) < (self._places - self._taken)[self._group[rows]]
        return new & free, new & ~free

    def enter(self, rows: Tensor, enters: Tensor, scores: Tensor) -> None:
        """Give free places to samples: rows, whether they are meant, and scores, each (b,)."""
        group = self._group[rows]
        place = (self._first + self._taken)[group] + self._rank(rows, enters)
        self._put(place, enters, rows, scores)
        self._taken += torch.bincount(group[enters], minlength=len(self._places))
        self._free = int((self._places - self._taken).sum())

    def compete(
        self, rows: Tensor, competes: Tensor, scores: Tensor, generator: torch.Generator
    ) -> None:
        """Let samples take the places of others of their group, by chance.

        Each one draws a place, without replacement, with probability proportional to the score
        there above the smallest of the group. The larger that score against its own, the likelier
        it takes the place.

        Parameters
        ----------
        rows, competes, scores : Tensor, shape (b,)
            Rows, whether they are meant, and scores of the samples; their groups have no free
            place.
        generator : torch.Generator
        """
        group, rank = self._group[rows], self._rank(rows, competes)
        none = self._score.new_zeros(len(self._places))
        low, high = (
            none.scatter_reduce(0, self._owner, self._score, end, include_self=False)
            for end in ("amin", "amax")
        )
        chance = (self._score - low[self._owner]) / (high - low + MARGIN)[self._owner]
        wait, luck = (
            torch.rand(n, generator=generator).to(chance) for n in (len(chance), len(rows))
        )
        # Falling chance/E, with E exponential, is an order of draws without replacement.
        key = chance / -torch.log1p(-wait).clamp(max=-1e-30)
        order = torch.argsort(key, descending=True)
        order = order[torch.argsort(self._owner[order], stable=True)]
        competes = competes & (rank < self._places[group])
        place = order[torch.where(competes, self._first[group] + rank, 0)]
        there, own = self._score[place] + 1, scores + 1
        wins = competes & (key[place] > 0) & (luck * (there + own) < there)
        self._inside[self._row[place[wins]]] = False
        self._put(place, wins, rows, scores)

    def _rank(self, rows: Tensor, which: Tensor) -> Tensor:
        """Count, for each sample, those of its group that are meant and come before it, (b,)."""
        group = self._group[rows]
        among = one_hot(group, len(self._places)) * which[:, None]
        return among.cumsum(0).gather(1, group[:, None]).squeeze(1) - which.long()

    def _put(self, place: Tensor, which: Tensor, rows: Tensor, scores: Tensor) -> None:
        self._inside[rows[which]] = True
        self._row[place[which]] = rows[which]
        self._score[place[which]] = scores[which]
