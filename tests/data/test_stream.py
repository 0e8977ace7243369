from __future__ import annotations

import numpy as np
import pytest
import torch

from faircil.data.stream import (
    Part,
    Task,
    TaskStream,
    classes_in_tasks,
    cut_into_tasks,
    named_tasks,
    shuffled_classes,
    task_mistakes,
)
from faircil.errors import DataError
from faircil.samples import Samples


def samples(y: list[int], z: list[int] | None = None, fill: float = 0.0) -> Samples:
    attribute = None if z is None else torch.tensor(z)
    return Samples(torch.full((len(y), 2), fill), torch.tensor(y, dtype=torch.int64), attribute)


def part(y: list[int], z: list[int] | None = None) -> Part:
    return Part(
        np.array(y),
        None if z is None else np.array(z),
        lambda rows: np.stack([rows, -rows], axis=1).astype(np.float32),
    )


def test_a_part_gives_tensors_of_the_rows_asked_for() -> None:
    taken = part([5, 6, 7], [0, 1, 0]).take(np.array([2, 0]))
    assert taken.x.tolist() == [[2, -2], [0, 0]]
    assert taken.x.dtype == torch.float32
    assert taken.y.tolist() == [7, 5]
    assert taken.z is not None
    assert taken.z.tolist() == [0, 0]
    assert part([5, 6]).take(np.array([0])).z is None


@pytest.mark.parametrize(
    ("n", "per_task", "order", "tasks"),
    [
        (6, 2, None, [(0, 1), (2, 3), (4, 5)]),
        (3, 1, None, [(0,), (1,), (2,)]),
        (3, 5, None, [(0, 1, 2)]),
        (5, 2, [4, 2, 0, 1, 3], [(4, 2), (0, 1), (3,)]),
    ],
)
def test_classes_are_cut_in_their_order(
    n: int, per_task: int, order: list[int] | None, tasks: list[tuple[int, ...]]
) -> None:
    assert classes_in_tasks(n, per_task, order) == tasks


@pytest.mark.parametrize("attribute", ["sex", None])
def test_all_samples_have_the_attribute_or_none(attribute: str | None) -> None:
    tasks = (Task((0, 1), samples([0, 1]), samples([0, 1], [0, 1])),)
    with pytest.raises(DataError, match="1 of the 2 parts of some have no attribute"):
        TaskStream("some", tasks, ("a", "b"), attribute, ("f", "m"))


def test_shuffled_classes_are_a_permutation_from_the_seed() -> None:
    orders = [shuffled_classes(10, seed) for seed in range(5)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len(set(map(tuple, orders))) == 5
    assert orders[3] == shuffled_classes(10, 3)
    assert all(type(c) is int for c in orders[0])


def test_every_task_gets_the_rows_of_its_classes_and_no_others() -> None:
    train, test = part([2, 0, 1, 0], [0, 1, 0, 0]), part([1, 0, 2])
    first, second = cut_into_tasks(train, test, [(2, 0), (1,)])
    assert first.classes == (2, 0)
    assert first.train.x[:, 0].tolist() == [0, 1, 3]
    assert first.train.y.tolist() == [2, 0, 0]
    assert first.train.z is not None
    assert first.train.z.tolist() == [0, 1, 0]
    assert first.test.x[:, 0].tolist() == [1, 2]
    assert (second.train.y.tolist(), second.test.y.tolist()) == ([1], [1])


def test_a_stream_counts_all_its_classes() -> None:
    task = Task((0, 1), samples([0, 1]), samples([0, 1]))
    assert TaskStream("mine", (task,), ("a", "b")).n_classes == 2


def test_a_stream_names_all_its_mistakes_at_once() -> None:
    good = samples([0, 1])
    with pytest.raises(DataError) as caught:
        TaskStream(
            "mine",
            (
                Task((0, 1), good, samples([0, 0])),
                Task((1,), samples([1], fill=float("nan")), samples([1], fill=float("inf"))),
                Task((2,), samples([1]), samples([2])),
            ),
            ("a", "b", "c"),
        )
    lines = str(caught.value).splitlines()
    assert lines == [
        "- class 'b' is in 2 tasks; put it in one",
        "- class 'b' of task 1 has no test sample",
        "- the training part of task 2 has NaN or infinite features; replace or remove these rows",
        "- the test part of task 2 has NaN or infinite features; replace or remove these rows",
        "- class 'c' of task 3 has no training sample",
    ]


def test_classes_and_values_without_a_name() -> None:
    tasks = (
        Task((0,), samples([0], [0]), samples([0], [2])),
        Task((4,), samples([4]), samples([-1])),
    )
    with pytest.raises(DataError) as caught:
        TaskStream("some", tasks, ("a", "b"), "sex", ("f", "m"))
    message = str(caught.value)
    assert "task 1 has attribute value 2, but only 2 have names" in message
    assert "task 2 has class -1" in message
    assert "task 2 has class 4, but only 2 have names" in message


def test_one_class_is_not_enough() -> None:
    with pytest.raises(DataError, match="mine has 1 class"):
        TaskStream("mine", (Task((0,), samples([0]), samples([0])),), ("a",))


def test_a_class_that_comes_back_is_tested_on_its_last_samples() -> None:
    first = Task((0, 1), samples([0, 1]), samples([0, 1, 1]))
    second = Task((2,), samples([2, 0]), samples([2, 1], fill=5.0), renewed=(1,))
    third = Task((), samples([0, 2]), samples([]))
    with pytest.raises(DataError, match="class 'b' of task 2 has no training sample"):
        TaskStream("mine", (first, second, third), ("a", "b", "c"))
    second = Task((2,), samples([2, 1, 0]), second.test, renewed=(1,))
    stream = TaskStream("mine", (first, second, third), ("a", "b", "c"))
    assert stream.tests_after(1) == [first.test]
    old, new = stream.tests_after(2)
    assert (old.y.tolist(), new.y.tolist()) == ([0, 1], [2])
    assert old.x[:, 0].tolist() == [0, 5]
    # The third brings no class, so there is nothing of its own to test.
    assert [test.y.tolist() for test in stream.tests_after(3)] == [[0, 1], [2]]


def test_a_class_is_new_before_it_is_renewed_and_tested_where_it_is_either() -> None:
    good = samples([0, 1])
    with pytest.raises(DataError) as caught:
        TaskStream(
            "mine",
            (
                Task((0,), good, good, renewed=(1,)),
                Task((1,), good, good),
            ),
            ("a", "b"),
        )
    assert str(caught.value).splitlines() == [
        "- class 'b' of task 1 is renewed, but no earlier task has brought it; name it as a new "
        "class",
        "- task 2 has test samples of class 'a', which it neither brings nor renews; put them into "
        "the task that does",
    ]


CLASSES = ("apple", "banana", "cherry")


def test_good_tasks_have_no_mistakes() -> None:
    assert task_mistakes(" apple,cherry | banana", CLASSES) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apple,banana||cherry", "task 2 of tasks 'apple,banana||cherry' has an empty class name"),
        ("apple,,banana", "task 1 of tasks 'apple,,banana' has an empty class name"),
        ("apple|banana,apple", "class 'apple' appears 2 times in tasks"),
        ("apple|bananna", "unknown class 'bananna': did you mean 'banana'?"),
        ("apple", "fewer than two classes"),
        ("", "fewer than two classes"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    assert message in "\n".join(task_mistakes(text, CLASSES))


ODD = ("a, b", "c|d", 'say "hi"', "plain", "5'")


@pytest.mark.parametrize(
    "text",
    [
        '"a, b","c|d"|"say ""hi""", plain,5\'',
        '"a, b","c|d"\n"say ""hi""", plain,5\'\n',
    ],
)
def test_any_name_can_be_named(text: str) -> None:
    assert task_mistakes(text, ODD) == []
    assert named_tasks(text, ODD) == [ODD[:2], ODD[2:]]


def test_names_that_need_marks_are_told_how() -> None:
    mistakes = task_mistakes("a, b|c|d", ODD)
    assert any("stand in quotation marks" in mistake for mistake in mistakes)
