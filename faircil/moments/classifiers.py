"""From moments to classes and probabilities.

**Discriminants of ridge scores.** A ridge solution fits the one-hot class, and the largest score
wins. With more than two classes, this masks some of them: a class that lies between others has no
region where its score is the largest (Hastie, Tibshirani, Buja 1994). The remedy is to use the
scores ``u = Wᵀφ`` as features, and to predict the class whose mean score is nearest in the metric
of the scores' covariance within classes: linear discriminants, as in flexible discriminant
analysis. Only the solution is needed. With ``K = Bᵀ W = Wᵀ A W``, symmetric (C, C), and the weights
ω_y of the classes,

- the weighted mean score of class y is ``m_y = K_y/ω_y``,
- the weighted covariance within classes is ``V = K − λ WᵀW − Σ_y ω_y m_y m_yᵀ``,
- the score of class y is ``m_yᵀ V⁻¹ u − ½ m_yᵀ V⁻¹ m_y``: again linear in the features.

The weights of the groups affect means and covariance as they do the ridge solution. If weights move
between classes, as for equal error rates, they correct masking themselves.

**Classifiers by class means**, for comparison: with the means μ_y of the classes and a matrix Σ,
the score of a class is ``μ_yᵀ Σ⁻¹ φ − ½ μ_yᵀ Σ⁻¹ μ_y``.

- Nearest mean: Σ = I.
- LDA: ``Σ = V + λ mean(diag V) I``, where V is the mean over classes of their covariances
  ``S_y/n_y − μ_y μ_yᵀ``. Classes count equally and have equal priors. In terms of the usual
  *shrinkage* ``(1 − a) V + a mean(diag V) I``, it is a = λ/(1 + λ), up to a factor.

Rows of a class count equally here, whatever their attribute: there are no weights to choose. The
constant, which is the last feature, varies in no class and takes the offset. Features are centred
at the mean of the class means, which changes the scores only by a term shared by all classes, and
reduces rounding errors.

**Probabilities.** Least-squares scores are near 0 and 1, so their softmax is almost flat.
``softmax(scores/T)`` with the right T is calibrated, and T is fitted without rows: the scores of a
group have mean μ and covariance Σ; for left-out rows, these become ``e_y + (μ − e_y)/(1 − h)`` and
``Σ/(1 − h)²``. T minimises the mean negative log-likelihood of Gaussian draws with these moments,
each group weighted by its share. If there are very many groups, a selection represents all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from faircil.compute import one_thread
from faircil.moments.factors import cholesky
from faircil.moments.group_moments import GroupMoments
from faircil.moments.ridge import AT_ONCE, DRAWS, RidgeProblem, RidgeSolution
from faircil.weighting.groups import Floats, Integers

MOST_SHRINKAGE = 0.999
# Added to V, relative to its mean diagonal: scores of all classes sum to nearly 1, so V is nearly
# singular.
LEAST_SPREAD = 1e-3
LEAST_WITHIN = 1e-4  # of V relative to K: below, it may be nothing but rounding
RANGE = (-5.0, 3.0)  # of log T
ALL_DRAWS = 2**15  # over all groups, if these are few


@dataclass(frozen=True)
class AffineScores:
    """New scores ``u P + b`` of scores u, (..., C).

    Parameters
    ----------
    matrix : Tensor of float64, shape (C, C)
        P.
    offset : Tensor of float64, shape (C,)
        b.
    """

    matrix: Tensor
    offset: Tensor

    def __call__(self, scores: Tensor) -> Tensor:
        """Return the new scores on the CPU."""
        return scores @ self.matrix + self.offset

    def head(self, head: Tensor) -> Tensor:
        """Return the head, (d, C), with the new scores; the constant takes the offset."""
        new = head.double() @ self.matrix.to(head.device)
        new[-1] += self.offset.to(head.device)
        return new.to(head.dtype)


def discriminants(problem: RidgeProblem, solution: RidgeSolution) -> AffineScores:
    """Return the linear discriminants of the scores of a ridge solution."""
    weights = torch.tensor(solution.weights, dtype=problem.size.dtype, device=problem.size.device)
    head = solution.head.double()
    product = (problem.target(weights / problem.size).double() @ head).cpu()
    product = (product + product.T) / 2  # symmetric up to rounding
    share = torch.zeros(problem.classes, dtype=torch.float64)
    share.index_add_(0, problem.label.cpu(), weights.double().cpu())
    means = product / share[:, None]
    spread = product - problem.penalty * (head.T @ head).cpu() - means.T @ (share[:, None] * means)
    all_of, within = float(product.diagonal().mean()), float(spread.diagonal().mean())
    spread.diagonal().add_(LEAST_SPREAD * max(within, LEAST_WITHIN * all_of, 1e-12))
    matrix = torch.linalg.solve(spread, means.T)
    offset = -(means * matrix.T).sum(dim=1) / 2
    # V is nearly singular along what all classes share, so that this part is by far the largest. It
    # changes neither classes nor probabilities, and without it rounding in float32 is small.
    return AffineScores(matrix - matrix.mean(dim=1, keepdim=True), offset - offset.mean())


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
    """Return the nearest-mean classifier."""
    means = ClassMeans(moments)
    return means.classifier(means.centred.T, 0.0)


def lda(moments: GroupMoments, ridge: float | None = None) -> Discriminant:
    """Return the classifier by linear discriminants (LDA).

    Parameters
    ----------
    moments : GroupMoments
    ridge : float, optional
        λ; by default that of :func:`oracle_shrinkage`.
    """
    means = ClassMeans(moments)
    matrix = means.covariance()
    if ridge is None:
        # The mean of C covariances of n_y rows is as certain as one covariance of C·n_y rows.
        rows = len(means.size) ** 2 / float((1 / means.size).sum())
        shrinkage = oracle_shrinkage(matrix, rows)
        ridge = shrinkage / (1 - shrinkage)
    diagonal = matrix.diagonal()
    diagonal += ridge * float(diagonal.mean())
    return means.classifier(torch.cholesky_solve(means.centred.T, cholesky(matrix)), ridge)


def oracle_shrinkage(covariance: Tensor, rows: float) -> float:
    """Return the optimal shrinkage of a covariance of Gaussian rows (OAS, Chen et al. 2010).

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
    """Class means, and classifiers derived from them.

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
        # Weight of each row of a cell, with equal classes.
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
        """Return the temperature, and the loss of the resulting probabilities."""
        if len(self.classes) < 2:
            return 1.0, 0.0
        some = self.cells.some_groups()
        known = self.cells.scores(head, some.to(head.device))
        mean, spread = (part.double().cpu() for part in known)
        scores, label = gaussian_draws(mean, spread), self.cells.label.cpu()[some]
        share = (self.per_row * self.cells.size).double().cpu().numpy()[some]
        unit = float(scores.std())  # the scale of scores is arbitrary
        with one_thread():
            temperature = unit * best_temperature(scores / unit, label, share)
        return temperature, log_loss(scores / temperature, label, share)


def fit_temperature(
    problem: RidgeProblem,
    solution: RidgeSolution,
    share: Floats,
    scores: AffineScores | None = None,
) -> float:
    """Return the temperature T.

    Parameters
    ----------
    problem : RidgeProblem
    solution : RidgeSolution
        Of G groups.
    share : ndarray, shape (G,)
        Weight of each group.
    scores : AffineScores, optional
        Transformation of the solution's scores.
    """
    if problem.classes < 2:
        return 1.0
    some = problem.some_groups()
    drawn, label = left_out_draws(problem, solution, some)
    return best_temperature(drawn if scores is None else scores(drawn), label, share[some])


def best_temperature(scores: Tensor, label: Tensor, share: Floats) -> float:
    """Return the T with the smallest :func:`log_loss` of ``scores/T``, less ``log T`` per draw.

    If all draws are correct, or tied, the loss is flat for small T, and rounding would decide. But
    n correct draws only show that mistakes are rarer than one in n, so T is then as large as that
    allows. Elsewhere, ``−log T / n`` changes T by a few thousandths at most.
    """
    groups, draws, _ = scores.shape
    # Discriminants of classes that hardly spread have scores of any size.
    unit = max(1.0, float(scores.std()) / math.exp(RANGE[1]))
    scores = scores / unit

    def loss(log_t: float) -> float:
        scaled = scores * torch.exp(torch.tensor(-log_t))
        return log_loss(scaled, label, share) - log_t / (groups * draws)

    return unit * float(torch.exp(torch.tensor(minimize_scalar(loss, bounds=RANGE).x)))


def log_loss(scores: Tensor, label: Tensor, share: Floats) -> float:
    """Return the mean negative log-likelihood of draws.

    Parameters
    ----------
    scores : Tensor of float64, shape (G, draws, C)
    label : Tensor of int64, shape (G,)
        Class of each group.
    share : ndarray, shape (G,)
        Weight of each group.
    """
    told = torch.log_softmax(scores, dim=2)
    own = told.gather(2, label.view(-1, 1, 1).expand(-1, scores.shape[1], 1))
    return float(-(own.mean(dim=(1, 2)) * torch.tensor(share, dtype=torch.float64)).sum())


def left_out_draws(
    problem: RidgeProblem, solution: RidgeSolution, part: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw scores of left-out rows, for the groups with indices ``part``, (P,).

    Returns
    -------
    scores : Tensor of float64, shape (P, draws, C)
    label : Tensor of int64, shape (P,)
    """
    known = problem.scores(solution.head, part.to(problem.size.device))
    mean, spread = (values.double().cpu() for values in known)
    label = problem.label.cpu()[part]
    rest = torch.tensor(1 - solution.leverage)[part]
    target = torch.nn.functional.one_hot(label, problem.classes).double()
    mean = target + (mean - target) / rest[:, None]
    return gaussian_draws(mean, spread / rest[:, None, None] ** 2), label


def gaussian_draws(mean: Tensor, spread: Tensor) -> Tensor:
    """Draw scores, (G, draws, C), with means (G, C) and covariances (G, C, C), all in float64."""
    groups, classes = mean.shape
    # If few draws are wrong, T depends on these few: 200 draws of each of three toy groups give
    # .93, whereas 2,000 give 1.08, as do 20,000.
    draws = max(DRAWS, min(ALL_DRAWS // groups, AT_ONCE // (2 * groups * classes)))
    values, vectors = torch.linalg.eigh(spread)
    # The symmetric root is unique, while the signs of eigenvectors depend on rounding and would
    # change the draws and T.
    root = (vectors * values.clamp(min=0).sqrt()[:, None, :]) @ vectors.mT
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(draws, classes, dtype=torch.float64, generator=generator)
    drawn: Tensor = mean[:, None, :] + noise @ root.mT
    return drawn
