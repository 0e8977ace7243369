"""A stream tested on held-out training data, to choose settings without the test data."""

from __future__ import annotations

from dataclasses import replace

import torch

from faircil.data.holdout import draw_test
from faircil.data.stream import Task, TaskStream
from faircil.errors import DataError, shortened
from faircil.rows import unique_rows

SHARE = 0.1


def validation_stream(stream: TaskStream, seed: int, share: float = SHARE) -> TaskStream:
    """Hold out a part of each group's training data, and let it stand for the test data.

    Parameters
    ----------
    stream : TaskStream
        Its test parts are not looked at.
    seed : int
        Of the draw.
    share : float
        Of each group, between 0 and 1; a group of one sample stays in training.
    """

    def parted(task: Task) -> Task:
        _, group = unique_rows(task.train.keys())
        held_out = torch.from_numpy(draw_test(group.numpy(), share, seed))
        return Task(task.classes, task.train.take(~held_out), task.train.take(held_out))

    tasks = tuple(map(parted, stream.tasks))
    few = [
        stream.class_names[c]
        for task in tasks
        for c in task.classes
        if c not in task.test.y or c not in task.train.y
    ]
    if few:
        raise DataError(
            f"too few training samples to hold some out for validation: class {shortened(few)}; "
            "evaluate on test data, or leave these classes out"
        )
    return replace(stream, tasks=tasks)
