"""The loss of each sample along a step of all parameters, by Taylor's formula.

Along θ + t d the loss of a sample is a function of the number t, with the slope ``⟨∇ℓ_i, d⟩`` and
the curvature ``⟨d, H_i d⟩`` at t = 0. A forward-mode product of a forward-mode product gives both
for all samples of a chunk at once: the gradient and the Hessian-vector product, which have the
size of the net, are never written out, and a group's terms are means over its samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.functional import cross_entropy

from faircil.samples import Samples
from faircil.threads import CHUNK, chunks_of
from faircil.weighting.groups import Floats, Membership

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
