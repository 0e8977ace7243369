from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from faircil.data.datasets import load_dataset
from faircil.data.splits import small_groups, validation_stream
from faircil.data.stream import Task, TaskStream
from faircil.errors import DataError
from faircil.samples import Samples, concatenate, group_counts
from small_runs import ABSENT, FEW, PER_GROUP, small_stream


def test_training_data_is_parted_and_test_data_plays_no_part() -> None:
    stream = small_stream(attribute=True)
    held_out = validation_stream(stream, seed=0, share=0.25)
    for before, after in zip(stream.tasks, held_out.tasks, strict=True):
        rows = torch.cat([after.train.x, after.test.x]).tolist()
        assert sorted(rows) == sorted(before.train.x.tolist())
        for key, count in group_counts(after.test).items():
            assert count == (1 if group_counts(before.train)[key] == FEW else PER_GROUP // 4)
        assert ABSENT not in group_counts(after.test)
        assert after.classes == before.classes
    assert held_out.class_names == stream.class_names


def test_the_seed_draws() -> None:
    stream = small_stream(attribute=False)
    one, same, other = (validation_stream(stream, seed).tasks[0].test.x for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_classes_that_are_too_small_are_named() -> None:
    stream = small_stream(attribute=False)
    task = stream.tasks[0]
    first = torch.cat([(task.train.y == c).nonzero()[:1, 0] for c in task.classes])
    tiny = replace(stream, tasks=(replace(task, train=task.train.take(first)), *stream.tasks[1:]))
    with pytest.raises(DataError, match=r"too few training samples to hold some out.*: class"):
        validation_stream(tiny, seed=0)


@pytest.mark.parametrize("name", ["digits", "biased-digits"])
def test_all_copies_of_an_image_are_on_one_side(name: str) -> None:
    stream = load_dataset(name, 0)
    before, after = stream.tasks[0], validation_stream(stream, 0).tasks[0]
    place = {row.numpy().tobytes(): n // 20 for n, row in enumerate(before.train.x)}
    train, held_out = (
        {place[row.numpy().tobytes()] for row in part.x} for part in (after.train, after.test)
    )
    assert not train & held_out
    assert len(after.test) == pytest.approx(0.1 * len(before.train), rel=0.05)
    assert set(group_counts(after.test)) == set(group_counts(before.train))


def test_rows_of_classes_that_a_task_neither_brings_nor_renews_are_all_trained_on() -> None:
    stream = small_stream(attribute=False)
    first, second, third = stream.tasks
    both = concatenate([second.train, first.train])
    again = replace(third, classes=(), train=first.train, test=first.test, renewed=first.classes)
    mixed = replace(stream, tasks=(first, replace(second, train=both), third, again))
    held_out = validation_stream(mixed, seed=0).tasks
    assert set(held_out[1].test.y.tolist()) == set(second.classes)
    assert group_counts(held_out[1].train)[0,] == group_counts(first.train)[0,]
    assert held_out[3].renewed == first.classes
    assert set(held_out[3].test.y.tolist()) == set(first.classes)


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
