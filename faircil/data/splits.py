"""Splits of the training data: validation, held-out samples, and notes on small groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from faircil.data.stream import Task, TaskStream
from faircil.data.table_columns import draw_test
from faircil.errors import DataError, shortened
from faircil.samples import Samples, group_counts, rows_of_groups, unique_rows
from faircil.weighting.groups import find_groups

SHARE = 0.1
MOST_NAMED = 12  # small groups in a note
SMALLEST_PART = 4  # at most every fourth sample of a group is held out


def validation_stream(stream: TaskStream, seed: int, share: float = SHARE) -> TaskStream:
    """Replace the test data by validation data: a held-out part of each group's training data.

    If training samples are copies of an original, whole originals are held out, a fraction of each
    class, because a copy in training would leak into the validation data. Rows of a class that come
    in another task than the one that introduces or renews it are all used for training.

    Parameters
    ----------
    stream : TaskStream
        Its test data is not used.
    seed : int
        Seed of the split.
    share : float
        Fraction of each group, between 0 and 1; a group of one sample stays in training.
    """

    def parted(task: Task) -> Task:
        keys = task.train.keys() if stream.copies == 1 else task.train.y[:: stream.copies, None]
        _, group = unique_rows(keys)
        held_out = torch.from_numpy(draw_test(group.numpy(), share, seed))
        held_out = held_out.repeat_interleave(stream.copies)
        own = torch.tensor((*task.classes, *task.renewed), dtype=torch.int64)
        held_out &= torch.isin(task.train.y, own)
        return replace(task, train=task.train.take(~held_out), test=task.train.take(held_out))

    tasks = tuple(map(parted, stream.tasks))
    few = [
        stream.class_names[c]
        for task in tasks
        for c in (*task.classes, *task.renewed)
        if c not in task.test.y or c not in task.train.y
    ]
    if few:
        raise DataError(
            f"too few training samples to hold some out for validation: class {shortened(few)}; "
            "evaluate on test data, or leave these classes out"
        )
    return replace(stream, tasks=tasks)


def small_groups(stream: TaskStream, quota: int) -> list[str]:
    """Return notes on groups with no, or fewer training samples than ``quota`` (0: no buffer)."""
    absent, small = [], []
    counts: Counter[tuple[int, ...]] = Counter()
    for task in stream.tasks:
        counts.update(group_counts(task.train))
    for number, task in enumerate(stream.tasks, start=1):
        for c in task.classes:
            for z in range(max(1, len(stream.attribute_values))):
                name = f"class '{stream.class_names[c]}'"
                if stream.attribute is None:
                    count = counts[c,]
                else:
                    name += f" with {stream.attribute} '{stream.attribute_values[z]}'"
                    count = counts[c, z]
                if count == 0:
                    absent.append(f"{name} (task {number})")
                elif count < quota:
                    small.append(f"{name} ({count}, task {number})")
    notes = []
    if absent:
        notes.append(
            f"without a training sample, so they take no part: {shortened(absent, MOST_NAMED)}"
        )
    if small:
        notes.append(
            f"with fewer training samples than the {quota} that the buffer keeps per group, so all "
            f"of them are kept: {shortened(small, MOST_NAMED)}"
        )
    return notes


def hold_out(train: Samples, per_group: int, seed: int) -> tuple[Samples, Samples | None]:
    """Split a task's training data into training and held-out samples.

    A net is overconfident on its training samples, most of all on the buffer. A rule fitted on
    their probabilities does not transfer to new samples.

    Parameters
    ----------
    train : Samples
        n samples.
    per_group : int
        Number of samples of each group (y, z) to hold out, fewer if the group is small; 0: none.
    seed : int
        Seed of the split; the same task gets the same split, also in a resumed run.
    """
    if per_group == 0:
        return train, None
    generator = torch.Generator().manual_seed(seed)
    membership = find_groups(train, None, by_attribute=train.z is not None)
    held = torch.zeros(len(train), dtype=torch.bool)
    for rows in rows_of_groups(membership.current, len(membership.groups)):
        order = rows[torch.randperm(len(rows), generator=generator)]
        held[order[: min(per_group, len(rows) // SMALLEST_PART)]] = True
    return train.part(~held), train.take(held)
