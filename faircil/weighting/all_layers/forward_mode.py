"""Products of samples with groups for any net: one forward-mode product per direction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faircil.samples import Samples
from faircil.threads import CHUNK, chunks_of
from faircil.weighting.all_layers.functional import FunctionalNet
from faircil.weighting.all_layers.logits import split_gradients
from faircil.weighting.gradients import unit
from faircil.weighting.groups import Membership
from faircil.weighting.losses import Loss, cross_entropy

ENTRIES = 2**22  # numbers in the gradients of a chunk of samples, which then stay in cache
TANGENTS = 256  # rows of a forward-mode product: samples of a chunk times directions


@dataclass(frozen=True)
class Measured:
    """What a pass over n samples adds up within G groups, and what it keeps of each sample.

    Parameters
    ----------
    losses : Tensor of float64, shape (G,)
    gradients : Tensor, shape (G, P)
    at_logits : Tensor, shape (n, classes)
        The vector at a sample's logits that gives its gradient at length 1; zero where that is.
    """

    losses: Tensor
    gradients: Tensor
    at_logits: Tensor


def measure(
    net: FunctionalNet, samples: Samples, group: Tensor, groups: int, loss: Loss = cross_entropy
) -> Measured:
    """Measure n samples, given the group of each, (n,); a negative one takes no part.

    The gradient of every sample exists for a moment, for the sake of its norm; so the sums within
    groups are a matrix product.
    """
    losses = torch.zeros(groups, dtype=torch.float64, device=group.device)
    gradients = net.zeros(groups)
    at_logits = []
    numbers = torch.arange(groups, device=group.device)[:, None]
    for rows in _slices(len(samples), ENTRIES // net.size):
        x, member = samples.x[rows], group[rows] == numbers
        at = split_gradients(net.logits(x), samples.y[rows], loss)
        parts = net.gradients(x, at.direction)
        norms = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
        norms = torch.linalg.vector_norm(norms, dim=0)[:, None]
        at_logits.append(torch.where(norms == 0, 0.0, at.direction / norms))
        for total, part in zip(net.split(gradients), parts, strict=True):
            total.addmm_(member * at.length, part)
        losses += member.double() @ at.losses.double()
    return Measured(losses, gradients, torch.cat(at_logits))


@dataclass(frozen=True)
class ForwardMode:
    """Unit gradients of n samples and of G groups.

    Parameters
    ----------
    net : FunctionalNet
    x : Tensor, shape (n, ...)
        Inputs of the samples.
    at_logits : Tensor, shape (n, classes)
        See :class:`Measured`.
    directions : Tensor, shape (G, P)
        Unit gradients of the groups; zero where one vanishes.
    losses : Tensor of float64, shape (G,)
        Added up within groups.
    """

    net: FunctionalNet
    x: Tensor
    at_logits: Tensor
    directions: Tensor
    losses: Tensor

    def products(self, combine: Tensor | None = None) -> Tensor:
        """Return the product of each sample with each group, or with combinations of groups.

        Parameters
        ----------
        combine : Tensor, shape (B, G), optional
            By default the groups themselves, B = G.

        Returns
        -------
        Tensor, shape (B, n)
        """
        directions = self.directions if combine is None else combine @ self.directions
        result = directions.new_empty(len(directions), len(self.x))
        for rows in _slices(len(self.x), TANGENTS // len(directions)):
            result[:, rows] = self.net.products(self.x[rows], self.at_logits[rows], directions)
        return result

    def progress(self, weights: Tensor) -> Tensor:
        """Return the product of each group with the weighted sum of all samples, (G,)."""
        total = self.net.zeros(1)[0]
        for rows in chunks_of(len(self.x), CHUNK):
            total += self.net.total(self.x[rows], weights[rows, None] * self.at_logits[rows])
        return self.directions @ total


def forward_mode(
    net: FunctionalNet,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    loss: Loss = cross_entropy,
) -> ForwardMode:
    """Measure the current samples, and the gradients of all groups."""
    groups = len(membership.groups)
    now = measure(net, current, membership.current, groups, loss)
    losses, gradients = now.losses, now.gradients
    if memory is not None:
        old = measure(net, memory, membership.memory, groups, loss)
        losses, gradients = losses + old.losses, gradients + old.gradients
    return ForwardMode(net, current.x, now.at_logits, unit(gradients), losses)


def _slices(n: int, step: int) -> list[slice]:
    return chunks_of(n, max(1, min(CHUNK, step)))
