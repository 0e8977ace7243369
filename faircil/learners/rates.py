"""Coding rates: how many bits describe a set of features up to a given distortion.

The rate of features ``Z``, one row per sample, n rows of width d, is

    R(Z) = ½ log det(I + d/(n ε²) ZᵀZ),        ε² = ½.

It is large where the features fill many directions. The rate given groups, ``R_c``, is the mean of
the groups' own rates, weighted by their sizes; ``ΔR = R − R_c`` is large where every group lies
tight and all of them together lie wide.

Two identities make this cheap. First, ``det(I + ZᵀZ) = det(I + ZZᵀ)``: a batch has fewer samples
than features, so the n × n matrix is the smaller one. Second, set the entries of ``ZZᵀ`` between
samples of different groups to zero, and the matrix has one block per group, up to the order of the
rows. Then its Cholesky factor has the same blocks, and ``Σ log L_ii`` over the rows of a group is
the group's ½ log det. So one factorisation gives the rates of all groups, however many there are.
"""

from __future__ import annotations

import torch
from torch import Tensor

DISTORTION = 0.5  # ε²


def rate(features: Tensor) -> Tensor:
    """Return the rate of all features together, a scalar.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    """
    everyone = features.new_zeros(len(features), dtype=torch.int64)
    return shares(features, everyone).sum()


def rate_reduction(features: Tensor, keys: Tensor) -> Tensor:
    """Return ``ΔR`` of the features and their groups, a scalar; 0 if there is one group.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    keys : Tensor, shape (n,) or (n, columns)
        Samples are in the same group where their keys are equal.
    """
    size = same_group(keys).sum(dim=1)
    return rate(features) - (size * shares(features, keys)).sum() / max(len(features), 1)


def drift(features: Tensor, before: Tensor, keys: Tensor) -> Tensor:
    """Return how far each group has moved, summed over the groups, a scalar.

    Of a group now, ``Z``, and before, ``Z̄``, it is ``R(Z ∪ Z̄) − ½ R(Z) − ½ R(Z̄)``: how well the
    features tell the two moments apart, 0 if they are the same.

    Parameters
    ----------
    features, before : Tensor, shape (n, d)
        Of the same samples.
    keys : Tensor, shape (n,) or (n, columns)
        Their groups.
    """
    both, keys = torch.cat([features, before]), keys.reshape(len(keys), -1)
    moment = torch.arange(2, device=keys.device).repeat_interleave(len(keys))
    together = torch.cat([keys, keys])
    apart = torch.cat([together, moment[:, None]], dim=1)
    return shares(both, together).sum() - shares(both, apart).sum() / 2


def shares(features: Tensor, keys: Tensor) -> Tensor:
    """Return what each sample adds to its group's rate, (n,): sums over a group are its rate.

    How a rate is shared among the samples of a group depends on their order; its sum does not.
    """
    same = same_group(keys)
    scale = features.shape[1] / (same.sum(dim=1) * DISTORTION)
    gram = scale[:, None] * same * (features @ features.T)
    identity = torch.eye(len(features), dtype=features.dtype, device=features.device)
    factor: Tensor = torch.linalg.cholesky_ex(gram + identity).L
    return factor.diagonal().log()


def same_group(keys: Tensor) -> Tensor:
    """Return whether two samples are in the same group, (n, n), from keys (n,) or (n, columns)."""
    keys = keys.reshape(len(keys), -1)
    return (keys[:, None] == keys).all(dim=2)
