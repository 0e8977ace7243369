from __future__ import annotations

import pytest

from faircil.data.stream import named_tasks, task_mistakes

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
