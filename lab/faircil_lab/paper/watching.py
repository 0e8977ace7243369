"""A run seen from its epochs' ends: losses expanded by Taylor's formula, disparities."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from faircil.compute import CHUNK, chunks_of
from faircil.learners import Learner
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Checkpoint, weigh_samples
from faircil.runs.state import RunState
from faircil.samples import Samples
from faircil.weighting.choice import WeightResult
from faircil.weighting.groups import Floats, Membership, find_groups
from faircil.weighting.measures import disparity_matrix, find_measure

Look = Callable[[RunState, nn.Module | None], None]


def watching(look: Look) -> Checkpoint:
    """Make a checkpoint that also gets the net as it was at the start of the epoch.

    Only for learners that leave the net alone between two epochs and between two tasks, as replay
    does: what one epoch left is then what the next began with.

    Parameters
    ----------
    look : callable
        Is given the state at the end of every epoch, and the net at its start, in eval mode; None
        in the first epoch of the run.
    """
    before: nn.Module | None = None

    def checkpoint(state: RunState) -> None:
        nonlocal before
        look(state, before)
        before = copy.deepcopy(state.learner.net).eval()

    return checkpoint


def weights_of_epoch(config: RunConfig, state: RunState, before: nn.Module) -> WeightResult:
    """Solve the program of an epoch again, given the state at its end and the net at its start.

    By sample nothing is drawn, so this is what the epoch has used.
    """
    learner = copy.copy(state.learner)
    learner.net = before
    start = copy.copy(state)
    start.learner = learner
    assert state.task is not None
    result = weigh_samples(config, start, state.task.material.current)
    assert result is not None
    return result


@dataclass(frozen=True)
class SampleFit:
    """Cross-entropy of each sample, and 1 where it is predicted right, both (n,)."""

    losses: Floats
    hits: Floats


@dataclass(frozen=True)
class CostAndDisparity:
    """``‖D ℓ‖₁`` of the groups' losses and ``‖D a‖₁`` of their accuracies.

    With the D of ``eo`` the latter is the metric ``eo``, where every class has every value.
    """

    cost: float
    disparity: float


def fit(learner: Learner, samples: Samples) -> SampleFit:
    """Measure how a learner does on samples."""
    scores = learner.scores(samples.x)
    losses = cross_entropy(scores, samples.y, reduction="none")
    hits = scores.argmax(dim=1) == samples.y
    return SampleFit(losses.double().cpu().numpy(), hits.double().cpu().numpy())


def cost_and_disparity(
    name: str, parts: Sequence[Samples], fits: Sequence[SampleFit]
) -> CostAndDisparity:
    """Apply a measure to the losses and to the accuracies of groups of one or two parts."""
    measure = find_measure(name)
    membership = find_groups(
        parts[0], parts[1] if len(parts) == 2 else None, by_attribute=measure.by_attribute
    )
    matrix = disparity_matrix(measure, membership.groups)
    losses = group_means([part.losses for part in fits], membership)
    accuracies = group_means([part.hits for part in fits], membership)
    return CostAndDisparity(*(float(np.abs(matrix @ v).sum()) for v in (losses, accuracies)))


Named = dict[str, Tensor]  # by the parameter's name


@dataclass(frozen=True)
class Expansion:
    """Loss, slope and curvature of n samples, or means of them over G groups.

    Parameters
    ----------
    loss, slope, curvature : ndarray of float64, shape (n,) or (G,)
    """

    loss: Floats
    slope: Floats
    curvature: Floats

    @property
    def first_order(self) -> Floats:
        """The loss after the step, as the slope predicts it."""
        return self.loss + self.slope

    @property
    def second_order(self) -> Floats:
        """The loss after the step, as slope and curvature predict it."""
        return self.loss + self.slope + self.curvature / 2


def step_between(before: nn.Module, after: nn.Module) -> Named:
    """Return the parameters of ``after`` less those of ``before``."""
    start = dict(before.named_parameters())
    return {name: (p - start[name]).detach() for name, p in after.named_parameters()}


def expand(net: nn.Module, step: Named, samples: Samples) -> Expansion:
    """Expand the cross-entropy of n samples around the net as it is, in eval mode, along a step."""
    chunks = chunks_of(len(samples), CHUNK)
    parts = [_expand_at_once(net, step, samples.x[rows], samples.y[rows]) for rows in chunks]
    return Expansion(*torch.cat(parts, dim=1).double().cpu().numpy())


def _expand_at_once(net: nn.Module, step: Named, x: Tensor, y: Tensor) -> Tensor:
    """Return loss, slope and curvature, (3, n)."""

    def losses(parameters: Named) -> Tensor:
        return cross_entropy(functional_call(net, parameters, (x,)), y, reduction="none")

    def losses_and_slopes(parameters: Named) -> tuple[Tensor, Tensor]:
        loss, slope = jvp(losses, (parameters,), (step,))[:2]
        return loss, slope

    start = {name: parameter.detach() for name, parameter in net.named_parameters()}
    # The first forward-mode product compiles its rules by a way that torch has deprecated.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (loss, slope), (_, curvature) = jvp(losses_and_slopes, (start,), (step,))[:2]
    return torch.stack([loss, slope, curvature])


def expand_groups(
    net: nn.Module, step: Named, current: Samples, memory: Samples, membership: Membership
) -> Expansion:
    """Return the terms of the mean loss of each group, (G,), on task and buffer."""
    parts = [vars(expand(net, step, part)).values() for part in (current, memory)]
    return Expansion(*(group_means(both, membership) for both in zip(*parts, strict=True)))


def group_means(parts: Sequence[Floats], membership: Membership) -> Floats:
    """Average values of samples within groups.

    Parameters
    ----------
    parts : sequence of ndarray
        Of the samples of the task, (n,), and of the buffer, (m,), where there is one.
    membership : Membership

    Returns
    -------
    ndarray of float64, shape (G,)
    """
    groups = (membership.current, membership.memory)[: len(parts)]
    group, values = torch.cat(groups).cpu().numpy(), np.concatenate(parts)
    known = group >= 0
    sums = np.bincount(group[known], values[known], minlength=len(membership.groups))
    means: Floats = sums / membership.groups.size
    return means
