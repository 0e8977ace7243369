"""Tasks as a user writes them: ``"a,b|c,d"``, classes a and b, then c and d."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from faircil.data.stream import classes_in_tasks
from faircil.errors import unknown_name


def named_tasks(text: str | None, classes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names of each task's classes; without ``text``, two of ``classes`` per task.

    Examples
    --------
    >>> named_tasks("a, b | d", ["a", "b", "c", "d"])
    [('a', 'b'), ('d',)]
    >>> named_tasks(None, ["a", "b", "c"])
    [('a', 'b'), ('c',)]
    """
    if text is None:
        return [tuple(classes[c] for c in task) for task in classes_in_tasks(len(classes), 2)]
    return [tuple(name.strip() for name in task.split(",")) for task in text.split("|")]


def task_mistakes(text: str, classes: Sequence[str]) -> list[str]:
    """Say what is wrong with the tasks in ``text`` for data that has ``classes``."""
    tasks = named_tasks(text, classes)
    times = Counter(chain.from_iterable(tasks))
    mistakes = [
        f"task {number} of tasks '{text}' has an empty class name; write tasks like 'a,b|c,d'"
        for number, task in enumerate(tasks, start=1)
        if "" in task
    ]
    mistakes += [
        f"class '{name}' is {count} times in tasks '{text}'; put it in one task"
        for name, count in times.items()
        if name and count > 1
    ]
    mistakes += [
        unknown_name("class", name, classes) for name in times if name and name not in classes
    ]
    if len(times.keys() - {""}) < 2:
        mistakes.append(f"tasks '{text}' name fewer than two classes; name at least two")
    return mistakes
