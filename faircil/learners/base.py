"""What every learner does: begin a task, begin an epoch, step, end the task, predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators, chunk_size, map_chunks, thread_safe
from faircil.options import Options
from faircil.samples import Samples


@dataclass(frozen=True)
class Material:
    """What the steps of a task draw their batches from.

    Parameters
    ----------
    current : Samples
        The samples that an epoch passes through, n.
    memory : Samples or None
        The samples that are replayed beside them, m.
    """

    current: Samples
    memory: Samples | None = None


@dataclass(frozen=True)
class Batch:
    """What one step trains on.

    Parameters
    ----------
    current : Samples
        b samples; may be none where there is memory.
    rows : Tensor of int64, shape (b,)
        Their rows in the material, to look up what was prepared for them.
    weight : Tensor, shape (b,), or None
        Their weights; None: all 1.
    memory : Samples or None
        k replayed samples.
    memory_rows : Tensor of int64, shape (k,), or None
        Their rows in the material's memory.
    noise : Tensor or None
        Random numbers that the learner has drawn for the step, see ``Learner.prepared``.
    """

    current: Samples
    rows: Tensor
    weight: Tensor | None = None
    memory: Samples | None = None
    memory_rows: Tensor | None = None
    noise: Tensor | None = None

    @property
    def x(self) -> Tensor:
        """Inputs of the current samples, then of the replayed ones, (b + k, ...)."""
        return self.current.x if self.memory is None else torch.cat([self.current.x, self.memory.x])

    @property
    def y(self) -> Tensor:
        """Classes of the current samples, then of the replayed ones, (b + k,)."""
        return self.current.y if self.memory is None else torch.cat([self.current.y, self.memory.y])

    def split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Part values of ``x``, (b + k, ...), into those of current and of replayed samples."""
        return values[: len(self.current)], values[len(self.current) :]

    def weighted_mean(self, losses: Tensor) -> Tensor:
        """Return ``mean(w · loss)`` of losses of the current samples, (b,); 0 if there is none.

        The mean is over the batch, whatever its weights add up to.
        """
        if len(losses) == 0:
            return losses.sum()
        return losses.mean() if self.weight is None else (self.weight * losses).mean()


class Learner:
    """Trains on the current task alone; most methods override :meth:`loss` and nothing else.

    The verbs are called in this order: for every task :meth:`begin_task`; for every epoch
    :meth:`begin_epoch` and for every batch :meth:`step`; at the end of the task :meth:`remember`
    and :meth:`end_task`, then :meth:`predict`. What a method is called and needs is in its row,
    :class:`faircil.learners.Method`.

    Parameters
    ----------
    net : Module
        Returns logits over all classes, seen or not.
    settings : Options
        An instance of the learner's ``options``.
    generators : Generators
        Whatever the learner draws, it draws from these.
    """

    options: ClassVar[type[Options]] = Options
    graphable: ClassVar[bool] = True  # a step is the same kernels for every batch of a shape
    # Measures that a method with a fairness criterion of its own follows; None: it has none, and
    # only a weighting follows the measure of the run.
    follows: ClassVar[tuple[str, ...] | None] = None
    # Whether the groups of the run's measure are split by the attribute; set by the run.
    by_attribute: bool = True

    settings: Options

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        self.net = net
        self.settings = settings
        self.generators = generators
        self.optimizer = self.new_optimizer()
        self.old: tuple[int, ...] = ()  # classes of the tasks before
        self.new: tuple[int, ...] = ()  # classes of the current task that are none of them

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer of a task."""
        return torch.optim.SGD(
            self.net.parameters(),
            lr=self.settings.lr,
            momentum=self.settings.momentum,
            fused=True,
        )

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Start a task with a fresh optimizer; say what it trains on.

        Parameters
        ----------
        train : Samples
            Training data of the task.
        buffer : ReplayBuffer
            Of the tasks before; empty in the first.
        """
        self.optimizer = self.new_optimizer()
        self.old += self.new
        self.new = tuple(sorted(set(train.y.tolist()) - set(self.old)))
        return Material(train, buffer.samples)

    def begin_epoch(self, epoch: int, epochs: int) -> Tensor | None:
        """Prepare epoch 1, 2, … of ``epochs``.

        Returns
        -------
        Tensor of int64, or None
            Rows of the material's current samples in training order, where the method chooses
            them itself; None: all of them, shuffled.
        """
        del epoch, epochs
        return None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of one step."""
        losses = cross_entropy(self.net(batch.current.x), batch.current.y, reduction="none")
        return batch.weighted_mean(losses)

    def prepared(self, batch: Batch) -> Batch:
        """Return the batch with the random numbers that its step needs, drawn on the host.

        A step that is recorded must not draw: it would repeat the draws.
        """
        count = self.draws_for(batch)
        if batch.noise is not None or count is None:
            return batch
        noise = torch.rand(count, generator=self.generators.method)
        return replace(batch, noise=noise.to(batch.rows.device))

    def draws_for(self, batch: Batch) -> int | None:
        """Return how many random numbers the step of a batch needs; None if it draws nothing."""
        del batch
        return None

    def step(self, batch: Batch) -> None:
        """Update the net once: one forward and one backward pass."""
        self.net.train()
        self.optimizer.zero_grad()
        self.loss(batch).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Return the buffer with a part of the task that ends; unchanged if none is kept.

        Parameters
        ----------
        train : Samples
            Training data of the task, n samples.
        weights : Tensor, shape (n,), or None
            Weights of the task's last epoch; None: all 1.
        buffer : ReplayBuffer
            Of the tasks before.
        """
        del train, weights
        return buffer

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Do what is to be done before the net is evaluated; the buffer holds the task already."""

    def logits(self, x: Tensor) -> Tensor:
        """Return scores, (n, classes), of inputs (n, ...) that are few enough to pass at once.

        The largest is the prediction, and their softmax are probabilities; −inf for a class that
        cannot be. Called without gradients and with the net in eval mode; on several threads.
        """
        scores: Tensor = self.net(x)
        return scores

    def scores(self, x: Tensor) -> Tensor:
        """Return :meth:`logits` of any number of inputs, (n, ...)."""
        self.net.eval()
        with torch.no_grad():
            size, threads = chunk_size(x.device), thread_safe(self.net)
            parts = map_chunks(lambda rows: self.logits(x[rows]), len(x), size, threads=threads)
            return torch.cat(parts) if parts else self.logits(x)

    def predict(self, x: Tensor) -> Tensor:
        """Return the predicted class, (n,), of inputs (n, ...)."""
        return self.scores(x).argmax(dim=1)
