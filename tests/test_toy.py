"""The paper's first figure: a new class makes one old class be forgotten, and weights prevent it.

Clusters 0, 1 and 2 are the classes of ``toy`` and the groups (0, 0), (0, 1), (1, 1) of
``toy-groups``; cluster 2 comes in the second task, close to cluster 1 and far from cluster 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from faircil.metrics import TaskMetrics
from faircil.runs import experiment
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.samples import Samples

SEEDS = range(3)
both_readings = pytest.mark.parametrize("dataset", ["toy", "toy-groups"])


def cluster_accuracies(metrics: TaskMetrics) -> list[float]:
    return [row.accuracy for row in metrics.groups or metrics.classes]


@dataclass
class ToyRun:
    """What a run has measured.

    ``angles`` are the degrees between the gradient of cluster 2 and those of clusters 0 and 1 in
    the buffer, when the second task begins.
    """

    per_task: Sequence[TaskMetrics]
    angles: list[float]


def head_gradient(net: nn.Module, samples: Samples) -> torch.Tensor:
    """Mean gradient of the last layer, by automatic differentiation."""
    loss = cross_entropy(net(samples.x), samples.y)
    parts = torch.autograd.grad(loss, list(net.head.parameters()))
    return torch.cat([part.flatten() for part in parts])


@cache
def runs(dataset: str, weighting: str) -> list[ToyRun]:
    """Return a run of each seed."""
    config = resolve(dataset=dataset, method="er", weighting=weighting)
    weigh_samples = experiment.weigh_samples
    angles: list[float] = []

    def measuring(config, state, current):  # type: ignore[no-untyped-def]
        memory = state.buffer.samples
        if memory is not None and not angles:
            new = head_gradient(state.learner.net, current)
            for rows in memory.keys().unique(dim=0):
                old = memory.take((memory.keys() == rows).all(dim=1))
                cosine = cosine_similarity(new, head_gradient(state.learner.net, old), dim=0)
                angles.append(float(torch.rad2deg(torch.acos(cosine))))
        return weigh_samples(config, state, current)

    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "weigh_samples", measuring)
        for seed in SEEDS:
            made.append(ToyRun(run(config, seed).per_task, list(angles)))
            angles.clear()
    return made


def accuracies(dataset: str, weighting: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the accuracy of each cluster after each task, averaged over seeds: (2,) and (3,)."""
    results = [one.per_task for one in runs(dataset, weighting)]
    first, second = (
        np.mean([cluster_accuracies(after[task]) for after in results], axis=0) for task in (0, 1)
    )
    return first, second


@both_readings
def test_the_new_class_pulls_against_its_neighbour_only(dataset: str) -> None:
    angles = np.array([one.angles for one in runs(dataset, "none")])
    far, near = angles.T
    assert (near > 100).all()
    assert (near > far + 10).all()
    assert far.mean() == pytest.approx(90, abs=15)


@both_readings
def test_plain_replay_forgets_the_neighbour_only(dataset: str) -> None:
    before, after = accuracies(dataset, "none")
    assert before == pytest.approx([1, 1], abs=0.01)
    assert after[0] > 0.98
    assert after[1] < 0.4
    assert after[2] > 0.98


@both_readings
def test_weights_prevent_most_of_it_at_little_cost_for_the_new_class(dataset: str) -> None:
    _, plain = accuracies(dataset, "none")
    _, weighted = accuracies(dataset, "fsw")
    assert weighted[0] > 0.98
    assert weighted[1] > plain[1] + 0.4
    assert weighted[2] > 0.75
    assert weighted.mean() > plain.mean() + 0.1


@both_readings
def test_it_matters_which_samples_are_kept_and_not_only_how_many(dataset: str) -> None:
    _, weighted = accuracies(dataset, "fsw")
    _, permuted = accuracies(dataset, "random")
    assert weighted[1] > permuted[1] + 0.2
