"""Pre-flight checks of data: what can be learned and detected, before training.

**The smallest detectable gap.** Two groups with n₁ and n₂ test rows are predicted with true
accuracies p and p + d. The difference of the measured accuracies has the variance
``p(1−p)(1/n₁ + 1/n₂)``. A two-sided test at the 5 % level detects it in 80 % of all draws if
``d ≥ (z_.975 + z_.8) √(p(1−p)(1/n₁ + 1/n₂))``, with the quantiles 1.96 and .84 of the normal
distribution. Before training, p is unknown. It is taken as ½, where the variance is largest:
``d = 1.40 √(1/n₁ + 1/n₂)``; at an accuracy of .9, the gap is .6 of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from scipy.stats import norm

from faircil.cache import EmbeddingProgress
from faircil.counts import ENOUGH
from faircil.data.datasets import DATASETS
from faircil.data.own import OwnData
from faircil.data.stream import TaskStream
from faircil.errors import DataError, UsageError, raise_all, shortened, unknown_name, whole_mistakes
from faircil.learners import LEARNERS
from faircil.runs.config import RunConfig, resolve
from faircil.runs.readability import Readability, read_attribute, readable_sentence
from faircil.runs.state import load_stream
from faircil.samples import Samples, group_counts

LEVEL, POWER = 0.05, 0.8  # of the test for a gap
MOST_NAMED = 12  # groups in a sentence
METHOD = "er"  # the method whose buffer is planned, by default


@dataclass(frozen=True)
class GroupSize:
    """Rows of a class in one task, with one attribute value if there is an attribute.

    Parameters
    ----------
    task : int
        Number of the task, starting at 1.
    label : str
        Class.
    value : str or None
        None: unknown, or no attribute.
    train, test : int
        Numbers of rows.
    gap : float or None
        Smallest detectable gap of accuracy to the other test rows of the class, or without an
        attribute to those of the other classes; None if either side has no rows.
    """

    task: int
    label: str
    value: str | None
    train: int
    test: int
    gap: float | None


@dataclass(frozen=True)
class Constant:
    """A task or a class in which all training rows have the same attribute value."""

    where: str
    value: str


@dataclass(frozen=True)
class BufferPlan:
    """The buffer of a replay method at the end of the stream.

    Parameters
    ----------
    per_group, batch : int
        Rows kept of each group, and rows of a replayed batch.
    groups, rows : int
        Groups in the buffer, and its rows.
    """

    per_group: int
    batch: int
    groups: int
    rows: int


@dataclass(frozen=True)
class Preflight:
    """Findings on data before training.

    Parameters
    ----------
    data : str
        Name of the data.
    attribute : str or None
    groups : tuple of GroupSize
    constant : tuple of Constant
    readability : Readability or None
        None without an attribute, or where it is undefined.
    buffer : BufferPlan or None
        None for a method without a buffer.
    findings : tuple of str
        Conclusions, in plain language.
    notes : tuple of str
        How the data was read.
    """

    data: str
    attribute: str | None
    groups: tuple[GroupSize, ...]
    constant: tuple[Constant, ...]
    readability: Readability | None
    buffer: BufferPlan | None
    findings: tuple[str, ...]
    notes: tuple[str, ...]


def diagnose(
    data: str | Path | RunConfig | TaskStream,
    *,
    buffer_size: int | None = None,
    seed: int = 0,
    **roles: Any,
) -> Preflight:
    """Inspect data before anything is trained on it.

    Parameters
    ----------
    data : str, Path, RunConfig or TaskStream
        The name of a dataset, a table, the configuration of a run, or a stream of tasks.
    buffer_size : int, optional
        Rows of each group that replay keeps; by default those that a run with replay would keep,
        and no buffer for a stream.
    seed : int
        Seed of the splits.
    **roles
        Roles of a table's columns: ``label``, ``sensitive``, ``tasks`` and the others of
        :class:`faircil.data.own.OwnData`.

    Examples
    --------
    >>> found = diagnose("toy-groups")
    >>> [(group.label, group.value, group.train) for group in found.groups][:2]
    [('0', '0', 1000), ('0', '1', 1000)]
    """
    raise_all(whole_mistakes(seed=seed))
    if isinstance(data, TaskStream | RunConfig) and roles:
        raise UsageError(
            f"{', '.join(f'`{name}`' for name in roles)}: for a table, given by its path; leave "
            "them out"
        )
    if isinstance(data, TaskStream):
        plan = None if buffer_size is None else _plan(data, buffer_size, buffer_size)
        return inspect(data, plan, seed)
    if isinstance(data, RunConfig):
        return preflight(data, seed)
    chosen = [] if buffer_size is None else [f"buffer_size={buffer_size}"]
    if not roles and str(data) in DATASETS:
        return preflight(resolve(dataset=str(data), method=METHOD, overrides=chosen), seed)
    return preflight(resolve(own=_own(data, roles), method=METHOD, overrides=chosen), seed)


def _own(path: str | Path, roles: dict[str, Any]) -> OwnData:
    """Return a table and its roles; reject unknown roles."""
    known = [one.name for one in fields(OwnData) if one.name != "path"]
    mistakes = [unknown_name("role", name, known) for name in roles if name not in known]
    if "label" not in roles:
        mistakes.append(
            f"'{path}' is not a known dataset (see `faircil list datasets`); of a table, name the "
            "column of the class with `label`"
        )
    raise_all(mistakes)
    given = dict(roles)
    for name in {"sensitive", "ignore"} & given.keys():
        given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
    return OwnData(path=str(path), **given)


def preflight(
    config: RunConfig,
    seed: int = 0,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> Preflight:
    """Inspect the data of a run as it would be used in training.

    Parameters
    ----------
    config : RunConfig
    seed : int
    device : torch.device or str
        Where texts or images are embedded; ``progress`` is then called.
    progress : callable
    """
    raise_all(whole_mistakes(seed=seed))
    stream = load_stream(config, seed, device=device, progress=progress)
    training, plan = config.settings.training, None
    if LEARNERS[config.method].replays:
        plan = _plan(stream, training.buffer_size, training.memory_batch_size)
    return inspect(stream, plan, seed)


def inspect(stream: TaskStream, buffer: BufferPlan | None = None, seed: int = 0) -> Preflight:
    """Inspect a stream of tasks, with the plan of its buffer if it has one."""
    parts = [part for task in stream.tasks for part in (task.train, task.test)]
    if any((part.z is None) != (stream.attribute is None) for part in parts):
        raise DataError(
            f"the attribute of {stream.name} is {stream.attribute}, and its samples say otherwise; "
            "give z to all samples and name the attribute, or neither"
        )
    groups = tuple(_sizes(stream))
    constant = tuple(_constant(stream))
    told, unread = (None, []) if stream.attribute is None else read_attribute(stream, seed)
    findings = [
        *_absent(stream, groups),
        *_too_few(stream, groups),
        *(_constant_sentence(stream, one) for one in constant),
        *([] if told is None else [readable_sentence(stream.attribute or "", told)]),
        *unread,
        *([] if buffer is None else _buffer_sentences(buffer)),
        *_gap_sentence(stream, groups),
    ]
    return Preflight(
        stream.name,
        stream.attribute,
        groups,
        constant,
        told,
        buffer,
        tuple(findings),
        stream.notes,
    )


def detectable_gap(first: int, second: int, rate: float = 0.5) -> float:
    """Return the smallest gap of accuracy that is detectable between two groups of test rows.

    Two-sided test at the 5 % level with a power of 80 %; see the module's docstring.

    Parameters
    ----------
    first, second : int
        Test rows of the groups, at least 1.
    rate : float
        Approximate accuracy.

    Examples
    --------
    >>> round(detectable_gap(100, 100), 3), round(detectable_gap(100, 100, rate=0.9), 3)
    (0.198, 0.119)
    """
    quantiles = norm.ppf(1 - LEVEL / 2) + norm.ppf(POWER)
    return float(quantiles * sqrt(rate * (1 - rate) * (1 / first + 1 / second)))


def _plan(stream: TaskStream, per_group: int, batch: int) -> BufferPlan:
    counts = _counts(task.train for task in stream.tasks)
    kept = sum(min(n, per_group) for n in counts.values())
    return BufferPlan(per_group, batch, len(counts), kept)


def _counts(parts: Iterable[Samples]) -> Counter[tuple[int, ...]]:
    """Count the rows of each group over several parts."""
    counts: Counter[tuple[int, ...]] = Counter()
    for part in parts:
        counts.update(group_counts(part))
    return counts


def _value(stream: TaskStream, key: tuple[int, ...]) -> str | None:
    return stream.attribute_values[key[1]] if len(key) > 1 and key[1] >= 0 else None


def _sizes(stream: TaskStream) -> list[GroupSize]:
    """Count the rows of each group of each task; groups of its classes may be empty."""
    tested = _counts(task.test for task in stream.tasks)

    def gap(key: tuple[int, ...]) -> float | None:
        near = [other for other in tested if len(key) == 1 or other[0] == key[0]]
        others = sum(tested[other] for other in near if other != key)
        return detectable_gap(tested[key], others) if tested[key] and others else None

    found = []
    for number, task in enumerate(stream.tasks, start=1):
        train, test = group_counts(task.train), group_counts(task.test)
        keys: set[tuple[int, ...]] = {*train, *test}
        if stream.attribute is not None:
            keys |= {(c, z) for c in task.classes for z in range(len(stream.attribute_values))}
        found += [
            GroupSize(
                number,
                stream.class_names[key[0]],
                _value(stream, key),
                train.get(key, 0),
                test.get(key, 0),
                gap(key),
            )
            for key in sorted(keys)
        ]
    return found


def _constant(stream: TaskStream) -> list[Constant]:
    """Find tasks and classes in which the attribute is constant."""
    if stream.attribute is None:
        return []
    every = _counts(task.train for task in stream.tasks)
    places = [
        (f"task {number}", group_counts(task.train)) for number, task in enumerate(stream.tasks, 1)
    ]
    places += [
        (f"class '{name}'", {key: n for key, n in every.items() if key[0] == c})
        for c, name in enumerate(stream.class_names)
    ]
    found = []
    for where, counts in places:
        values = {key[1] for key in counts}
        if len(values) == 1 and (value := values.pop()) >= 0:
            found.append(Constant(where, stream.attribute_values[value]))
    return found


def _named(stream: TaskStream, group: GroupSize) -> str:
    if stream.attribute is None:
        return f"class '{group.label}'"
    return f"class '{group.label}' with {stream.attribute} '{group.value or 'unknown'}'"


def _absent(stream: TaskStream, groups: Sequence[GroupSize]) -> list[str]:
    absent = [_named(stream, one) for one in groups if one.train == 0]
    if not absent:
        return []
    return [f"without a training row, so nothing is learned: {shortened(absent, MOST_NAMED)}"]


def _too_few(stream: TaskStream, groups: Sequence[GroupSize]) -> list[str]:
    """List groups that are too small to be learned or evaluated."""
    sentences = []
    for part, what in (("train", "learned"), ("test", "judged")):
        few = [
            f"{_named(stream, one)} (n = {n})"
            for one in groups
            if (n := getattr(one, part)) < ENOUGH and (n or (part == "test" and one.train))
        ]
        if few:
            rows = "training" if part == "train" else "test"
            sentences.append(
                f"fewer than {ENOUGH} {rows} rows, too few to be {what}: "
                f"{shortened(few, MOST_NAMED)}; collect more, or merge groups"
            )
    return sentences


def _constant_sentence(stream: TaskStream, one: Constant) -> str:
    return (
        f"in {one.where} all training rows have {stream.attribute} '{one.value}': values cannot "
        "be compared there, and the attribute cannot be distinguished from the class"
    )


def _buffer_sentences(plan: BufferPlan) -> list[str]:
    sentences = []
    if plan.per_group < ENOUGH:
        sentences.append(
            f"the buffer keeps {plan.per_group} rows of each group, and fewer than {ENOUGH} "
            f"represent a group poorly; keep more with `buffer_size={2 * ENOUGH}`"
        )
    if plan.batch < plan.groups:
        sentences.append(
            f"the buffer is too small for so many groups: a replayed batch has {plan.batch} rows "
            f"of {plan.groups} groups, so that some are missing in every step; use "
            f"`memory_batch_size={plan.groups}` or more, or fewer groups"
        )
    return sentences


def _gap_sentence(stream: TaskStream, groups: Sequence[GroupSize]) -> list[str]:
    """Describe the gaps that are detectable at these sizes."""
    told = [(one.gap, one) for one in groups if one.gap is not None]
    if not told:
        return ["no two groups can be compared: test rows are of one group"]
    gaps = sorted(gap for gap, _ in told)
    worst, least = max(told, key=lambda pair: pair[0])
    others = "other rows of its class" if stream.attribute else "other classes"
    return [
        f"smallest detectable gap in accuracy (two-sided 5 % level, 80 % power, accuracy about "
        f"one half): {gaps[0]:.2f} to {gaps[-1]:.2f}, median {gaps[len(gaps) // 2]:.2f}; "
        f"the largest is {_named(stream, least)}, n = {least.test}, against the {others}"
        + (", where no gap can be detected at all" if worst > 1 else "")
    ]
