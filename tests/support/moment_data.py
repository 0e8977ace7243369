"""Small grouped data with features, and a simple, slow ridge regression on its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from faircil.moments.group_moments import GroupMoments
from faircil.moments.ridge import RidgeProblem
from faircil.samples import Samples
from faircil.weighting.groups import Floats, Integers

WIDTH = 7
SIZES = {(0, 0): 60, (0, 1): 12, (1, 0): 45, (1, 1): 20, (2, 0): 30, (2, 1): 9}


def grouped_samples(sizes: dict[tuple[int, int], int] = SIZES, seed: int = 0) -> Samples:
    """Return float64 rows of groups (class, attribute value), shuffled."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.tensor([key for key, n in sizes.items() for _ in range(n)])
    y, z = keys[torch.randperm(len(keys), generator=generator)].T
    noise = torch.randn(len(keys), WIDTH - 1, generator=generator, dtype=torch.float64)
    noise[:, 0] += 1.5 * y + z
    noise[:, 1] += (y == 1) * (1.0 - 2.0 * z)
    return Samples(noise, y.clone(), z.clone())


def features(x: Tensor) -> Tensor:
    """Return inputs with a constant, (n, WIDTH)."""
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


def moments_of(*parts: Samples, dtype: torch.dtype = torch.float64) -> GroupMoments:
    """Return the moments of rows, added part by part."""
    moments = GroupMoments(WIDTH, dtype)
    for part in parts:
        moments.add(part, features)
    return moments


def problem_of(moments: GroupMoments, ridge: float = 0.01) -> RidgeProblem:
    """Return the ridge problem whose groups are the cells, in the order of their keys."""
    keys = sorted(moments.keys)
    group = [keys.index(key) for key in moments.keys]
    return RidgeProblem(moments, group, np.array([key[0] for key in keys]), ridge)


def rows_by_group(samples: Samples) -> list[Tensor]:
    """Return the rows of each group, in the order of the keys."""
    keys = [tuple(key) for key in samples.keys().tolist()]
    return [torch.tensor([i for i, k in enumerate(keys) if k == key]) for key in sorted(set(keys))]


def plain_ridge(
    samples: Samples, weights: Sequence[float] | Floats, penalty: float, classes: int = 3
) -> Tensor:
    """Return the head of weighted ridge regression on rows, by least squares, (d, C)."""
    phi = features(samples.x)
    per_row = torch.zeros(len(samples), dtype=torch.float64)
    for rows, weight in zip(rows_by_group(samples), weights, strict=True):
        per_row[rows] = float(weight) / len(rows)
    root = per_row.sqrt()[:, None]
    extra = penalty**0.5 * torch.eye(phi.shape[1], dtype=torch.float64)
    left = torch.cat([root * phi, extra])
    right = torch.cat([root * one_hot(samples.y, classes), torch.zeros(len(extra), classes)])
    return torch.linalg.lstsq(left, right.double()).solution


def plain_losses(samples: Samples, head: Tensor) -> Floats:
    """Return the mean squared loss of each group, row by row."""
    away = features(samples.x) @ head - one_hot(samples.y, head.shape[1])
    losses = away.square().sum(dim=1)
    return np.array([float(losses[rows].mean()) for rows in rows_by_group(samples)])


def labels_of(problem: RidgeProblem) -> Integers:
    """Return the class of each group."""
    return problem.label.cpu().numpy()


def equal_shares(label: Integers) -> Floats:
    """Return shares equal over classes, and over the groups of a class, (G,)."""
    classes, index, groups = np.unique(label, return_inverse=True, return_counts=True)
    share: Floats = 1 / (len(classes) * groups[index])
    return share
