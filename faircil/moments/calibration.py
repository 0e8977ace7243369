"""Probabilities from scores: a temperature, fitted without rows.

Least-squares scores are near 0 and 1, so their softmax is almost flat. ``softmax(scores/T)`` with
the right T is calibrated. The scores of a group have mean μ and covariance Σ, both known from the
moments; for rows that were left out, ``e_y + (μ − e_y)/(1 − h)`` and ``Σ/(1 − h)²``. T minimises
the mean negative log-likelihood of Gaussian draws with these, each group by its share.
"""

from __future__ import annotations

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from faircil.moments.ridge import RidgeProblem, RidgeSolution
from faircil.weighting.groups import Floats

DRAWS = 200  # per group
RANGE = (-5.0, 3.0)  # of log T


def fit_temperature(problem: RidgeProblem, solution: RidgeSolution, share: Floats) -> float:
    """Return T.

    Parameters
    ----------
    problem : RidgeProblem
    solution : RidgeSolution
        Of G groups.
    share : ndarray, shape (G,)
        How much each group counts.
    """
    if problem.classes < 2:
        return 1.0
    return best_temperature(*left_out_draws(problem, solution), share)


def best_temperature(scores: Tensor, label: Tensor, share: Floats) -> float:
    """Return the T with the smallest :func:`log_loss` of ``scores/T``."""

    def loss(log_t: float) -> float:
        return log_loss(scores * torch.exp(torch.tensor(-log_t)), label, share)

    return float(torch.exp(torch.tensor(minimize_scalar(loss, bounds=RANGE).x)))


def log_loss(scores: Tensor, label: Tensor, share: Floats) -> float:
    """Return the mean negative log-likelihood of draws.

    Parameters
    ----------
    scores : Tensor of float64, shape (G, draws, C)
    label : Tensor of int64, shape (G,)
        Class of each group.
    share : ndarray, shape (G,)
        How much each group counts.
    """
    told = torch.log_softmax(scores, dim=2)
    own = told.gather(2, label.view(-1, 1, 1).expand(-1, scores.shape[1], 1))
    return float(-(own.mean(dim=(1, 2)) * torch.tensor(share, dtype=torch.float64)).sum())


def left_out_draws(problem: RidgeProblem, solution: RidgeSolution) -> tuple[Tensor, Tensor]:
    """Draw scores of rows that were left out.

    Returns
    -------
    scores : Tensor of float64, shape (G, DRAWS, C)
    label : Tensor of int64, shape (G,)
    """
    mean, spread = (part.double().cpu() for part in problem.scores(solution.head))
    label = problem.label.cpu()
    rest = torch.tensor(1 - solution.leverage)
    target = torch.nn.functional.one_hot(label, problem.classes).double()
    mean = target + (mean - target) / rest[:, None]
    return gaussian_draws(mean, spread / rest[:, None, None] ** 2), label


def gaussian_draws(mean: Tensor, spread: Tensor) -> Tensor:
    """Draw scores, (G, DRAWS, C), with means (G, C) and covariances (G, C, C), all of float64."""
    values, vectors = torch.linalg.eigh(spread)
    root = vectors * values.clamp(min=0).sqrt()[:, None, :]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, mean.shape[1], dtype=torch.float64, generator=generator)
    draws: Tensor = mean[:, None, :] + noise @ root.mT
    return draws
