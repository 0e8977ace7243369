"""Training steps divided among shards: the gradient of a batch is the sum of those of its parts.

A batch is the one that an undivided run would train on. A shard's part of it is the samples that
the shard has, and every so many-th sample of the memory batch, of which every rank has all. Each
part gives one gradient; these are added up in the order of the shards. So a run follows from the
number of shards, and not from the number of processes that compute them.

Batch normalisation works within a part, and its statistics are the mean over the parts: with more
shards it is another normalisation. For all other nets the number of shards changes the order of
additions and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from faircil.learners.base import Batch, Learner, Whole
from faircil.nets import traits_of
from faircil.ranks import Ranks, shards_of
from faircil.samples import Samples
from faircil.sharding import ShardedSamples, sharded
from faircil.stopping import agree, noted


class DividedStep:
    """Makes the steps of one task.

    Parameters
    ----------
    learner : Learner
        A divisible one, in the task that its current optimizer is for.
    shards : int
        Parts of a batch.
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
            Of the task.
        index : Tensor of int64, shape (b,)
            Those of the batch.
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
            # A number of tokens in a step is exact in float32.
            tokens = total[len(total) - 3].to(torch.int64)
            before.proceed(before.passes + self._shards, (before.trained_tokens or 0) + tokens)
        for counter, count in zip(self._counters, steps, strict=True):
            counter.fill_(count + 1)
        self._finish(total)

    def _measured(self, part: Batch) -> Tensor:
        """Return what a part adds to the step, flat; a part without samples adds nothing.

        These are its gradient, the statistics of normalisations after it, and three numbers: its
        tokens, whether it has samples, and whether this rank is to stop.
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
        """Update the net by what all parts add up to."""
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
    """Give tensors, in place, the numbers of a flat one."""
    sizes = [each.numel() for each in tensors]
    for tensor, part in zip(tensors, torch.split(flat, sizes), strict=True):
        tensor.copy_(part.view_as(tensor))
