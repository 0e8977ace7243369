"""The data of a run divided among shards, and copies of its net that stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor, nn

from faircil.compute import chunk_size
from faircil.data.stream import Task, TaskStream
from faircil.errors import DataError, UsageError, raise_all
from faircil.learners import LEARNERS, Learner
from faircil.ranks import ALONE, Ranks
from faircil.runs.config import RunConfig
from faircil.runs.state import RunState
from faircil.samples import Samples
from faircil.sharding import ShardedSamples, attach, dealt, sharded
from faircil.weighting.groups import Seen
from faircil.weighting.measures import find_measure
from faircil.weighting.over_ranks import group_of_each
from faircil.weighting.weights import FairSampleWeights, WeightResult

DRIFTED = (
    "the processes rounded differently, as different processors do; the net of the first was "
    "taken, and another run may differ in the last bits"
)


def check_ranks(config: RunConfig, ranks: Ranks) -> None:
    """Raise if so many processes cannot make a run together."""
    shards = config.settings.training.shards
    if shards % ranks.size:
        raise UsageError(
            f"{ranks.size} processes train together, and `shards={shards}` cannot be divided among "
            f"them equally; use `shards={ranks.size}` or a multiple"
        )


@dataclass(frozen=True)
class Cut:
    """How the samples of a task are cut into shards.

    Parameters
    ----------
    shards : int
    first : int
        Training samples of earlier tasks.
    chunk : int
        Test samples that pass through the net together.
    """

    shards: int
    first: int
    chunk: int

    def train(self, task: Task, ranks: Ranks) -> ShardedSamples:
        """Return the training samples as a rank has them."""
        return sharded(task.train, self.shards, ranks, first=self.first)

    def test(self, task: Task, ranks: Ranks) -> ShardedSamples:
        """Return the test samples as a rank has them."""
        return dealt(task.test, self.chunk, ranks)


def cuts(stream: TaskStream, config: RunConfig, device: torch.device) -> list[Cut]:
    """Return how each task of a stream is cut.

    Parameters
    ----------
    stream : TaskStream
    config : RunConfig
    device : torch.device
        Where the net is: test data is dealt out by the chunks of its passes there.
    """
    shards = config.settings.training.shards
    chunk = chunk_size(device, LEARNERS[config.method].learner.chunk)
    sizes = [len(task.train) for task in stream.tasks]
    few = [number for number, size in enumerate(sizes, start=1) if size < shards]
    raise_all(
        [
            f"task {number} has {sizes[number - 1]} training samples, too few for "
            f"`shards={shards}`; use fewer"
            for number in few
        ],
        DataError,
    )
    return [Cut(shards, first, chunk) for first in accumulate([0, *sizes[:-1]])]


def divided(
    stream: TaskStream, config: RunConfig, device: torch.device, ranks: Ranks = ALONE
) -> TaskStream:
    """Return a stream with the inputs of this rank's shards alone; the same if there is one shard.

    Parameters
    ----------
    stream : TaskStream
        Whole, or divided already.
    config : RunConfig
    device : torch.device
        Where the net is.
    ranks : Ranks
    """
    if config.settings.training.shards == 1 or isinstance(stream.tasks[0].train, ShardedSamples):
        return stream
    tasks = [
        replace(task, train=cut.train(task, ranks), test=cut.test(task, ranks))
        for task, cut in zip(stream.tasks, cuts(stream, config, device), strict=True)
    ]
    return replace(stream, tasks=tuple(tasks))


def attach_inputs(state: RunState, stream: TaskStream, device: torch.device) -> None:
    """Give the samples of a state that was saved between steps their inputs again."""
    sources = [task.train for task in stream.tasks]
    for samples in _waiting(state):
        attach(samples, sources, device)


def _waiting(state: RunState) -> Iterator[ShardedSamples]:
    """Yield samples without inputs: those of the task, and what the learner keeps of any."""
    held: list[object] = [] if state.task is None else [state.task.material.current]
    for value in vars(state.learner).values():
        held += value if isinstance(value, list) else [value]
    for one in held:
        if isinstance(one, ShardedSamples) and len(one.x) != int(one.mine.sum()):
            yield one


def weigh_divided(
    weigh: FairSampleWeights,
    net: nn.Module,
    current: Samples,
    memory: Samples,
    *,
    seen: Seen,
    generator: torch.Generator,
) -> WeightResult:
    """Return the weights of all samples of a task on every rank; each computes those of its own.

    Samples are drawn as an undivided run draws them.
    """
    assert isinstance(current, ShardedSamples)
    parts = [current.of_shard(shard)[0] for shard in current.local_shards]
    results = weigh.of_shards(net, parts, memory, current.ranks, seen=seen, drawn=False)
    weights = current.together([result.weights for result in results])
    by_attribute = find_measure(weigh.measure).by_attribute
    group = group_of_each(current, results[0].groups, by_attribute=by_attribute)
    if (shares := results[0].shares) is not None:
        chance = torch.from_numpy(shares)[group.cpu()]
        draw = torch.rand(len(chance), generator=generator, dtype=torch.float64)
        weights = (draw < chance).to(weights)
    return replace(results[0], weights=weights, group=group)


def same_net(state: RunState, ranks: Ranks) -> None:
    """Make sure that all ranks have one net; where they have not, take that of the first.

    All ranks make the same additions, but an optimizer on another kind of processor may round
    otherwise, and the difference would grow.
    """
    if ranks.size == 1:
        return
    tensors = _numbers(state.learner)
    sums = torch.stack([_checksum(each) for each in tensors])
    every = ranks.gathered(sums)
    if bool((every == every[0]).all()):
        return
    for tensor in tensors:
        ranks.copied(tensor)
    if DRIFTED not in state.notes:
        state.notes.append(DRIFTED)


def _numbers(learner: Learner) -> list[Tensor]:
    """Return the net's parameters and statistics, and what the optimizer keeps of them."""
    kept: list[Tensor] = [*learner.net.parameters(), *learner.net.buffers()]
    if "optimizer" in vars(learner):
        for held in learner.optimizer.state.values():
            kept += [each for each in held.values() if isinstance(each, Tensor)]
    return kept


def _checksum(tensor: Tensor) -> Tensor:
    """Return a sum over the bits of a tensor, each with a weight of its place."""
    bits = tensor.detach().contiguous().flatten().view(torch.uint8).to(torch.int64)
    place = torch.arange(len(bits), device=bits.device) % 65521 + 1
    return (bits * place).sum().cpu()
