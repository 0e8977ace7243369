"""Finished runs after post-processing: the same metrics, for several ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faircil.metrics import TaskMetrics, evaluate
from faircil.postprocess.tasks import fair_predictions, measured_gap
from faircil.results.folder import SavedTask, read_probabilities
from faircil.results.record import RunSummary, Values, averages


@dataclass(frozen=True)
class ProcessedRun:
    """A run as post-processing with ε makes it.

    Parameters
    ----------
    run : RunSummary
    epsilon : float or None
        None: without post-processing.
    metrics : mapping
        Means over tasks of all metrics.
    largest_gap : float
        Mean over tasks of the largest ``|P(ŷ=k | z) − P(ŷ=k)|`` on the test samples.
    notes : tuple of str
    """

    run: RunSummary
    epsilon: float | None
    metrics: Values
    largest_gap: float
    notes: tuple[str, ...]


def process_run(run: RunSummary, epsilons: Sequence[float]) -> list[ProcessedRun]:
    """Return the run without post-processing, then with each ε."""
    tasks = read_probabilities(run)
    return [_process(run, tasks, epsilon) for epsilon in (None, *epsilons)]


def _process(run: RunSummary, tasks: Sequence[SavedTask], epsilon: float | None) -> ProcessedRun:
    per_task: list[TaskMetrics] = []
    gaps = []
    notes: dict[str, None] = {}
    for saved in tasks:
        fair = fair_predictions(saved.probabilities, saved.sensitive, epsilon, run.seed)
        per_task.append(
            evaluate(
                saved.y_true,
                fair.y_pred,
                task=saved.task,
                sensitive=saved.sensitive,
                before=per_task[-1] if per_task else None,
            )
        )
        gaps.append(measured_gap(fair.y_pred, saved.sensitive))
        notes |= dict.fromkeys(fair.notes)
    return ProcessedRun(run, epsilon, averages(per_task), float(np.mean(gaps)), tuple(notes))
