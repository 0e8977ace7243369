"""The learner interface: begin a task, begin an epoch, step, end the task, predict."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# With the classes below, what the file of a learner needs, from one place.
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
    """The data that batches of a task are drawn from.

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
    """The batch that a part is of, where a step is divided.

    Parameters
    ----------
    current, memory : int
        Its numbers of samples, b and k.
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
        The batch that this is a part of; None: it is all of it. Means are sums over the part,
        divided by the number of the whole: added up over parts, they are the means of the whole.
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
    """Trains on the current task alone; most methods override :meth:`loss` and nothing else.

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
    # Measures supported by a method with its own fairness criterion; None: it has none, and only
    # a weighting uses the measure of the run.
    follows: ClassVar[Collection[str] | None] = None
    # Whether a task is learned in one pass, by `learn`, instead of or after epochs of steps.
    one_pass: ClassVar[bool] = False
    # Rows per forward pass on a CPU, so few that their activations stay in cache.
    chunk: ClassVar[int] = CHUNK
    # Whether samples with an unknown attribute value can be learned.
    takes_unknown: ClassVar[bool] = False
    # Whether a step can be divided: the loss of a batch is the sum of those of its parts, if means
    # are taken by the batch, and inputs of a task are asked for by `Samples.take` and `mapped`
    # alone. A subclass that is divisible, too, says so itself.
    divisible: ClassVar[bool] = False
    # Whether it keeps inputs of finished tasks itself, beside the buffer.
    keeps_inputs: ClassVar[bool] = False
    # Set by the run: its fairness measure, the weight of the loss beside the disparity, and if
    # inputs are images, their channels, height and width.
    measure: Measure = MEASURES["eo"]
    lam: float = 0.5
    image: tuple[int, int, int] | None = None

    settings: Options

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        self.net = net
        self.settings = settings
        self.generators = generators
        if not self.one_pass:
            self.new_optimizer()  # torch imports a lot with the first: that is no part of training
        self.old: tuple[int, ...] = ()  # classes of earlier tasks
        self.new: tuple[int, ...] = ()  # classes of the current task that did not occur before

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of the task, made when it is needed: learning in one pass needs none."""
        return self.new_optimizer()

    @classmethod
    def why_unused(cls, settings: Options, name: str) -> str | None:
        """Say why a setting of the run has no effect with these own settings; None if it has one.

        Asked for settings of the learner, of training and of the weighting, by name. A user who
        gives one without effect is told so.
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
        """Make room for further classes, between two tasks; what is known stays as it is.

        Parameters
        ----------
        classes : int
            Number of classes, at least as many as there are.
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
        """Return what is learned of the rows of a task, before anything counts them, and notes."""
        return train, ()

    @property
    def takes_host_rows(self) -> bool:
        """Whether :meth:`learn` takes rows in the host's memory, too, if the net is on a GPU."""
        return False

    @property
    def by_attribute(self) -> bool:
        """Whether the groups of the run's measure are split by the attribute."""
        return self.measure.by_attribute

    def learn(self, train: Samples) -> PassRecord:
        """Learn a task in one pass; for methods with ``one_pass``."""
        raise NotImplementedError

    def training_epochs(self, epochs: int) -> int:
        """Return how many epochs of steps the current task takes if ``epochs`` are set.

        A method with ``one_pass`` takes none; if it trains something first, the pass comes last.
        """
        return 0 if self.one_pass else epochs

    def review(self, last: PassRecord) -> PassRecord:
        """Return the record of the last task with what is computed only once, at the end."""
        return last

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor | None:
        """Prepare epoch 1, 2, … of ``epochs``.

        Returns
        -------
        Tensor of int64, or None
            Rows of the material's current samples in training order, if the method chooses them;
            None: all of them, shuffled.
        """
        del epoch, epochs
        return None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of one step."""
        losses = cross_entropy(self.net(batch.current.x), batch.current.y, reduction="none")
        return batch.weighted_mean(losses)

    def prepared(self, batch: Batch) -> Batch:
        """Return the batch with the random numbers that its step needs, drawn on the host.

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
        """Change the net by the gradient that its parameters have."""
        self.optimizer.step()

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Return the buffer with samples of the finished task added, if the method keeps any.

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
        """Finish the task before evaluation; the buffer already contains its samples."""

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
