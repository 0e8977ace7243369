"""Fabricated runs with records of each epoch."""

from __future__ import annotations

from collections.abc import Callable

from faircil_lab.paper.epochs import CostAndDisparity, PredictionErrors, WatchedEpoch, WatchedRun

Numbers = Callable[[int, int, int], float]  # from seed, task and epoch


def falling(seed: int, task: int, epoch: int) -> float:
    """Decrease from epoch to epoch, slightly differently for each seed and task."""
    return (1 + 0.01 * seed + 0.02 * task) / epoch**2


def watched(
    seed: int,
    first: Numbers = falling,
    second: Numbers = lambda s, t, e: falling(s, t, e) / 3,
    cost: Numbers = falling,
    disparity: Numbers = lambda s, t, e: falling(s, t, e) / 4,
) -> WatchedRun:
    """Make three tasks of five epochs."""
    epochs = []
    for task in (1, 2, 3):
        for epoch in range(1, 6):
            at = (seed, task, epoch)
            errors = PredictionErrors(2.0, first(*at), second(*at), 3.0)
            pair = CostAndDisparity(cost(*at), disparity(*at))
            epochs.append(WatchedEpoch(task, epoch, errors if task > 1 else None, pair, pair))
    return WatchedRun(tuple(epochs))
