"""A run divided into shards: its data, its steps, and copies of its net that stay identical.

The gradient of a batch is the sum of the gradients of its parts. The batch is the same as in an
undivided run. A shard's part of it consists of the samples that the shard has, and of every n-th
sample of the memory batch, for n shards; all ranks have the whole memory batch. Each part gives one
gradient; these are added in the order of the shards. So a run depends on the number of shards, but
not on the number of processes that compute them.

Batch normalisation works within a part, and its statistics are means over the parts: another number
of shards means another normalisation. For all other nets, the number of shards only changes the
order of additions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from faircil.compute import chunk_size
from faircil.data.stream import Task, TaskStream
from faircil.errors import DataError, UsageError, raise_all
from faircil.learners import LEARNERS
from faircil.learners.base import Batch, Learner, Whole
from faircil.nets import traits_of
from faircil.ranks import ALONE, Ranks, shards_of
from faircil.runs.config import RunConfig
from faircil.runs.state import RunState
from faircil.samples import Samples
from faircil.sharding import ShardedSamples, attach, dealt, sharded
from faircil.stopping import agree, noted
from faircil.weighting.choice import WeightResult
from faircil.weighting.groups import Seen
from faircil.weighting.measures import find_measure
from faircil.weighting.over_ranks import group_of_each
from faircil.weighting.weights import FairSampleWeights

DRIFTED = (
    "the processes rounded differently, as different processors do; the net of the first is used, "
    "and another run may differ in the last bits"
)


def check_ranks(config: RunConfig, ranks: Ranks) -> None:
    """Raise an error if this number of processes cannot share a run."""
    shards = config.settings.training.shards
    if shards % ranks.size:
        raise UsageError(
            f"{ranks.size} processes train together, and `shards={shards}` cannot be divided among "
            f"them equally; use `shards={ranks.size}` or a multiple"
        )


@dataclass(frozen=True)
class Cut:
    """How the samples of a task are divided into shards.

    Parameters
    ----------
    shards : int
    first : int
        Number of training samples of earlier tasks.
    chunk : int
        Number of test samples that pass through the net together.
    """

    shards: int
    first: int
    chunk: int

    def train(self, task: Task, ranks: Ranks) -> ShardedSamples:
        """Return a rank's view of the training samples."""
        return sharded(task.train, self.shards, ranks, first=self.first)

    def test(self, task: Task, ranks: Ranks) -> ShardedSamples:
        """Return a rank's view of the test samples."""
        return dealt(task.test, self.chunk, ranks)


def cuts(stream: TaskStream, config: RunConfig, device: torch.device) -> list[Cut]:
    """Return how each task of a stream is divided.

    Parameters
    ----------
    stream : TaskStream
    config : RunConfig
    device : torch.device
        Device of the net: test data is distributed by the chunks of its passes there.
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
    """Return a stream with the inputs of this rank's shards only; unchanged for a single shard.

    Parameters
    ----------
    stream : TaskStream
        Undivided, or already divided.
    config : RunConfig
    device : torch.device
        Device of the net.
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
    """Restore the inputs of samples in a state that was saved between steps."""
    sources = [task.train for task in stream.tasks]
    for samples in _waiting(state):
        attach(samples, sources, device)


def _waiting(state: RunState) -> Iterator[ShardedSamples]:
    """Yield samples without inputs: those of the task, and those that the learner keeps."""
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

    Samples are drawn as in an undivided run.
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
    """Ensure that all ranks have the same net; otherwise copy that of the first rank.

    All ranks make the same additions, but an optimizer on a different processor may round
    differently, and the difference would grow.
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
    """Return the net's parameters and statistics, and the optimizer's state of them."""
    kept: list[Tensor] = [*learner.net.parameters(), *learner.net.buffers()]
    if "optimizer" in vars(learner):
        for held in learner.optimizer.state.values():
            kept += [each for each in held.values() if isinstance(each, Tensor)]
    return kept


def _checksum(tensor: Tensor) -> Tensor:
    """Return a sum over the bits of a tensor, weighted by position."""
    bits = tensor.detach().contiguous().flatten().view(torch.uint8).to(torch.int64)
    place = torch.arange(len(bits), device=bits.device) % 65521 + 1
    return (bits * place).sum().cpu()


class DividedStep:
    """Performs the steps of one task.

    Parameters
    ----------
    learner : Learner
        A divisible one, in the task for which its current optimizer was created.
    shards : int
        Number of parts of a batch.
    ranks : Ranks
        Processes that share the parts.
    """

    def __init__(self, learner: Learner, shards: int, ranks: Ranks) -> None:
        self._learner, self._shards, self._ranks = learner, shards, ranks
        self._trained = [each for each in learner.net.parameters() if each.requires_grad]
        norms = [each for each in learner.net.modules() if isinstance(each, _BatchNorm)]
        self._statistics = _present([one for n in norms for one in (n.running_mean, n.running_var)])
        self._counters = _present([norm.num_batches_tracked for norm in norms])

    def __call__(
        self,
        samples: Samples,
        index: Tensor,
        weight: Tensor | None,
        memory: Samples | None,
        memory_rows: Tensor | None,
    ) -> None:
        """Update the net once.

        Parameters
        ----------
        samples : Samples
            Samples of the task.
        index : Tensor of int64, shape (b,)
            Rows of the batch.
        weight : Tensor, shape (b,), or None
            Their weights.
        memory : Samples or None
            The memory batch.
        memory_rows : Tensor of int64, shape (k,), or None
            Its rows in the memory.
        """
        if not isinstance(samples, ShardedSamples):  # every rank has all of them
            samples = sharded(samples, self._shards, self._ranks)
        replayed = 0 if memory is None else len(memory)
        whole = Whole(len(index), replayed, samples.y[index])
        net, before = self._learner.net, traits_of(self._learner.net)
        net.train()
        statistics, steps = _flat(self._statistics), [int(each) for each in self._counters]
        gradients = []
        for shard in shards_of(self._ranks.rank, self._ranks.size, self._shards):
            current, places = samples.of_shard(shard, index)
            old = slice(shard, None, self._shards)
            part = Batch(
                current,
                index[places],
                None if weight is None else weight[places],
                None if memory is None else memory.take(old),
                None if memory_rows is None else memory_rows[old],
                whole=whole,
            )
            _set(self._statistics, statistics)
            if before.proceed is not None and before.passes is not None:
                before.proceed(before.passes + shard, 0)
            gradients.append(self._measured(part))
        total = self._ranks.summed(torch.stack(gradients))
        if before.proceed is not None and before.passes is not None:
            # The number of tokens in a step is exact in float32.
            tokens = total[len(total) - 3].to(torch.int64)
            before.proceed(before.passes + self._shards, (before.trained_tokens or 0) + tokens)
        for counter, count in zip(self._counters, steps, strict=True):
            counter.fill_(count + 1)
        self._finish(total)

    def _measured(self, part: Batch) -> Tensor:
        """Return a part's contribution to the step, flat; zero for a part without samples.

        It consists of the gradient, then the statistics of normalisations, and three numbers:
        tokens, whether the part has samples, and whether this rank is to stop.
        """
        net, stop = self._learner.net, float(noted() is not None)
        if len(part.current) + (0 if part.memory is None else len(part.memory)) == 0:
            nothing = [torch.zeros_like(each) for each in (*self._trained, *self._statistics)]
            return _flat([*nothing, self._trained[0].new_tensor([0, 0, stop])])
        found = torch.autograd.grad(
            self._learner.loss(part), self._trained, allow_unused=True, materialize_grads=True
        )
        ends = self._trained[0].new_tensor([0, 1, stop])
        ends[0] = traits_of(net).trained_tokens or 0
        return _flat([*found, *self._statistics, ends])

    def _finish(self, total: Tensor) -> None:
        """Update the net by the sum over all parts."""
        _, parts, stop = total[-3:].tolist()
        gradient = total[: sum(each.numel() for each in self._trained)]
        statistics = total[len(gradient) : -3]
        if parts:
            _set(self._statistics, statistics / parts)
        sizes = [each.numel() for each in self._trained]
        for parameter, part in zip(self._trained, torch.split(gradient, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._learner.update()
        if stop and self._ranks.size > 1:
            agree()


def _present(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    return [each for each in tensors if each is not None]


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([each.flatten() for each in tensors]) if tensors else torch.empty(0)


def _set(tensors: list[Tensor], flat: Tensor) -> None:
    """Copy the numbers of a flat tensor into tensors, in place."""
    sizes = [each.numel() for each in tensors]
    for tensor, part in zip(tensors, torch.split(flat, sizes), strict=True):
        tensor.copy_(part.view_as(tensor))
