"""Evaluation of a learner after a task, on the test samples of all tasks so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from faircil.metrics import evaluate
from faircil.postprocess.tasks import TaskProbabilities, fair_predictions
from faircil.results.record import Predictions
from faircil.runs.config import RunConfig
from faircil.runs.state import RunState
from faircil.samples import Samples, concatenate, group_counts


def evaluate_task(config: RunConfig, seed: int, state: RunState, tests: Sequence[Samples]) -> None:
    """Add predictions and metrics to the state, and probabilities where they can be of use.

    Parameters
    ----------
    config : RunConfig
    seed : int
        Of the run.
    state : RunState
        At the end of a task.
    tests : sequence of Samples
        Test samples of each task so far.
    """
    start = time.perf_counter()
    scores = torch.cat([state.learner.scores(test.x) for test in tests])
    y_pred = scores.argmax(dim=1).cpu().numpy()
    labels = [test.y.cpu().numpy() for test in tests]
    attributes = [test.z.cpu().numpy() for test in tests if test.z is not None]
    sensitive = np.concatenate(attributes) if attributes else None
    pool = concatenate(state.held_out) if state.held_out else state.buffer.samples
    if sensitive is not None and pool is not None:
        probabilities = task_probabilities(state, scores, pool)
        state.probabilities.append(probabilities)
        if config.postprocess != "none":
            fair = fair_predictions(probabilities, sensitive, config.epsilon, seed)
            y_pred = fair.y_pred
            notes = [f"{config.postprocess}: {note}" for note in fair.notes]
            state.notes += [note for note in notes if note not in state.notes]
    predictions = Predictions(
        y_true=np.concatenate(labels),
        y_pred=y_pred,
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
            before=state.per_task[-1] if state.per_task else None,
        )
    )
    state.eval_seconds += time.perf_counter() - start


def task_probabilities(state: RunState, test_scores: Tensor, pool: Samples) -> TaskProbabilities:
    """Return probabilities over the seen classes, of the test and of the pool.

    A buffer holds as many of a rare group as of a frequent one. A sample of group (y, z) weighs
    as many samples of the group as there were for each that is in the pool. Samples that were held
    out count as well: groups are as large as in the data, whatever part was trained on.
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
