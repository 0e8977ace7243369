"""Samples whose inputs are distributed over ranks: each rank has those of its own shards.

Everything small is on every rank: classes, attribute values, weights, the order of an epoch, some
40 bytes per sample. So all ranks choose groups, buffers and batches in the same way, from the same
random numbers. Only the inputs of samples that are kept, or a net's outputs, are ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from faircil.errors import DataError
from faircil.ranks import ALONE, Ranks, shards_of
from faircil.samples import Samples

# Test samples are divided into the chunks of a forward pass, which are distributed: chunk c is
# shard c · SPREAD modulo MOST. Of any consecutive chunks, every rank gets its share, plus or minus
# two.
MOST, SPREAD = 1 << 16, 40503  # MOST over the golden ratio, as an odd number
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)


@dataclass(frozen=True, kw_only=True)
class ShardedSamples(Samples):
    """n samples, of which this rank has the inputs of its shards.

    Parameters
    ----------
    x : Tensor, shape (rows of this rank, ...)
        Inputs, in the order of the samples.
    y, z : Tensor of int64, shape (n,) and (n,) or (n, attributes)
        Of all samples.
    row : Tensor of int64, shape (n,)
        Row numbers of the samples in their data, by which their inputs are found again.
    shard : Tensor of int64, shape (n,)
        Shard of each sample.
    shards : int
        Number of shards.
    ranks : Ranks
    """

    row: Tensor
    shard: Tensor
    shards: int
    ranks: Ranks = ALONE

    # A saved state belongs to no rank: inputs are read from the data again, see `attach`.
    unsaved: ClassVar[tuple[str, ...]] = ("x", "ranks")

    def restored(self) -> None:
        """Start without inputs."""
        object.__setattr__(self, "x", torch.empty(0))
        object.__setattr__(self, "ranks", ALONE)

    def __post_init__(self) -> None:
        Samples(self.y, self.y, self.z)  # checks the shapes
        if len(self.x) != int(self.mine.sum()):
            raise DataError(
                f"rank {self.ranks.rank} has the inputs of {len(self.x)} samples, expected those "
                f"of the {int(self.mine.sum())} in its shards"
            )

    @cached_property
    def mine(self) -> Tensor:
        """Whether this rank has the inputs of each sample, (n,)."""
        here = shards_of(self.ranks.rank, self.ranks.size, self.shards)
        return (self.shard >= here.start) & (self.shard < here.stop)

    @cached_property
    def _place(self) -> Tensor:
        """Index of each sample among those of this rank, (n,); meaningless for others."""
        return torch.where(self.mine, self.mine.cumsum(0) - 1, -1)

    @property
    def local_shards(self) -> list[int]:
        """Shards of this rank, in order, including empty ones."""
        return list(shards_of(self.ranks.rank, self.ranks.size, self.shards))

    def of_shard(self, shard: int, index: Tensor | None = None) -> tuple[Samples, Tensor]:
        """Return the samples of one of this rank's shards, and their positions in ``index``.

        Parameters
        ----------
        shard : int
        index : Tensor of int64, optional
            Samples among which to look; by default all of them.
        """
        if index is None and bool((self.shard[self.mine] == shard).all()):  # avoids a copy
            rows = torch.nonzero(self.mine).squeeze(1)
            return Samples(self.x, self.y[rows], None if self.z is None else self.z[rows]), rows
        index = torch.arange(len(self), device=self.y.device) if index is None else index
        places = torch.nonzero(self.shard[index] == shard).squeeze(1)
        rows = index[places]
        x = self.x.index_select(0, self._place[rows])
        return Samples(x, self.y[rows], None if self.z is None else self.z[rows]), places

    def take(self, index: Tensor | slice) -> Samples:
        """Return the samples at ``index`` on every rank; all ranks must request the same ones."""
        rows = torch.arange(len(self), device=self.y.device)[index]
        own = rows[self.mine[rows]]
        x = self.ranks.rows(self.x.index_select(0, self._place[own]))
        # They arrive rank by rank, and from each rank in the order of the index.
        owner = torch.div(self.shard[rows] * self.ranks.size, self.shards, rounding_mode="floor")
        return Samples(
            _ordered(x, torch.argsort(owner, stable=True)),
            self.y[rows],
            None if self.z is None else self.z[rows],
        )

    def part(self, index: Tensor) -> ShardedSamples:
        """Return the samples at ``index``, each on the rank that has it."""
        rows = torch.arange(len(self), device=self.y.device)[index]
        return replace(
            self,
            x=self.x.index_select(0, self._place[rows][self.mine[rows]]),
            y=self.y[rows],
            z=None if self.z is None else self.z[rows],
            row=self.row[rows],
            shard=self.shard[rows],
        )

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a function of the inputs, (n, numbers), on every rank.

        The function is called with the inputs of one shard at a time, in any process.
        """
        numbers = torch.unique(self.shard[self.mine]).tolist()
        parts = [function(self.of_shard(number)[0].x) for number in numbers]
        found = torch.cat(parts) if parts else None
        return _ordered(self._alike(found), torch.argsort(self.shard, stable=True))

    def together(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the values of all samples, (n,), given those of each shard of this rank."""
        found = self.ranks.rows(torch.cat(list(parts)))
        return _ordered(found, torch.argsort(self.shard, stable=True))

    def _alike(self, found: Tensor | None) -> Tensor:
        """Return the rows, (k, numbers), of all ranks; a rank without samples passes None."""
        if self.ranks.size == 1:
            return torch.empty(0) if found is None else found
        told = [0, 0] if found is None else [found.shape[1], 1 + KINDS.index(found.dtype)]
        width, kind = self.ranks.gathered(torch.tensor(told)).amax(dim=0).tolist()
        if found is None:
            found = self.x.new_empty((0, width), dtype=KINDS[kind - 1])
        return self.ranks.rows(found)

    def to(self, device: torch.device | str) -> ShardedSamples:
        """Return the samples on ``device``."""
        return replace(
            self,
            x=self.x.to(device),
            y=self.y.to(device),
            z=None if self.z is None else self.z.to(device),
            row=self.row.to(device),
            shard=self.shard.to(device),
        )

    def joined(self, others: Sequence[Samples]) -> ShardedSamples:
        """Return these samples followed by others, which are divided into as many shards."""
        parts = [self, *others]
        same = [part for part in parts if isinstance(part, ShardedSamples)]
        if len(same) < len(parts) or {part.shards for part in same} != {self.shards}:
            raise DataError(
                "samples in shards can only be joined with others that are in the same shards"
            )
        z = [part.z for part in parts if part.z is not None]
        return replace(
            self,
            x=torch.cat([part.x for part in same]),
            y=torch.cat([part.y for part in same]),
            z=torch.cat(z) if z else None,
            row=torch.cat([part.row for part in same]),
            shard=torch.cat([part.shard for part in same]),
        )


def sharded(
    samples: Samples, shards: int, ranks: Ranks = ALONE, *, first: int = 0
) -> ShardedSamples:
    """Divide samples that every rank has: sample i goes to shard ``(first + i) % shards``.

    Neighbours, which are often similar, go to different shards.
    """
    row = first + torch.arange(len(samples), device=samples.y.device)
    return _cut(samples, row, row % shards, shards, ranks)


def dealt(samples: Samples, chunk: int, ranks: Ranks = ALONE) -> ShardedSamples:
    """Distribute chunks of samples that every rank has; passes over them are as on one process."""
    row = torch.arange(len(samples), device=samples.y.device)
    return _cut(samples, row, row // chunk * SPREAD % MOST, MOST, ranks)


def _cut(samples: Samples, row: Tensor, shard: Tensor, shards: int, ranks: Ranks) -> ShardedSamples:
    here = shards_of(ranks.rank, ranks.size, shards)
    mine = (shard >= here.start) & (shard < here.stop)
    x = samples.x if bool(mine.all()) else samples.x[mine]
    return ShardedSamples(x, samples.y, samples.z, row=row, shard=shard, shards=shards, ranks=ranks)


def parts_together(part: Samples, ranks: Ranks) -> ShardedSamples:
    """Return the samples of all ranks, each of which has a part, in the order of ranks."""
    attributes = part.keys().shape[1] - 1
    told = ranks.gathered(torch.tensor([len(part), attributes]))
    if bool((told[:, 1] != attributes).any()):
        raise DataError(
            f"the processes have samples of {told[:, 1].tolist()} attributes; give all the same z"
        )
    y = ranks.rows(part.y)
    shard = torch.repeat_interleave(torch.arange(ranks.size), told[:, 0]).to(y.device)
    return ShardedSamples(
        part.x,
        y,
        None if part.z is None else ranks.rows(part.z),
        row=torch.arange(len(y), device=y.device),
        shard=shard,
        shards=ranks.size,
        ranks=ranks,
    )


def attach(waiting: ShardedSamples, sources: Iterable[Samples], device: torch.device) -> None:
    """Restore, in place, the inputs of samples from a saved state.

    Parameters
    ----------
    waiting : ShardedSamples
        Samples without inputs, of no rank.
    sources : iterable of ShardedSamples
        The data from which they come.
    device : torch.device
        Device for the inputs.
    """
    found = [source for source in sources if isinstance(source, ShardedSamples)]
    ranks = found[0].ranks
    object.__setattr__(waiting, "ranks", ranks)
    for name in ("mine", "_place"):
        vars(waiting).pop(name, None)
    own = waiting.row[waiting.mine].cpu()
    there = torch.cat([source.row[source.mine] for source in found]).cpu()
    order = torch.argsort(there)
    places = order[torch.searchsorted(there[order], own).clamp(max=max(len(there) - 1, 0))]
    if len(own) and (not len(there) or not torch.equal(there[places], own)):
        raise DataError("the saved state is of samples that the data does not have")
    inputs = torch.cat([source.x for source in found])
    object.__setattr__(waiting, "x", inputs[places].to(device))


def _ordered(rows: Tensor, places: Tensor) -> Tensor:
    """Return rows in another order: row i goes to ``places[i]``."""
    found = torch.empty_like(rows)
    found[places] = rows
    return found
