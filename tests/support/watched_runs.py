"""Runs that were watched epoch by epoch, made up."""

from __future__ import annotations

from collections.abc import Callable

from faircil_lab.paper.epochs import CostAndDisparity, PredictionErrors, WatchedEpoch, WatchedRun

Numbers = Callable[[int, int, int], float]  # of seed, task and epoch


def falling(seed: int, task: int, epoch: int) -> float:
    """Fall from epoch to epoch, a little different for each seed and task."""
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
