"""Exemplars: lists of samples whose running mean follows the mean of their class or group."""

from __future__ import annotations

import torch
from torch import Tensor

from faircil.rows import rows_of_groups, unique_rows
from faircil.samples import Samples


def herd(features: Tensor, count: int) -> Tensor:
    """Choose samples one by one so that the mean of those chosen stays close to the mean of all.

    With the mean μ of all features and the sum s of the k − 1 chosen before, the k-th is the one
    with the least ``‖μ − (s + φ_j)/k‖``. Times k and squared, this is ``‖kμ − s‖² − 2 φ_j·(kμ − s)
    + ‖φ_j‖²``: the products ``φ_j·μ`` are needed once, the products ``φ_j·s`` grow by one product
    of the features with a vector for each sample chosen.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    count : int
        How many to choose; all n if there are fewer.

    Returns
    -------
    Tensor of int64, shape (min(count, n),)
        Rows in the order of choice.
    """
    to_mean = features @ features.mean(dim=0)
    rest = -features.square().sum(dim=1) / 2  # −φ_j·s − ½‖φ_j‖²; −inf once chosen
    order = torch.zeros(min(count, len(features)), dtype=torch.int64, device=features.device)
    for k in range(len(order)):
        best = torch.argmax((k + 1) * to_mean + rest)
        order[k] = best
        rest -= features @ features[best]
        rest[best] = -torch.inf
    return order


def herd_each(features: Tensor, keys: Tensor, count: int) -> Tensor:
    """Herd the samples of each key; return their rows, list after list, each in order of choice.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    keys : Tensor of int64, shape (n, columns)
        Samples with equal rows share a list.
    count : int
        Length of a list.
    """
    lists, index = unique_rows(keys)
    rows_of = rows_of_groups(index, len(lists))
    return torch.cat([rows[herd(features[rows], count)] for rows in rows_of])


def first_of_each_class(samples: Samples, count: int) -> Samples:
    """Keep the first samples of each class, in the order in which they are."""
    classes, index = unique_rows(samples.keys(by_attribute=False))
    kept = [rows[:count] for rows in rows_of_groups(index, len(classes))]
    return samples.take(torch.cat(kept).sort().values)
