"""Tasks and streams of tasks, and datasets before they are divided into tasks."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.counts import Integers as Integers
from faircil.errors import DataError, raise_all, unknown_name
from faircil.samples import Samples, concatenate

if TYPE_CHECKING:
    import pandas as pd

Inputs = Callable[[Integers], NDArray[np.float32] | Integers]


class RowEncoder(Protocol):
    """Turns rows of a table (columns, texts or images) into inputs of a model."""

    @property
    def names(self) -> list[str]:
        """Names of the columns that are read."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Decisions about the columns, as notes for the user."""

    @property
    def width(self) -> int:
        """Number of inputs of a row."""

    def check(self, table: pd.DataFrame) -> list[str]:
        """Return notes on a table; raise a DataError listing missing and unsuitable columns."""

    def inputs(self, table: pd.DataFrame) -> NDArray[np.float32]:
        """Return the inputs of all rows, (n, width)."""


@dataclass(frozen=True)
class Part:
    """The training or test part of a dataset, before it is divided into tasks.

    Parameters
    ----------
    y : ndarray of int64, shape (n,)
        Classes, numbered from 0.
    z : ndarray of int64, shape (n,), or None
        Attribute values, numbered from 0.
    inputs : callable
        ``inputs(rows)`` returns the float32 inputs (len(rows), d) of these rows, or for texts
        their int64 indices (len(rows),) among all texts. It is a function so that large inputs
        are created once per task and never held in memory twice.
    """

    y: Integers
    z: Integers | None
    inputs: Inputs

    def take(self, rows: Integers) -> Samples:
        """Return the samples at ``rows`` as tensors."""
        z = None if self.z is None else torch.from_numpy(self.z[rows])
        return Samples(
            torch.from_numpy(np.ascontiguousarray(self.inputs(rows))),
            torch.from_numpy(self.y[rows]),
            z,
        )


@dataclass(frozen=True)
class Task:
    """New classes with their samples.

    Parameters
    ----------
    classes : tuple of int
        Classes introduced by the task; empty if all its rows are of classes seen before.
    train : Samples
        Usually of these classes only; rows of other classes may come early or again.
    test : Samples
        Samples of the new classes and of the ``renewed`` ones.
    renewed : tuple of int
        Classes of earlier tasks that return with different data. From this task on, they are
        tested on these samples instead of the earlier ones.
    """

    classes: tuple[int, ...]
    train: Samples
    test: Samples
    renewed: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskStream:
    """Tasks in the order in which a learner meets them.

    Parameters
    ----------
    name : str
        Name of the dataset.
    tasks : tuple of Task
        No class is new in more than one of them.
    class_names : tuple of str
        Name of class 0, 1, ….
    attribute : str or None
        Name of the sensitive attribute; None if there is none.
    attribute_values : tuple of str
        Name of attribute value 0, 1, …; empty without an attribute.
    notes : tuple of str
        Notes for the user on how the data was read.
    texts : tuple of str or None
        If inputs are texts that are not yet encoded: all texts; a sample's ``x`` is the index of
        its text.
    files : tuple of str or None
        If inputs are images that are not yet read: the paths of all files; ``x`` is an index.
    copies : int
        Number of consecutive training samples that are copies of one original; 1: no copies.
        Splits keep copies together.
    image : tuple of int or None
        Channels, height and width, if inputs are images, flattened in that order.
    encoder : RowEncoder or None
        How table rows become inputs; None: the inputs are not from a table.
    """

    name: str
    tasks: tuple[Task, ...]
    class_names: tuple[str, ...]
    attribute: str | None = None
    attribute_values: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    texts: tuple[str, ...] | None = field(default=None, repr=False)
    copies: int = 1
    image: tuple[int, int, int] | None = None
    files: tuple[str, ...] | None = field(default=None, repr=False)
    encoder: RowEncoder | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        raise_all(list(self._mistakes()), DataError)

    def _unnamed(self) -> list[str]:
        """Find classes and attribute values without a name."""
        mistakes = []
        for number, task in enumerate(self.tasks, start=1):
            classes = {*task.classes, *task.renewed}
            values: set[int] = set()
            for part in (task.train, task.test):
                classes |= set(torch.unique(part.y).tolist())
                if part.z is not None and self.attribute is not None:
                    values |= set(torch.unique(part.z.clamp(min=-1)).tolist()) - {-1}
            for what, found, names in (
                ("class", classes, self.class_names),
                ("attribute value", values, self.attribute_values),
            ):
                mistakes += [
                    f"task {number} has {what} {one}, but only {len(names)} have names, "
                    "numbered from 0; name all of them"
                    for one in sorted(found)
                    if not 0 <= one < len(names)
                ]
        return mistakes

    def _mistakes(self) -> list[str]:
        if unnamed := self._unnamed():
            return unnamed
        occurrences = Counter(chain.from_iterable(task.classes for task in self.tasks))
        mistakes = [
            f"class '{self.class_names[c]}' is in {times} tasks; put it in one"
            for c, times in occurrences.items()
            if times > 1
        ]
        if len(occurrences) < 2:
            mistakes.append(
                f"{self.name} has {len(occurrences)} class(es); at least two are needed"
            )
        parts = [part for task in self.tasks for part in (task.train, task.test)]
        lacking = sum(part.z is None for part in parts)
        if lacking and (self.attribute is not None or lacking < len(parts)):
            mistakes.append(
                f"{lacking} of the {len(parts)} parts of {self.name} have no attribute values, and "
                "others do or the attribute is named; give z to all samples, −1 where it is "
                "unknown, or to none"
            )
        known: set[int] = set()
        for number, task in enumerate(self.tasks, start=1):
            mistakes += [
                f"class '{self.class_names[c]}' of task {number} is renewed, but no earlier task "
                "has brought it; name it as a new class"
                for c in task.renewed
                if c not in known
            ]
            known.update(task.classes)
            foreign = set(torch.unique(task.test.y).tolist()).difference(task.classes, task.renewed)
            mistakes += [
                f"task {number} has test samples of class '{self.class_names[c]}', which it "
                "neither brings nor renews; put them into the task that does"
                for c in sorted(foreign)
            ]
            for part, samples in (("training", task.train), ("test", task.test)):
                present = set(torch.unique(samples.y).tolist())
                mistakes += [
                    f"class '{self.class_names[c]}' of task {number} has no {part} sample"
                    for c in (*task.classes, *task.renewed)
                    if c not in present
                ]
                if not all_finite(samples.x):
                    mistakes.append(
                        f"the {part} part of task {number} has NaN or infinite features; "
                        "replace or remove these rows"
                    )
        return mistakes

    @property
    def n_classes(self) -> int:
        """Number of classes over all tasks, which is the number of outputs."""
        return len(self.class_names)

    def tests_after(self, number: int) -> list[Samples]:
        """Return the test samples after ``number`` tasks, by the task that introduced their class.

        A renewed class is tested on its latest samples. Tasks without new classes have no entry.
        """
        tests: list[Samples] = []
        for task in self.tasks[:number]:
            own = task.test
            if task.renewed:
                back = torch.isin(own.y, torch.tensor(task.renewed))
                tests = [_renewed(test, own.part(back)) for test in tests]
                own = own.part(~back)
            tests += [own] * bool(task.classes)
        return tests


def _renewed(test: Samples, new: Samples) -> Samples:
    """Replace the samples of the classes in ``new``."""
    replaced = torch.isin(test.y, new.y)
    if not replaced.any():
        return test
    return concatenate([test.part(~replaced), new.part(torch.isin(new.y, test.y))])


def all_finite(x: Tensor) -> bool:
    """Whether x has no NaN and no infinity, tested by minimum and maximum in one pass."""
    return x.numel() == 0 or bool(torch.isfinite(torch.stack(torch.aminmax(x))).all())


def classes_in_tasks(
    n_classes: int, per_task: int, order: Sequence[int] | None = None
) -> list[tuple[int, ...]]:
    """Divide the classes, in ``order``, into tasks of ``per_task`` (the last may be smaller).

    Examples
    --------
    >>> classes_in_tasks(5, 2)
    [(0, 1), (2, 3), (4,)]
    """
    order = range(n_classes) if order is None else order
    return [tuple(order[start : start + per_task]) for start in range(0, n_classes, per_task)]


BARE_BARS = re.compile(r'\|(?=(?:[^"]*"[^"]*")*[^"]*$)')  # outside of quotation marks


def named_tasks(
    text: str | None, classes: Sequence[str], per_task: int = 2
) -> list[tuple[str, ...]]:
    """Return the names of each task's classes; without ``text``, ``per_task`` classes per task.

    Tasks are lines, or separated by ``|``; classes are separated by commas. As in CSV, a name
    that contains commas, quotation marks or bars is quoted.

    Examples
    --------
    >>> named_tasks("a, b | d", ["a", "b", "c", "d"])
    [('a', 'b'), ('d',)]
    >>> named_tasks('"a, b|c" | d', ["a, b|c", "d"])
    [('a, b|c',), ('d',)]
    >>> named_tasks(None, ["a", "b", "c"])
    [('a', 'b'), ('c',)]
    """
    if text is None:
        return [
            tuple(classes[c] for c in task) for task in classes_in_tasks(len(classes), per_task)
        ]
    quoted = text.count('"') % 2 == 0  # else a mark is part of a name
    bars = BARE_BARS.split(text) if quoted else text.split("|")
    lines = text.strip("\n").split("\n") if "\n" in text else bars
    tasks = csv.reader(lines, skipinitialspace=True)
    return [tuple(name.strip() for name in names or [""]) for names in tasks]


def task_mistakes(text: str, classes: Sequence[str]) -> list[str]:
    """Return the mistakes in a ``text`` of tasks for data with ``classes``."""
    tasks = named_tasks(text, classes)
    times = Counter(chain.from_iterable(tasks))
    mistakes = [
        f"task {number} of tasks '{text}' has an empty class name; write tasks like 'a,b|c,d'"
        for number, task in enumerate(tasks, start=1)
        if "" in task
    ]
    mistakes += [
        f"class '{name}' appears {count} times in tasks '{text}'; put it in one task"
        for name, count in times.items()
        if name and count > 1
    ]
    unknown = [name for name in times if name and name not in classes]
    mistakes += [unknown_name("class", name, classes) for name in unknown]
    if unknown and any(mark in name for name in classes for mark in ',|"'):
        mistakes.append(
            "names with commas, bars or quotation marks stand in quotation marks, with marks in "
            "them doubled, such as '\"a, b\",c|d'"
        )
    if len(times.keys() - {""}) < 2:
        mistakes.append(f"tasks '{text}' name fewer than two classes; name at least two")
    return mistakes


def shuffled_classes(n_classes: int, seed: int) -> list[int]:
    """Return the classes in a random order determined by ``seed``."""
    return [int(c) for c in np.random.default_rng([seed, 11]).permutation(n_classes)]


def cut_into_tasks(train: Part, test: Part, tasks: Sequence[tuple[int, ...]]) -> tuple[Task, ...]:
    """Build one :class:`Task` per tuple of classes."""

    def rows(part: Part, classes: tuple[int, ...]) -> Integers:
        return np.flatnonzero(np.isin(part.y, classes))

    return tuple(
        Task(
            classes,
            train.take(rows(train, classes)),
            test.take(rows(test, classes)),
        )
        for classes in tasks
    )


@dataclass(frozen=True)
class Parts:
    """Training and test part, with the names of classes and attribute values.

    ``notes`` and the fields after it are those of :class:`faircil.data.stream.TaskStream`.
    """

    train: Part
    test: Part
    class_names: tuple[str, ...]
    attribute: str | None = None
    attribute_values: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    texts: tuple[str, ...] | None = field(default=None, repr=False)
    copies: int = 1
    image: tuple[int, int, int] | None = None
