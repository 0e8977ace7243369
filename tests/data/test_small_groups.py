from __future__ import annotations

import torch

from faircil.data.splits import small_groups
from faircil.data.stream import Task, TaskStream
from faircil.samples import Samples


def samples(y: list[int], z: list[int] | None = None) -> Samples:
    attribute = None if z is None else torch.tensor(z)
    return Samples(torch.zeros(len(y), 2), torch.tensor(y), attribute)


def test_small_and_absent_groups_are_named() -> None:
    test = samples([0, 0, 1, 1], [0, 1, 0, 1])
    stream = TaskStream(
        "mine",
        (Task((0, 1), samples([0, 0, 0, 0, 1], [0, 0, 0, 1, 1]), test),),
        ("a", "b"),
        "sex",
        ("f", "m"),
    )
    assert small_groups(stream, quota=3) == [
        "without a training sample, so they take no part: class 'b' with sex 'f' (task 1)",
        "with fewer training samples than the 3 that the buffer keeps per group, so all of them "
        "are kept: class 'a' with sex 'm' (1, task 1), class 'b' with sex 'm' (1, task 1)",
    ]
    # Without a buffer only absence matters.
    assert len(small_groups(stream, quota=0)) == 1


def test_without_an_attribute_groups_are_classes() -> None:
    stream = TaskStream("mine", (Task((0, 1), samples([0, 0, 1]), samples([0, 1])),), ("a", "b"))
    (note,) = small_groups(stream, 2)
    assert note.endswith(": class 'b' (1, task 1)")


def test_samples_that_come_in_other_tasks_count() -> None:
    tasks = (
        Task((0,), samples([0, 0, 1]), samples([0])),
        Task((1,), samples([1, 0]), samples([1])),
    )
    stream = TaskStream("mine", tasks, ("a", "b"))
    assert small_groups(stream, 2) == []
    (note,) = small_groups(stream, 3)
    assert note.endswith(": class 'b' (2, task 2)")
