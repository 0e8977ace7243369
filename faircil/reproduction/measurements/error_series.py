"""Errors of predicted losses over epochs, tasks and seeds, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faircil.reproduction.measurements.epochs import WatchedRun
from faircil.reproduction.measurements.statements import (
    Statement,
    above_zero,
    percent,
    statement,
    written,
)
from faircil.reproduction.trends import rank_correlation
from faircil.statistics import interval
from faircil.weighting.groups import Floats

KINDS = {
    "first": "Taylor, first order",
    "second": "Taylor, second order",
    "program": "the linear program",
    "unchanged": "no change at all",
}
FIRST, SECOND, LATER = slice(0, 1), slice(1, 2), slice(1, None)  # epochs of a task
SAYS = (
    "{}: the error is largest in the first epoch of each task",
    "{}: the error falls with the epochs of a task",
    "{}: the second order is closer than the first, in the first epoch of a task",
    "{}: the second order is closer than the first, from the second epoch on",
)


@dataclass(frozen=True)
class ErrorSeries:
    """Errors on a dataset; E epochs from the second task on.

    Parameters
    ----------
    name : str
    tasks : tuple of int
        Of each epoch.
    values : mapping
        From a kind of prediction to errors, (seeds, E).
    """

    name: str
    tasks: tuple[int, ...]
    values: Mapping[str, Floats]

    @classmethod
    def of(cls, name: str, runs: Sequence[WatchedRun]) -> ErrorSeries:
        """Gather the errors of several seeds."""
        epochs = [[epoch for epoch in run.epochs if epoch.errors is not None] for run in runs]
        values = {
            kind: np.array([[getattr(epoch.errors, kind) for epoch in run] for run in epochs])
            for kind in KINDS
        }
        return cls(name, tuple(epoch.task for epoch in epochs[0]), values)

    def by_task(self, kind: str) -> dict[int, Floats]:
        """Return errors by task, each (seeds, epochs)."""
        tasks = np.array(self.tasks)
        return {task: self.values[kind][:, tasks == task] for task in dict.fromkeys(self.tasks)}

    def at(self, kind: str, epochs: slice) -> Floats:
        """Return the mean error over tasks and some of their epochs, (seeds,)."""
        means: Floats = np.mean(
            [errors[:, epochs].mean(axis=1) for errors in self.by_task(kind).values()], axis=0
        )
        return means

    def statements(self) -> list[Statement]:
        """Check what the paper says."""
        says = [text.format(self.name) for text in SAYS]
        tasks = self.by_task("first")
        largest = sum(int(errors.mean(axis=0).argmax()) == 0 for errors in tasks.values())
        trends = [
            float(np.mean([rank_correlation(errors[seed]) for errors in tasks.values()]))
            for seed in range(len(self.values["first"]))
        ]
        return [
            statement(says[0], f"in {largest} of {len(tasks)} tasks", largest == len(tasks)),
            statement(
                says[1],
                f"rank correlation of error and epoch {written(interval(trends))}; the second "
                f"epoch has {percent(self.share_left())} of the error of the first",
                above_zero(interval([-trend for trend in trends])),
            ),
            self._closer(says[2], FIRST),
            self._closer(says[3], LATER),
        ]

    def _closer(self, says: str, epochs: slice) -> Statement:
        first, second = (self.at(kind, epochs) for kind in ("first", "second"))
        ours = f"mean error {second.mean():.3f} against {first.mean():.3f}"
        holds = above_zero(interval((first - second).tolist()))
        return statement(says, ours, holds, paper="in theory")

    def share_left(self) -> float:
        """Return the first-order error of second epochs over that of first ones."""
        return float(self.at("first", SECOND).mean() / self.at("first", FIRST).mean())

    def rows(self) -> list[tuple[str, ...]]:
        """Return the error in the first and in the last epoch of each task."""
        means = {
            kind: {task: errors.mean(axis=0) for task, errors in self.by_task(kind).items()}
            for kind in KINDS
        }
        return [
            (
                self.name,
                str(task),
                *(f"{means[kind][task][0]:.3f} → {means[kind][task][-1]:.3f}" for kind in KINDS),
            )
            for task in means["first"]
        ]
