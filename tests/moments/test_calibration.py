from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from faircil.moments.calibration import fit_temperature, left_out_draws
from faircil.moments.evening import equal_shares
from moment_data import features, grouped_samples, labels_of, moments_of, problem_of

LARGE = {(0, 0): 900, (0, 1): 300, (1, 0): 600, (1, 1): 600, (2, 0): 900, (2, 1): 200}


def likelihood(scores: Tensor, y: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(scores, y))


def test_the_temperature_is_nearly_the_best_for_rows_that_were_not_seen() -> None:
    problem = problem_of(moments_of(grouped_samples(LARGE)))
    share = equal_shares(labels_of(problem))
    solution = problem.solve(share)
    found = fit_temperature(problem, solution, share)
    even = dict.fromkeys(LARGE, 400)
    unseen = grouped_samples(even, seed=9)
    scores = features(unseen.x) @ solution.head
    best = min(likelihood(scores / t, unseen.y) for t in np.geomspace(0.01, 10, 200))
    assert likelihood(scores / found, unseen.y) < best + 0.005
    assert likelihood(scores, unseen.y) > best + 0.05


def test_draws_have_the_moments_of_rows_that_were_left_out() -> None:
    problem = problem_of(moments_of(grouped_samples(LARGE)))
    solution = problem.solve(equal_shares(labels_of(problem)))
    scores, label = left_out_draws(problem, solution)
    away = scores - torch.nn.functional.one_hot(label)[:, None, :]
    drawn = away.square().sum(dim=2).mean(dim=1).numpy()
    # The mean of 200 draws; their deviation is that of a single loss.
    errors = solution.left_out.errors * np.sqrt(problem.size.numpy() / scores.shape[1])
    assert (np.abs(drawn - solution.left_out.losses) < 4 * errors).all()


def test_one_class_needs_no_temperature() -> None:
    problem = problem_of(moments_of(grouped_samples({(0, 0): 20, (0, 1): 10})))
    assert fit_temperature(problem, problem.solve(np.full(2, 0.5)), np.full(2, 0.5)) == 1.0
