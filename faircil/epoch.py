"""What one epoch trains on: weights at the run's own state, and the samples that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from faircil.config import RunConfig
from faircil.results.record import GroupWeights, WeightRecord
from faircil.samples import Samples
from faircil.state import RunState
from faircil.weighting.result import WeightResult
from faircil.weighting.training import (
    SELECTIONS,
    WEIGHTINGS,
    Selection,
    everything,
    rounded,
)
from faircil.weighting.weights import FairSampleWeights


def weigh_samples(config: RunConfig, state: RunState, current: Samples) -> WeightResult | None:
    """Solve the program for the learner as it is, and let the weighting use its weights.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        Its learner's net is measured on the task and on its buffer; without a buffer nothing is
        weighed.
    current : Samples
        Training data of the task.

    Returns
    -------
    WeightResult or None
        With the weights that the epoch uses; None: all 1.
    """
    reweight, memory = WEIGHTINGS[config.weighting].reweight, state.buffer.samples
    if reweight is None or memory is None:
        return None
    settings, generator = config.settings, state.generators.weights
    weigh = FairSampleWeights(
        measure=config.measure,
        alpha=settings.alpha,
        lam=settings.lam,
        granularity=settings.granularity,
        gradient=settings.gradient,
        loss=settings.loss,
        clusters=settings.clusters,
        floor=settings.floor,
        solver=settings.solver,
    )
    result = weigh(state.learner.net, current, memory, seen=state.seen, generator=generator)
    # Before the controls: they take after the weights that an epoch would use.
    weights = rounded(result.weights) if settings.round else result.weights
    return replace(result, weights=reweight(weights, result.group, generator))


def select_samples(
    config: RunConfig,
    state: RunState,
    samples: Samples,
    result: WeightResult | None,
    chosen: Tensor | None = None,
) -> Selection:
    """Choose and shuffle the samples of an epoch.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        Its generator of shuffles is used.
    samples : Samples
        What there is to train on.
    result : WeightResult or None
        Their weights.
    chosen : Tensor of int64, optional
        Rows in training order, where the learner chooses by itself.
    """
    if chosen is not None:
        return Selection(chosen)
    if result is None:
        return everything(len(samples), state.generators.shuffle, samples.y.device)
    select = SELECTIONS[config.settings.keep]
    return select(result.weights, config.settings.batch_size, state.generators.shuffle)


def weight_record(result: WeightResult | None) -> WeightRecord | None:
    """Return what the record of an epoch says about its weights."""
    if result is None:
        return None
    return WeightRecord(
        kept=result.kept,
        dropped=result.dropped,
        partial=result.partial,
        objective=result.objective,
        bound=result.bound,
        gradient=result.gradient_seconds,
        lp=result.lp_seconds,
        groups=tuple(_group_weights(result)),
    )


def _group_weights(result: WeightResult) -> Iterator[GroupWeights]:
    """Yield the mean weight and the loss of each group of the current task."""
    groups = result.groups
    sums = torch.bincount(result.group, result.weights.double(), minlength=len(groups)).tolist()
    for number in groups.current.nonzero()[0]:
        samples = int(groups.size[number])
        yield GroupWeights(
            label=int(groups.label[number]),
            attribute=int(groups.attribute[number]),
            samples=samples,
            mean=sums[number] / samples,
            loss=float(groups.losses[number]),
        )
