"""The replay buffer, the rules that choose its samples, and the batches drawn from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from faircil.errors import DataError, UsageError, raise_all, whole_mistakes
from faircil.ranks import Ranks
from faircil.registry import Loaded, Registry, summary_of
from faircil.samples import Samples, concatenate, group_counts, rows_of_groups
from faircil.sharding import parts_together
from faircil.weighting.groups import find_groups


@dataclass(frozen=True)
class Candidates:
    """The samples of one group from which a buffer rule selects.

    Parameters
    ----------
    task : Samples
        Training data of the task that has ended.
    rows : Tensor of int64, shape (n,)
        Rows of the group, which share one class and attribute value.
    weights : Tensor, shape (n,)
        Their weights in the task's last epoch.
    quota : int
        Maximum number of samples to keep.
    task_features : callable
        Returns the features of the whole task.
    generator : torch.Generator
        Source of all random numbers of the rule, on the CPU.
    """

    task: Samples
    rows: Tensor
    weights: Tensor
    quota: int
    task_features: Callable[[], Tensor]
    generator: torch.Generator

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def samples(self) -> Samples:
        """The n samples."""
        return self.task.take(self.rows)

    def features(self) -> Tensor:
        """Return their features, (n, d), under the net at the end of the task.

        They are the inputs of the net's last layer, computed on first use.
        """
        return self.task_features()[self.rows]


RuleFunction = Callable[[Candidates], Tensor]


@dataclass(frozen=True)
class BufferRule:
    """A rule that chooses which samples of a group stay in the buffer.

    Parameters
    ----------
    order : callable
        Maps :class:`Candidates` to positions, int64, each at most once, by decreasing priority:
        the first ``quota`` are kept.
    summary : str
        One-line description.
    """

    order: Loaded[RuleFunction] = Loaded()
    summary: str = ""


def as_buffer_rule(piece: Any) -> BufferRule:
    """Build a registry row from a function; its docstring is the summary."""
    if isinstance(piece, BufferRule):
        return piece
    if not callable(piece):
        raise TypeError(f"expected a BufferRule or a function of Candidates, got {piece!r}")
    return BufferRule(piece, summary_of(piece))


def random_order(weights: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions in random order; the weights are ignored."""
    return torch.randperm(len(weights), generator=generator).to(weights.device)


def large_weight_first(weights: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions by decreasing weight, ties in random order."""
    order = random_order(weights, generator)
    return order[torch.argsort(weights[order], descending=True, stable=True)]


def keep_random(group: Candidates) -> Tensor:
    """Keep samples drawn at random."""
    return random_order(group.weights, group.generator)


def keep_large_weights(group: Candidates) -> Tensor:
    """Keep samples with the largest weights of the last epoch, ties drawn at random."""
    return large_weight_first(group.weights, group.generator)


_BUILT_IN = {
    "random": BufferRule(keep_random, "samples drawn at random"),
    "large-weight-first": BufferRule(
        keep_large_weights, "samples with the largest weights of the task's last epoch"
    ),
}
RULES: Registry[BufferRule] = Registry("buffer rule", "faircil.buffers", as_buffer_rule, _BUILT_IN)


@dataclass(frozen=True)
class ReplayBuffer:
    """Samples of past tasks, at most ``quota`` of each group (class × attribute value).

    If a group occurs in several tasks, new samples replace old ones such that the buffer of the
    group remains a random draw from all its samples seen so far. A buffer is immutable:
    :meth:`add` returns the next one.

    Parameters
    ----------
    quota : int
        Samples per group.
    samples : Samples or None
        None before the first task has ended.
    seen : mapping
        ``{(y, z, ...): n}``, the number of samples of each group passed to :meth:`add` so far.
        With the current task added, it is what the measure ``dp`` needs.

    Examples
    --------
    >>> buffer = ReplayBuffer(2)
    >>> for label in (0, 1):
    ...     buffer = buffer.add(Samples(torch.randn(5, 3), torch.full((5,), label)))
    >>> buffer.seen, len(buffer.as_dataset())
    ({(0,): 5, (1,): 5}, 4)
    """

    quota: int
    samples: Samples | None = None
    seen: Mapping[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if whole_mistakes(quota=self.quota) or self.quota > sys.maxsize:
            raise UsageError(
                f"quota is {self.quota!r}, expected a whole number of samples to keep of each group"
            )

    def add(
        self,
        train: Samples,
        weights: Tensor | None = None,
        *,
        seed: int = 0,
        rule: str | RuleFunction = "random",
        features: Callable[[], Tensor] | None = None,
        ranks: Ranks | None = None,
    ) -> ReplayBuffer:
        """Return the buffer after a task, with up to ``quota`` samples of each of its groups.

        Parameters
        ----------
        train : Samples
            Training data of the task. For a dataset larger than memory, the inputs may be row
            numbers.
        seed : int
            Together with the number of samples seen before, it determines the choice.
        weights, rule, features
            See :meth:`with_task`.
        ranks : Ranks, optional
            Processes that train together, as ``Ranks.of()``. Each passes its own part of the task
            with its weights and features, and all get the same buffer, chosen from all parts.
            Labels are exchanged, and the inputs of the samples that are kept.
        """
        if not isinstance(train, Samples):
            raise UsageError(
                f"a buffer takes Samples, not a {type(train).__name__}; give "
                "Samples(x, y, z), for a dataset the rows to keep"
            )
        raise_all(whole_mistakes(seed=seed))
        state = np.random.SeedSequence([seed, sum(self.seen.values())])
        generator = torch.Generator().manual_seed(int(state.generate_state(1)[0]))
        if ranks is None:
            return self.with_task(train, weights, generator, rule, features)
        with ranks.alike():
            _check_weights(weights, train)
        whole = parts_together(train, ranks)
        every = None if weights is None else ranks.rows(weights)
        shown = None if features is None else partial(_all_features, features, ranks)
        return self.with_task(whole, every, generator, rule, shown)

    def as_dataset(self) -> TensorDataset:
        """Return a dataset of (x, y), or of (x, y, z) if there is an attribute."""
        if self.samples is None:
            raise UsageError("the buffer is empty; add the samples of a task first")
        parts = (self.samples.x, self.samples.y, self.samples.z)
        return TensorDataset(*(part for part in parts if part is not None))

    def with_samples(self, new: Samples) -> ReplayBuffer:
        """Return the buffer with given samples added."""
        samples = new if self.samples is None else concatenate([self.samples, new])
        return replace(self, samples=samples)

    def with_task(
        self,
        train: Samples,
        weights: Tensor | None,
        generator: torch.Generator,
        rule: str | RuleFunction = "random",
        features: Callable[[], Tensor] | None = None,
    ) -> ReplayBuffer:
        """Return the buffer with some samples of each group of ``train`` added.

        Parameters
        ----------
        train : Samples
            Training data of the task that has ended, n samples.
        weights : Tensor, shape (n,), optional
            Weights of the task's last epoch; None: all 1.
        generator : torch.Generator
        rule : str or callable
            A name in :data:`RULES`, or a function that chooses which samples of a group stay.
        features : callable, optional
            Returns the features of ``train``, (n, d); called at most once, if the rule needs them.
        """
        order = (RULES.find(rule) if isinstance(rule, str) else as_buffer_rule(rule)).order
        _check_weights(weights, train)
        weights = torch.ones(len(train)) if weights is None else weights
        if not len(train):
            return self
        weights = weights.to(train.y.device)
        membership = find_groups(train, None, by_attribute=train.z is not None)
        every = cache(_no_features if features is None else features)
        counts = group_counts(train)  # in the order of the groups
        kept, places = self._room_for(counts, generator)

        def chosen(rows: Tensor, most: int) -> Tensor:
            group = Candidates(train, rows, weights[rows], self.quota, every, generator)
            return rows[_checked(order(group), group)[:most]]

        groups = rows_of_groups(membership.current, len(membership.groups))
        new = train.take(torch.cat(list(map(chosen, groups, places))))
        seen = {key: self.seen.get(key, 0) + n for key, n in counts.items()}
        return replace(self, samples=kept, seen={**self.seen, **seen}).with_samples(new)

    def _room_for(
        self, counts: Mapping[tuple[int, ...], int], generator: torch.Generator
    ) -> tuple[Samples | None, list[int]]:
        """Return the samples that stay, and the maximum number of new samples for each group.

        Of all samples of a group seen so far, ``quota`` are drawn. Each new sample among them is
        added; the rest of the quota is drawn from the group's samples in the buffer.
        """
        places = [self.quota] * len(counts)
        if self.samples is None:
            return None, places
        there, keys = group_counts(self.samples), self.samples.keys().cpu()
        stays = torch.ones(len(keys), dtype=torch.bool)
        for number, (key, new) in enumerate(counts.items()):
            if key not in there:
                continue
            before = max(self.seen.get(key, 0), there[key])
            drawn = torch.randperm(before + new, generator=generator)[: self.quota]
            places[number] = int((drawn >= before).sum())
            rows = (keys == torch.tensor(key)).all(dim=1).nonzero().flatten()
            order = torch.randperm(len(rows), generator=generator)
            stays[rows[order[len(drawn) - places[number] :]]] = False
        if stays.all():
            return self.samples, places
        return self.samples.take(stays.to(self.samples.y.device)), places


def _check_weights(weights: object, train: Samples) -> None:
    """Raise a DataError if the weights do not fit the training data."""
    if weights is not None and not (isinstance(weights, Tensor) and weights.shape == train.y.shape):
        raise DataError(
            f"the weights are {shown(weights)}, expected a tensor of shape ({len(train)},): one "
            "for each sample of the task"
        )


def _all_features(features: Callable[[], Tensor], ranks: Ranks) -> Tensor:
    return ranks.rows(features())


def _no_features() -> Tensor:
    raise UsageError(
        "this buffer rule uses features, and none were given; pass "
        "features=lambda: faircil.nets.features_of(net, train.x) to with_task"
    )


def _checked(order: Tensor, group: Candidates) -> Tensor:
    """Check the positions that a rule returned; raise DataError if they are invalid."""
    within = isinstance(order, Tensor) and order.ndim == 1 and order.dtype == torch.int64
    counts = torch.bincount(order, minlength=len(group)) if within and (order >= 0).all() else None
    if counts is None or len(counts) > len(group) or bool((counts > 1).any()):
        raise DataError(
            f"the buffer rule gave {shown(order)} for a group of {len(group)} samples; expected "
            "int64 positions, the ones to keep first, each at most once"
        )
    if len(order) < min(group.quota, len(group)):
        raise DataError(
            f"the buffer rule gave {len(order)} positions for a group of {len(group)} samples of "
            f"which {min(group.quota, len(group))} can be kept; give at least that many"
        )
    return order


def shown(value: object) -> str:
    """Describe a tensor or another value for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}, shape {tuple(value.shape)}"
    return f"{value!r}"[:80]


class ReplayBatches:
    """Endless batches of a buffer, drawn without replacement and reshuffled after each pass.

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
        """Number of batches in one pass; the last may be smaller."""
        return -(-len(self._memory) // self._batch_size)

    def next(self) -> tuple[Samples, Tensor]:
        """Return the next batch and its rows in the memory."""
        if not self._batches:
            order = torch.randperm(len(self._memory), generator=self._generator)
            self._batches = list(torch.split(order.to(self._memory.y.device), self._batch_size))
        rows = self._batches.pop(0)
        return self._memory.take(rows), rows
