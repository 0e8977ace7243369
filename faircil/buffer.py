"""The replay buffer: a few samples of every group seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.errors import UsageError, unknown_name
from faircil.samples import Samples, concatenate, rows_of_groups
from faircil.weighting.groups import find_groups

Rule = Callable[[Tensor, torch.Generator], Tensor]


def random_order(weights: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions in random order, whatever the weights."""
    return torch.randperm(len(weights), generator=generator).to(weights.device)


def large_weight_first(weights: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions by falling weight, ties in random order."""
    order = random_order(weights, generator)
    return order[torch.argsort(weights[order], descending=True, stable=True)]


RULES: dict[str, Rule] = {"random": random_order, "large-weight-first": large_weight_first}


@dataclass(frozen=True)
class ReplayBuffer:
    """Samples of past tasks, at most ``quota`` of each group (class × attribute value).

    Parameters
    ----------
    quota : int
        Samples per group.
    samples : Samples or None
        None before the first task has ended.
    """

    quota: int
    samples: Samples | None = None

    def with_samples(self, new: Samples) -> ReplayBuffer:
        """Return the buffer with samples added that were chosen elsewhere."""
        samples = new if self.samples is None else concatenate([self.samples, new])
        return ReplayBuffer(self.quota, samples)

    def with_task(
        self,
        train: Samples,
        weights: Tensor | None,
        generator: torch.Generator,
        rule: str = "random",
    ) -> ReplayBuffer:
        """Return the buffer with a part of each group of ``train`` added.

        Parameters
        ----------
        train : Samples
            Training data of the task that has ended, n samples.
        weights : Tensor, shape (n,), optional
            Weights of the task's last epoch; None: all 1.
        generator : torch.Generator
        rule : str
            A name in :data:`RULES`: which samples of a group stay.
        """
        if rule not in RULES:
            raise UsageError(unknown_name("buffer rule", rule, RULES))
        weights = torch.ones(len(train)) if weights is None else weights
        weights = weights.to(train.y.device)
        membership = find_groups(train, None, by_attribute=train.z is not None)
        chosen = [
            rows[RULES[rule](weights[rows], generator)[: self.quota]]
            for rows in rows_of_groups(membership.current, len(membership.groups))
        ]
        return self.with_samples(train.take(torch.cat(chosen)))


class ReplayBatches:
    """Endless batches of a buffer: without replacement, reshuffled at each pass.

    Parameters
    ----------
    memory : Samples
    batch_size : int
    generator : torch.Generator
    """

    def __init__(self, memory: Samples, batch_size: int, generator: torch.Generator) -> None:
        self._memory, self._batch_size, self._generator = memory, batch_size, generator
        self._batches: list[Tensor] = []

    @property
    def per_pass(self) -> int:
        """Number of batches that make one pass; the last may be smaller."""
        return -(-len(self._memory) // self._batch_size)

    def next(self) -> tuple[Samples, Tensor]:
        """Return the next batch, and its rows in the memory."""
        if not self._batches:
            order = torch.randperm(len(self._memory), generator=self._generator)
            self._batches = list(torch.split(order.to(self._memory.y.device), self._batch_size))
        rows = self._batches.pop(0)
        return self._memory.take(rows), rows
