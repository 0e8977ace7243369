"""The learner interface: begin a task, begin an epoch, step, end the task, predict."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# Everything that the module of a learner needs can be imported from here.
from faircil.buffer import ReplayBuffer as ReplayBuffer
from faircil.compute import CHUNK, Generators as Generators, chunk_size, map_chunks, thread_safe
from faircil.moments import PassRecord as PassRecord
from faircil.nets import grow_outputs
from faircil.options import (
    BufferOptions as BufferOptions,
    Count as Count,
    Natural as Natural,
    NonNegative as NonNegative,
    Options as Options,
    Positive as Positive,
    ReplayOptions as ReplayOptions,
    Share as Share,
    TauOptions as TauOptions,
)
from faircil.samples import (
    Samples as Samples,
    concatenate as concatenate,
    group_counts as group_counts,
    rows_of_groups as rows_of_groups,
    unique_rows as unique_rows,
)
from faircil.weighting.measures import MEASURES, Measure


@dataclass(frozen=True)
class Material:
    """The data from which the batches of a task are drawn.

    Parameters
    ----------
    current : Samples
        n samples; an epoch is one pass over them.
    memory : Samples or None
        m samples to replay.
    """

    current: Samples
    memory: Samples | None = None


@dataclass(frozen=True)
class Whole:
    """Describes the whole batch when a step is divided into parts.

    Parameters
    ----------
    current, memory : int
        Its numbers of current and replayed samples, b and k.
    y : Tensor of int64, shape (b,)
        Classes of its current samples.
    """

    current: int
    memory: int
    y: Tensor


@dataclass(frozen=True)
class Batch:
    """The data of one training step, or a part of it.

    Parameters
    ----------
    current : Samples
        b samples; b may be 0 if there is memory.
    rows : Tensor of int64, shape (b,)
        Their rows in the material, to look up precomputed values.
    weight : Tensor, shape (b,), or None
        Their weights; None means all 1.
    memory : Samples or None
        k replayed samples.
    memory_rows : Tensor of int64, shape (k,), or None
        Their rows in the material's memory.
    noise : Tensor or None
        Random numbers drawn for the step, see ``Learner.prepared``.
    whole : Whole or None
        The batch of which this is a part; None: this is the whole batch. Means are sums over the
        part divided by the size of the whole, so those of all parts add up to the whole's means.
    """

    current: Samples
    rows: Tensor
    weight: Tensor | None = None
    memory: Samples | None = None
    memory_rows: Tensor | None = None
    noise: Tensor | None = None
    whole: Whole | None = None

    @property
    def size(self) -> int:
        """Number of current samples of the whole batch, b."""
        return len(self.current) if self.whole is None else self.whole.current

    @property
    def labels(self) -> Tensor:
        """Classes of the current samples of the whole batch, (b,)."""
        return self.current.y if self.whole is None else self.whole.y

    @property
    def x(self) -> Tensor:
        """Inputs of the current samples, then of the replayed ones, (b + k, ...)."""
        return self.current.x if self.memory is None else torch.cat([self.current.x, self.memory.x])

    @property
    def y(self) -> Tensor:
        """Classes of the current samples, then of the replayed ones, (b + k,)."""
        return self.current.y if self.memory is None else torch.cat([self.current.y, self.memory.y])

    def split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Split values of ``x``, (b + k, ...), into those of current and replayed samples."""
        return values[: len(self.current)], values[len(self.current) :]

    def weighted_mean(self, losses: Tensor) -> Tensor:
        """Return ``mean(w · loss)`` over the current samples' losses, (b,); 0 if there are none.

        The divisor is the batch size, not the sum of the weights.
        """
        if len(losses) == 0:
            return losses.sum()
        weighted = losses if self.weight is None else self.weight * losses
        return weighted.mean() if self.whole is None else weighted.sum() / self.size

    def memory_mean(self, losses: Tensor) -> Tensor:
        """Return the mean over the replayed samples' losses, (k,) or (k, numbers)."""
        if self.whole is None:
            return losses.mean()
        return losses.sum() / (self.whole.memory * losses.shape[1:].numel())

    def mean(self, losses: Tensor) -> Tensor:
        """Return the mean over losses of current and replayed samples together, (b + k,)."""
        if self.whole is None:
            return losses.mean()
        return losses.sum() / (self.whole.current + self.whole.memory)


class Learner:
    """Trains on the current task only; most methods override just :meth:`loss`.

    A run calls :meth:`begin_task` for every task, :meth:`begin_epoch` for every epoch, :meth:`step`
    for every batch, and :meth:`remember`, :meth:`end_task` and :meth:`predict` at the end of the
    task. The name and the properties of a method are in its registry row,
    :class:`faircil.learners.Method`.

    Parameters
    ----------
    net : Module
        Returns logits over all classes, seen or not.
    settings : Options
        An instance of the learner's ``options``.
    generators : Generators
        Sources of all random numbers of the learner.
    """

    options: ClassVar[type[Options]] = Options
    graphable: ClassVar[bool] = True  # a step runs the same kernels for every batch of a shape
    # Measures supported by a method with its own fairness criterion; None: it has no criterion,
    # and only a weighting uses the run's measure.
    follows: ClassVar[Collection[str] | None] = None
    # Whether a task is learned in one pass, by `learn`, instead of or after epochs of steps.
    one_pass: ClassVar[bool] = False
    # Rows per forward pass on a CPU, few enough for their activations to stay in cache.
    chunk: ClassVar[int] = CHUNK
    # Whether samples with an unknown attribute value can be learned.
    takes_unknown: ClassVar[bool] = False
    # Whether a step can be divided: the loss of a batch is the sum of the losses of its parts. For
    # this, means must be those of the batch, and a task's inputs may be accessed only by
    # `Samples.take` and `mapped`. Subclasses do not inherit this: each declares it itself.
    divisible: ClassVar[bool] = False
    # Whether it stores inputs of finished tasks itself, in addition to the buffer.
    keeps_inputs: ClassVar[bool] = False
    # Set by the run: its fairness measure, the weight of the mean loss against the disparity, and
    # for images their channels, height and width.
    measure: Measure = MEASURES["eo"]
    lam: float = 0.5
    image: tuple[int, int, int] | None = None

    settings: Options

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        self.net = net
        self.settings = settings
        self.generators = generators
        if not self.one_pass:
            self.new_optimizer()  # the first one imports much of torch: not part of training
        self.old: tuple[int, ...] = ()  # classes of earlier tasks
        self.new: tuple[int, ...] = ()  # classes of the current task that did not occur before

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of the task, created on first use: one-pass learning needs none."""
        return self.new_optimizer()

    @classmethod
    def why_unused(cls, settings: Options, name: str) -> str | None:
        """Return why a setting has no effect under the learner's ``settings``; None if it has one.

        Called with names of settings of the learner, of training and of the weighting. Users who
        set one without effect are told the reason.
        """
        del settings, name
        return None

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Create the optimizer of a task."""
        return torch.optim.SGD(
            self.net.parameters(),
            lr=self.settings.lr,
            momentum=self.settings.momentum,
            fused=True,
        )

    def grow(self, classes: int) -> None:
        """Add outputs for further classes between two tasks; existing outputs are unchanged.

        Parameters
        ----------
        classes : int
            New number of classes, at least the current one.
        """
        seed = int(torch.randint(2**62, (), generator=self.generators.method))
        grow_outputs(self.net, classes, seed)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start a task with a new optimizer; return its training data.

        Parameters
        ----------
        train : Samples
            Training data of the task.
        buffer : ReplayBuffer
            Buffer of earlier tasks; empty in the first.
        """
        vars(self).pop("optimizer", None)
        self.old += self.new
        self.new = tuple(sorted(set(train.y.tolist()) - set(self.old)))
        return Material(train, buffer.samples)

    def admitted(self, train: Samples) -> tuple[Samples, tuple[str, ...]]:
        """Return the rows of a task to learn, filtered before they are counted, and notes."""
        return train, ()

    @property
    def takes_host_rows(self) -> bool:
        """Whether :meth:`learn` also takes rows in host memory if the net is on a GPU."""
        return False

    @property
    def by_attribute(self) -> bool:
        """Whether the groups of the run's measure are split by the attribute."""
        return self.measure.by_attribute

    def learn(self, train: Samples) -> PassRecord:
        """Learn a task in one pass; for methods with ``one_pass``."""
        raise NotImplementedError

    def training_epochs(self, epochs: int) -> int:
        """Return the number of training epochs of the current task if ``epochs`` are set.

        0 for a method with ``one_pass``, unless it trains something before its pass.
        """
        return 0 if self.one_pass else epochs

    def review(self, last: PassRecord) -> PassRecord:
        """Complete the record of the last task with results computed only at the end."""
        return last

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor | None:
        """Prepare epoch 1, 2, … of ``epochs``.

        Returns
        -------
        Tensor of int64, or None
            Rows of the material's current samples in training order, if the method chooses them;
            None: all rows, shuffled.
        """
        del epoch, epochs
        return None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of one step."""
        losses = cross_entropy(self.net(batch.current.x), batch.current.y, reduction="none")
        return batch.weighted_mean(losses)

    def prepared(self, batch: Batch) -> Batch:
        """Return the batch with the random numbers for its step, drawn on the host.

        A step recorded as a CUDA graph must not draw: replays would repeat the draws.
        """
        count = self.draws_for(batch)
        if batch.noise is not None or count is None:
            return batch
        noise = torch.rand(count, generator=self.generators.method)
        return replace(batch, noise=noise.to(batch.rows.device))

    def draws_for(self, batch: Batch) -> int | None:
        """Return the number of random numbers that a step needs; None if it draws nothing."""
        del batch
        return None

    def step(self, batch: Batch) -> None:
        """Update the net once: one forward and one backward pass."""
        self.net.train()
        self.optimizer.zero_grad()
        self.loss(batch).backward()  # type: ignore[no-untyped-call]
        self.update()

    def update(self) -> None:
        """Update the net by the gradients of its parameters."""
        self.optimizer.step()

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Return the buffer with samples of the finished task added, if the method keeps a buffer.

        Parameters
        ----------
        train : Samples
            Training data of the task, n samples.
        weights : Tensor, shape (n,), or None
            Weights of the task's last epoch; None means all 1.
        buffer : ReplayBuffer
            Buffer of earlier tasks.
        """
        del train, weights
        return buffer

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Finish the task before evaluation; the buffer already contains samples of the task."""

    def logits(self, x: Tensor) -> Tensor:
        """Return scores, (n, classes), for one chunk of inputs, (n, ...).

        The largest score is the prediction and the softmax gives probabilities; −inf for an
        impossible class. Called without gradients, in eval mode, on several threads.
        """
        scores: Tensor = self.net(x)
        return scores

    def scores(self, x: Tensor) -> Tensor:
        """Return :meth:`logits` for any number of inputs, (n, ...)."""
        self.net.eval()
        with torch.no_grad():
            size, threads = chunk_size(x.device, self.chunk), thread_safe(self.net)
            parts = map_chunks(lambda rows: self.logits(x[rows]), len(x), size, threads=threads)
            return torch.cat(parts) if parts else self.logits(x)

    def predict(self, x: Tensor) -> Tensor:
        """Return the predicted classes, (n,), of inputs (n, ...)."""
        return self.scores(x).argmax(dim=1)
