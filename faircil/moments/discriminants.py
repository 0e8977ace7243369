"""Classifiers by class means, from the same moments: nearest mean, and linear discriminants (LDA).

With the means μ_y of the classes and a matrix Σ, the score of a class is
``μ_yᵀ Σ⁻¹ φ − ½ μ_yᵀ Σ⁻¹ μ_y``: linear in the features φ, and largest for the class whose mean is
the nearest in the metric of Σ.

- Nearest mean: Σ = I.
- LDA: ``Σ = V + λ mean(diag V) I``, where V is the mean over classes of their covariances
  ``S_y/n_y − μ_y μ_yᵀ``. Classes count equally and are equally likely beforehand. With the
  *shrinkage* of others, ``(1 − a) V + a mean(diag V) I``, it is a = λ/(1 + λ), up to a factor.

Rows of a class count equally, whatever their attribute: there are no weights to choose.

The constant among the features, their last, varies in no class: it takes the offset. Features are
centred at the mean of the means, which changes the scores only by what all classes share, and is
kinder to their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from faircil.compute import one_thread
from faircil.moments.group_moments import GroupMoments
from faircil.moments.ridge import (
    RidgeProblem,
    best_temperature,
    cholesky,
    gaussian_draws,
    log_loss,
)
from faircil.weighting.groups import Integers

MOST_SHRINKAGE = 0.999


@dataclass(frozen=True)
class Discriminant:
    """A classifier by class means.

    Parameters
    ----------
    classes : ndarray of int64, shape (C,)
    head : Tensor, shape (d, C)
        Its scores are linear in the features.
    ridge : float
        λ; 0 for nearest mean.
    temperature : float
        Divisor of the scores for probabilities.
    loss : float
        Mean negative log-likelihood of training rows, with Gaussian scores and equal classes.
    """

    classes: Integers
    head: Tensor
    ridge: float
    temperature: float
    loss: float


def nearest_mean(moments: GroupMoments) -> Discriminant:
    """Return the classifier by the nearest class mean."""
    means = ClassMeans(moments)
    return means.classifier(means.centred.T, 0.0)


def lda(moments: GroupMoments, ridge: float | None = None) -> Discriminant:
    """Return the classifier by linear discriminants.

    Parameters
    ----------
    moments : GroupMoments
    ridge : float, optional
        λ; by default that of :func:`oracle_shrinkage`.
    """
    means = ClassMeans(moments)
    matrix = means.covariance()
    if ridge is None:
        # The mean of C covariances of n_y rows is as certain as one covariance of so many rows.
        rows = len(means.size) ** 2 / float((1 / means.size).sum())
        shrinkage = oracle_shrinkage(matrix, rows)
        ridge = shrinkage / (1 - shrinkage)
    diagonal = matrix.diagonal()
    diagonal += ridge * float(diagonal.mean())
    return means.classifier(torch.cholesky_solve(means.centred.T, cholesky(matrix)), ridge)


def oracle_shrinkage(covariance: Tensor, rows: float) -> float:
    """Return the shrinkage that suits a covariance of Gaussian rows (OAS, Chen et al. 2010).

    It estimates the share of ``mean(diag) I`` with the smallest expected squared error:
    ``(tr V² + (tr V)²) / ((n + 1)(tr V² − (tr V)²/d))``, at most 1, without terms of order 1/d.

    Parameters
    ----------
    covariance : Tensor, shape (d, d)
    rows : float
        Number of rows, n.
    """
    squares = float(covariance.double().square().sum())
    trace = float(covariance.diagonal().double().sum()) ** 2
    spread = (rows + 1) * (squares - trace / len(covariance))
    found = (squares + trace) / spread if spread > 0 else 1.0
    return min(found, MOST_SHRINKAGE)


class ClassMeans:
    """Means of the classes, and what follows from them.

    Parameters
    ----------
    moments : GroupMoments
        Of C classes.
    """

    def __init__(self, moments: GroupMoments) -> None:
        self.moments = moments
        self.classes, label = np.unique([key[0] for key in moments.keys], return_inverse=True)
        self.cells = RidgeProblem(moments, range(len(moments)), label, 0.0)
        classes = self.cells.size.new_zeros(len(self.classes))
        self.size = classes.index_add(0, self.cells.label, self.cells.size)
        first = self.cells.first.new_zeros(len(self.classes), moments.width)
        means = first.index_add_(0, self.cells.label, self.cells.first) / self.size[:, None]
        self.means = means[:, :-1]  # without the constant
        self.middle = self.means.mean(dim=0)
        self.centred = self.means - self.middle  # (C, d − 1)
        # What each row of a cell counts, with equal classes.
        self.per_row = 1 / (len(self.classes) * self.size[self.cells.label])

    def covariance(self) -> Tensor:
        """Return the mean of the classes' covariances without the constant, (d − 1, d − 1)."""
        square = self.moments.combined(self.per_row)[:-1, :-1]
        return square - self.means.T @ self.means / len(self.classes)

    def classifier(self, slopes: Tensor, ridge: float) -> Discriminant:
        """Return the classifier of ``Σ⁻¹(μ_y − μ̄)``, (d − 1, C)."""
        # (μ_y − μ̄)ᵀ Σ⁻¹ (φ − μ̄ − ½ (μ_y − μ̄))
        offset = -((self.middle + self.centred / 2) * slopes.T).sum(dim=1)
        head = torch.cat([slopes, offset[None, :]])
        temperature, loss = self._calibrated(head)
        return Discriminant(self.classes, head, ridge, temperature, loss)

    def _calibrated(self, head: Tensor) -> tuple[float, float]:
        """Return the temperature, and the loss of the probabilities with it."""
        if len(self.classes) < 2:
            return 1.0, 0.0
        some = self.cells.some_groups()
        known = self.cells.scores(head, some.to(head.device))
        mean, spread = (part.double().cpu() for part in known)
        scores, label = gaussian_draws(mean, spread), self.cells.label.cpu()[some]
        share = (self.per_row * self.cells.size).double().cpu().numpy()[some]
        unit = float(scores.std())  # scores have any scale
        with one_thread():
            temperature = unit * best_temperature(scores / unit, label, share)
        return temperature, log_loss(scores / temperature, label, share)
