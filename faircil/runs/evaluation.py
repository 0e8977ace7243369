"""Evaluation of a run after a task: predictions, metrics, and probabilities for post-processing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from faircil.errors import DivergedError
from faircil.metrics import before_task, evaluate
from faircil.postprocess.tasks import TaskProbabilities, fair_predictions
from faircil.results.record import EpochRecord, Predictions
from faircil.runs.config import RunConfig
from faircil.runs.state import RunState
from faircil.samples import Samples, concatenate, group_counts

MOST_PROBABILITIES = 10**8  # bytes of probabilities that a run keeps for later post-processing


def evaluate_task(config: RunConfig, seed: int, state: RunState, tests: Sequence[Samples]) -> None:
    """Add predictions and metrics to the state, and probabilities if they can be used later.

    Parameters
    ----------
    config : RunConfig
    seed : int
        Seed of the run.
    state : RunState
        State at the end of a task.
    tests : sequence of Samples
        Test samples of each task so far, see :meth:`faircil.data.stream.TaskStream.tests_after`.
    """
    start = time.perf_counter()
    scores = torch.cat([test.mapped(state.learner.scores) for test in tests])
    if not (scores < math.inf).all():  # minus infinity rules a class out
        raise diverged(config, state.epochs[-1], "infinite or NaN outputs on test samples")
    y_pred = scores.argmax(dim=1).cpu().numpy()
    labels = [test.y.cpu().numpy() for test in tests]
    attributes = [test.z.cpu().numpy() for test in tests if test.z is not None]
    sensitive = np.concatenate(attributes) if attributes else None
    pool = concatenate(state.held_out) if state.held_out else state.buffer.samples
    # If some are missing, they were discarded as too large.
    wanted = config.postprocess != "none" or len(state.probabilities) == len(state.per_task)
    if sensitive is not None and pool is not None and wanted:
        probabilities = task_probabilities(state, scores, pool)
        state.probabilities.append(probabilities)
        if config.postprocess == "none":
            _limit_probabilities(state)
        else:
            fair = fair_predictions(probabilities, sensitive, config.epsilon, seed)
            y_pred = fair.y_pred
            notes = [f"{config.postprocess}: {note}" for note in fair.notes]
            state.notes += [note for note in notes if note not in state.notes]
    predictions = Predictions(
        y_true=np.concatenate(labels),
        y_pred=y_pred,
        probability=scores.softmax(dim=1).float().cpu().numpy()[np.arange(len(y_pred)), y_pred],
        sensitive=sensitive,
        task=np.repeat(np.arange(len(labels)), [len(part) for part in labels]),
    )
    state.predictions.append(predictions)
    state.per_task.append(
        evaluate(
            predictions.y_true,
            predictions.y_pred,
            task=predictions.task,
            sensitive=predictions.sensitive,
            before=before_task(state.per_task, predictions.task),
            favoured=state.learner.measure.favoured,
        )
    )
    state.eval_seconds += time.perf_counter() - start


def _limit_probabilities(state: RunState) -> None:
    """Discard probabilities if they are too large: they grow with tasks, rows and classes."""
    total = sum(each.test.nbytes + each.pool.nbytes for each in state.probabilities)
    if total > MOST_PROBABILITIES:
        state.probabilities.clear()
        state.notes.append(
            f"probabilities after every task are more than {MOST_PROBABILITIES / 1e6:,.0f} MB and "
            "are not kept, so the run cannot be post-processed later; to do that, run it with "
            "post-processing"
        )


def task_probabilities(state: RunState, test_scores: Tensor, pool: Samples) -> TaskProbabilities:
    """Return probabilities of the seen classes, for test samples and pool.

    A buffer has as many samples of a rare group as of a frequent one. So a pool sample of group (y,
    z) is weighted by the size of the group in the data, divided by its size in the pool. The former
    includes held-out samples, so it does not depend on how many were held out.
    """
    assert pool.z is not None
    classes = sorted({key[0] for key in state.seen})
    there = Counter(state.seen)
    for held_out in state.held_out:
        there.update(group_counts(held_out))
    keys, group, kept = torch.unique(pool.keys(), dim=0, return_inverse=True, return_counts=True)
    size = torch.tensor([there[tuple(key)] for key in keys.tolist()])
    z = pool.z.cpu().numpy()
    values = np.unique(z)
    counts = [sum(n for key, n in there.items() if key[1] == value) for value in values]

    def probabilities(scores: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        return scores[:, classes].softmax(dim=1).float().cpu().numpy()

    return TaskProbabilities(
        classes=np.array(classes, dtype=np.int64),
        test=probabilities(test_scores),
        pool=probabilities(state.learner.scores(pool.x)),
        pool_sensitive=z,
        pool_weight=(size / kept.cpu()).double()[group.cpu()].numpy(),
        values=values,
        counts=np.array(counts, dtype=np.int64),
    )


def diverged(config: RunConfig, record: EpochRecord, signs: str) -> DivergedError:
    """Return the error for a run whose training has diverged, as shown by ``signs``."""
    lr = config.settings.learner.lr
    return DivergedError(
        f"training diverged in task {record.task}, epoch {record.epoch}: the net has {signs}; "
        f"lower the learning rate with `lr={lr / 10:g}` (it was {lr:g}), or lower tau"
    )
