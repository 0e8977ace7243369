"""Finished runs after post-processing: the same metrics, for several ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faircil.metrics import TaskMetrics, evaluate
from faircil.postprocess.tasks import fair_predictions, measured_gap
from faircil.results.folder import SavedTask, read_names, read_probabilities
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
    tasks, favoured = read_probabilities(run), _favoured(run)
    return [_process(run, tasks, favoured, epsilon) for epsilon in (None, *epsilons)]


def _favoured(run: RunSummary) -> list[int] | None:
    """Return the numbers of the favoured classes; None if the run has none."""
    names = run.config.get("favoured", ())
    return [read_names(Path(run.dir)).classes.index(name) for name in names] or None


def _process(
    run: RunSummary,
    tasks: Sequence[SavedTask],
    favoured: Sequence[int] | None,
    epsilon: float | None,
) -> ProcessedRun:
    per_task: list[TaskMetrics] = []
    gaps = []
    notes: dict[str, None] = {}
    for saved in tasks:
        fair = fair_predictions(saved.probabilities, saved.sensitive, epsilon, run.seed)
        # As in the run: without new classes in every task, forgetting is not defined.
        followed = per_task and len(np.unique(saved.task)) == len(per_task) + 1
        before = per_task[-1] if followed else None
        per_task.append(
            evaluate(
                saved.y_true,
                fair.y_pred,
                task=saved.task,
                sensitive=saved.sensitive,
                before=before,
                favoured=favoured,
            )
        )
        gaps.append(measured_gap(fair.y_pred, saved.sensitive))
        notes |= dict.fromkeys(fair.notes)
    return ProcessedRun(run, epsilon, averages(per_task), float(np.mean(gaps)), tuple(notes))
