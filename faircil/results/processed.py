"""Finished runs with post-processing for several ε, or without uncertain predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faircil.counts import answers_by_group
from faircil.errors import DataError, shortened
from faircil.metrics import TaskMetrics, before_task, evaluate
from faircil.postprocess.tasks import fair_predictions, measured_gap
from faircil.results.record import RunSummary, Values, averages, spread
from faircil.results.run_files import (
    SavedTask,
    read_final_predictions,
    read_names,
    read_probabilities,
)


@dataclass(frozen=True)
class ProcessedRun:
    """A run after post-processing with ε.

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
    names, known = run.config.get("favoured", ()), read_names(Path(run.dir)).classes
    if unknown := [name for name in names if name not in known]:
        raise DataError(
            f"the run in {run.dir} favours {shortened(list(map(str, unknown)))}, which is none of "
            "its classes: its files were altered; run it again"
        )
    return [known.index(name) for name in names] or None


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
        per_task.append(
            evaluate(
                saved.y_true,
                fair.y_pred,
                task=saved.task,
                sensitive=saved.sensitive,
                before=before_task(per_task, saved.task),
                favoured=favoured,
            )
        )
        gaps.append(measured_gap(fair.y_pred, saved.sensitive))
        notes |= dict.fromkeys(fair.notes)
    return ProcessedRun(run, epsilon, averages(per_task), float(np.mean(gaps)), tuple(notes))


@dataclass(frozen=True)
class GroupAnswers:
    """Answers of the final model without its least certain predictions: means over runs.

    Parameters
    ----------
    label : str or None
        Name of the class; None: all test samples.
    attribute : str or None
        Name of the attribute value; None without one.
    n : float
        Number of test samples.
    accuracy : float
        Accuracy on all of them.
    answered : float
        Fraction of them whose prediction is certain enough.
    answered_accuracy : float or None
        Accuracy on these; None if a run has none.
    """

    label: str | None
    attribute: str | None
    n: float
    accuracy: float
    answered: float
    answered_accuracy: float | None


def abstained(runs: Sequence[RunSummary], abstain: float) -> list[GroupAnswers]:
    """Withhold a fraction of the predictions of each run, regardless of group.

    The threshold depends on the probabilities of the test samples, but not on their classes.

    Returns
    -------
    list of GroupAnswers
        First for all test samples, then for each group, by name.
    """
    found: dict[tuple[str | None, str | None], list[tuple[int, float, int, float | None]]] = {}
    for run in runs:
        final = read_final_predictions(Path(run.dir))
        columns = (final.y_true, final.y_pred, final.probability)
        for one in answers_by_group(*columns, abstain, final.sensitive):
            row = (one.n, one.accuracy, one.answered, one.answered_accuracy)
            found.setdefault((one.label, one.attribute), []).append(row)
    return [_answers(*key, rows) for key, rows in found.items()]


def _answers(
    label: str | None,
    attribute: str | None,
    rows: Sequence[tuple[int, float, int, float | None]],
) -> GroupAnswers:
    n, accuracy, answered, answered_accuracy = zip(*rows, strict=True)
    return GroupAnswers(
        label,
        attribute,
        n=float(np.mean(n)),
        accuracy=float(np.mean(accuracy)),
        answered=float(np.mean(np.divide(answered, n))),
        answered_accuracy=spread(answered_accuracy)[0],
    )
