"""Weights of samples that are distributed over ranks, from sums over all ranks.

Samples stay where they are. Four things are exchanged, none of which grows with the data:

1. the groups and their sizes;
2. the sums of losses and last-layer gradients of all groups, which each rank then has in full;
3. the solver's queries of columns, see :mod:`faircil.weighting.solver.rank_columns`;
4. the progress of each group under the weights.

A rank has one or several parts of the samples, the shards of a run. Sums are computed within shards
and added in the order of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from faircil.errors import DataError
from faircil.ranks import Ranks, packed, shards_of, unpacked
from faircil.samples import Samples, unique_rows
from faircil.weighting.any_data import Stream, some_inputs
from faircil.weighting.choice import (
    MANY,
    Choice,
    ProgramInputs,
    added_up,
    factor_rows,
)
from faircil.weighting.granularity import required
from faircil.weighting.groups import Floats, Groups, Membership, Seen, find_groups
from faircil.weighting.last_layer import (
    GroupSums,
    LastLayer,
    LastLayerStatistics,
    compared_layer,
    group_sums,
    last_layers,
    mean_losses,
    stream_layer,
)
from faircil.weighting.losses import LossFunction
from faircil.weighting.program import Formulation
from faircil.weighting.solver import SolverFunction, find_solver
from faircil.weighting.solver.columns import Columns, DeviceColumns, HostColumns
from faircil.weighting.solver.rank_columns import solve_over_ranks

Source = Samples | Stream


def divided_mistakes(gradient: str, granularity: str, what: str) -> list[str]:
    """Return why weights cannot be computed by several processes, as ``what`` requests."""
    mistakes = []
    if gradient == "all":
        mistakes.append(f"gradient 'all' is for one process, without {what}; use gradient 'last'")
    if granularity.startswith("cluster"):
        mistakes.append(
            f"granularity '{granularity}' is for one process, without {what}; use granularity "
            "'sample' or 'group'"
        )
    return mistakes


def groups_over_ranks(
    parts: Sequence[Samples],
    memory: Samples | None,
    ranks: Ranks,
    *,
    by_attribute: bool,
    seen: Seen | None,
) -> list[Membership]:
    """Group samples that are distributed over ranks; all ranks have the same memory.

    Parameters
    ----------
    parts : sequence of Samples
        Samples of this rank, shard by shard; only labels are used.
    memory, by_attribute, seen
        See :func:`faircil.weighting.groups.find_groups`.

    Returns
    -------
    list of Membership
        Memberships of each part, with the groups of all ranks.
    """
    with ranks.alike():
        if any(len(part) == 0 for part in parts):
            raise DataError(
                "there are no current samples to weight; each process needs some of its own"
            )
        if by_attribute and any(part.z is None for part in parts):
            raise DataError("this measure compares attribute values, but the samples have no z")
        own = [_counted(part.keys(by_attribute)) for part in parts]
    _check_memory(memory, ranks, by_attribute, own[0].shape[1])
    every = ranks.rows(torch.cat(own))
    keys, index = unique_rows(every[:, :-1])
    size = torch.zeros(len(keys), dtype=torch.int64, device=keys.device)
    size.index_add_(0, index, every[:, -1])
    # One sample represents each group.
    of_groups = Samples(keys[:, :1], keys[:, 0], keys[:, 1:] if keys.shape[1] > 1 else None)
    found = find_groups(of_groups, memory, by_attribute=by_attribute, seen=seen)
    sizes = found.groups.size.copy()
    sizes[found.current.cpu().numpy()] = size.cpu().numpy()
    groups = replace(found.groups, size=sizes)
    places = [_places(keys, part.keys(by_attribute)) for part in parts]
    return [Membership(groups, found.current[place], found.memory) for place in places]


def group_of_each(samples: Samples, groups: Groups, *, by_attribute: bool) -> Tensor:
    """Return the group of each sample, (n,), given all groups."""
    attribute = groups.attribute.reshape(len(groups), -1)
    columns = [groups.label[:, None], attribute] if by_attribute else [groups.label[:, None]]
    keys = torch.from_numpy(np.concatenate(columns, axis=1)).to(samples.y.device)
    return _places(keys, samples.keys(by_attribute))


def _counted(keys: Tensor) -> Tensor:
    """Return the distinct keys, with the count of each as the last column."""
    rows, index = unique_rows(keys)
    return torch.cat([rows, torch.bincount(index, minlength=len(rows))[:, None]], dim=1)


def _places(keys: Tensor, wanted: Tensor) -> Tensor:
    """Return the index of each wanted row among distinct sorted rows, which contain all of them."""
    return unique_rows(torch.cat([keys, wanted]))[1][len(keys) :]


def _check_memory(memory: Samples | None, ranks: Ranks, by_attribute: bool, width: int) -> None:
    """Raise an error on all ranks if their attributes or their memories differ."""
    rows = 0 if memory is None else len(memory)
    keys = torch.zeros(0, dtype=torch.int64) if memory is None else memory.keys(by_attribute)
    place = torch.arange(keys.numel(), device=keys.device) % 65521 + 1
    told = torch.tensor([width, rows, int((keys.flatten() * place).sum())])
    every = ranks.gathered(told)
    if bool((every[:, 0] != every[0, 0]).any()):
        raise DataError("the processes have samples of different attributes; give all the same z")
    if bool((every[:, 1:] != every[0, 1:]).any()):
        raise DataError(
            f"the processes have different memories, of {every[:, 1].tolist()} samples; give all "
            "of them the same one, which `ReplayBuffer.add` makes with `ranks`"
        )


def statistics_over_ranks(
    net: nn.Module,
    parts: Sequence[Source],
    memory: Source | None,
    memberships: Sequence[Membership],
    ranks: Ranks,
    head: nn.Linear | str | None,
    loss: LossFunction,
) -> list[LastLayerStatistics]:
    """Compute statistics of all groups; each rank makes one pass over its own samples.

    If the buffer is in memory, every rank has it, and shards take turns with its samples. If it is
    read from a dataset, only the first rank reads it.

    Parameters
    ----------
    net : Module
    parts : sequence of Samples or Stream
        Samples of this rank, shard by shard.
    memory : Samples, Stream or None
    memberships : sequence of Membership
        Memberships of each part.
    ranks : Ranks
    head, loss
        See :func:`faircil.weighting.last_layer.group_statistics`.
    """
    count = len(parts) * ranks.size
    first = shards_of(ranks.rank, ranks.size, count).start
    groups = memberships[0].groups
    with ranks.alike():
        layer = compared_layer(net, some_inputs(parts[0]), groups, head)
        pieces: list[tuple[Source, Tensor]] = [
            (part, member.current) for part, member in zip(parts, memberships, strict=True)
        ]
        for place, member in enumerate(memberships):
            rows = slice(first + place, None, count)
            if isinstance(memory, Samples):
                pieces.append((memory.take(rows), member.memory[rows]))
            elif isinstance(memory, Stream) and first + place == 0:
                pieces.append((memory, member.memory))
        measured = _measured(net, layer, pieces, len(groups), loss)
    # Statistics of the samples of each shard, then those of its share of the memory.
    gradients = torch.stack([one[1].flatten() for one in measured[: len(parts)]])
    losses = torch.stack([one[2] for one in measured[: len(parts)]])
    for place, (_, more_gradients, more_losses) in enumerate(measured[len(parts) :]):
        gradients[place] += more_gradients.flatten()
        losses[place] += more_losses
    means = mean_losses(ranks.summed(losses), memberships[0])
    gradient = ranks.summed(gradients).view_as(measured[0][1])
    return [LastLayerStatistics(means, one[0], gradient) for one in measured[: len(parts)]]


def _measured(
    net: nn.Module,
    layer: nn.Linear,
    pieces: Sequence[tuple[Source, Tensor]],
    groups: int,
    loss: LossFunction,
) -> list[tuple[LastLayer, Tensor, Tensor]]:
    """Return factors, summed gradients and summed losses of each piece, given its groups."""
    if all(isinstance(source, Samples) for source, _ in pieces):
        sums = [GroupSums(group, groups) for _, group in pieces]
        sets = [(source.x, source.y) for source, _ in pieces if isinstance(source, Samples)]
        layers = last_layers(net, layer, sets, lambda k, *chunk: sums[k].add(*chunk), loss)
        return [(one, *each.total(one)) for one, each in zip(layers, sums, strict=True)]
    found = []
    for source, group in pieces:
        one = _layer_of(net, layer, source, loss)
        found.append((one, *group_sums(one, group, groups)))
    return found


def _layer_of(net: nn.Module, layer: nn.Linear, source: Source, loss: LossFunction) -> LastLayer:
    if isinstance(source, Stream):
        return stream_layer(net, layer, source, loss)
    return last_layers(net, layer, [(source.x, source.y)], loss=loss)[0]


def choose_over_ranks(
    inputs: Sequence[ProgramInputs],
    granularity: str,
    solver: str | SolverFunction,
    generator: torch.Generator | None,
    ranks: Ranks,
    *,
    drawn: bool = True,
) -> list[Choice]:
    """Choose the weights of samples that are distributed over ranks.

    Parameters
    ----------
    inputs : sequence of ProgramInputs
        Inputs of each part of this rank, with the statistics of all groups.
    granularity : {"sample", "group"}
    solver : str or callable
    generator : torch.Generator, optional
        Draws samples by group; the generator of the first rank is used.
    ranks : Ranks
    drawn : bool
        Whether samples are drawn with their group's share; otherwise the share is their weight.

    Returns
    -------
    list of Choice
        Choices of each part; all ranks have the same values except for the weights.
    """
    if granularity == "group":
        return _by_group(inputs, solver, required(generator) if drawn else None, ranks)
    shards, formulations = zip(*map(_columns, inputs), strict=True)
    formulation: Formulation = formulations[0]
    program = formulation.program
    found = solve_over_ranks(shards, program.offsets, len(program.gap_offsets), ranks, solver)
    reached = [
        _progress(each, weights) for each, weights in zip(inputs, found.weights, strict=True)
    ]
    progress = ranks.summed(torch.from_numpy(np.stack(reached))).numpy()
    objective, bound = (value + formulation.constant for value in (found.objective, found.bound))
    return [
        Choice(weights, progress, None, objective, bound, found.status) for weights in found.weights
    ]


def _computed(inputs: ProgramInputs) -> bool:
    """Return whether the columns of a part are computed on its device rather than stored."""
    current = inputs.membership.current
    return current.is_cuda and len(current) >= MANY


def _columns(inputs: ProgramInputs) -> tuple[Columns, Formulation]:
    """Return the columns of a part, with its program, or with that of groups as variables."""
    statistics = inputs.statistics
    if _computed(inputs) and isinstance(statistics, LastLayerStatistics):
        formulation = inputs.formulate(np.eye(len(statistics.losses)))
        rows = factor_rows(statistics, formulation.program.stacked())
        return DeviceColumns(rows), formulation
    formulation = inputs.formulate(statistics.alignment)
    program = formulation.program
    return HostColumns(program.gap_rows, program.floor_rows, program.cost), formulation


def _progress(inputs: ProgramInputs, weights: Floats) -> Floats:
    """Return the weighted sums of cosines with the groups over a part, (G,)."""
    statistics = inputs.statistics
    if _computed(inputs) and isinstance(statistics, LastLayerStatistics):
        return added_up(factor_rows(statistics, np.eye(len(statistics.losses))), weights)
    return statistics.progress(weights)


def _by_group(
    inputs: Sequence[ProgramInputs],
    solver: str | SolverFunction,
    generator: torch.Generator | None,
    ranks: Ranks,
) -> list[Choice]:
    """Choose the share of each current group; draw samples by it if there is a generator."""
    groups = inputs[0].membership.groups
    number = np.cumsum(groups.current) - 1  # index of each group among the current ones
    owners = [number[each.membership.current.cpu().numpy()] for each in inputs]
    count = int(groups.current.sum())
    sums = []
    for each, owner in zip(inputs, owners, strict=True):
        rows = [np.bincount(owner, row, count) for row in each.statistics.alignment]
        sums.append(np.stack(rows).ravel())
    columns = ranks.summed(torch.from_numpy(np.stack(sums))).numpy().reshape(len(groups), count)
    formulation = inputs[0].formulate(columns)
    seed = None if generator is None else int(torch.randint(2**62, (), generator=generator))

    def solve() -> dict[str, Any]:
        found = find_solver(solver)(formulation.program)
        told = {"objective": found.objective, "bound": found.bound, "status": found.status}
        return {**told, "weights": found.weights.tolist(), "seed": seed}

    told = on_first(ranks, solve)
    solution, constant = np.array(told["weights"]), formulation.constant
    shares = np.full(len(groups), np.nan)
    shares[groups.current] = solution
    first = shards_of(ranks.rank, ranks.size, len(inputs) * ranks.size).start
    return [
        Choice(
            _drawn(solution[owner], told["seed"], first + place),
            columns @ solution,
            shares,
            told["objective"] + constant,
            told["bound"] + constant,
            told["status"],
        )
        for place, owner in enumerate(owners)
    ]


def _drawn(chance: Floats, seed: int | None, shard: int) -> Floats:
    """Draw samples of a shard by probability, (n,): 0 or 1; without a seed, return ``chance``."""
    if seed is None:
        return chance
    state = np.random.SeedSequence([seed, shard]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0] >> 1))
    draw = torch.rand(len(chance), generator=generator, dtype=torch.float64)
    return (draw.numpy() < chance).astype(np.float64)


def on_first(ranks: Ranks, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Compute a document on the first rank and send it to all; errors are raised on all ranks."""
    found: dict[str, Any] = {}
    with ranks.alike():
        if ranks.rank == 0:
            found = compute()
    told, _ = unpacked(ranks.told(packed(found, {}))) if ranks.size > 1 else (found, {})
    return told
