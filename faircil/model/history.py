"""What a model remembers: what it learned, when and from whom, and how it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from faircil.learners.base import PassRecord
from faircil.results.record import GroupResult


@dataclass(frozen=True)
class GroupRows:
    """Rows of a class with one attribute value; the value is None where it is unknown."""

    label: str
    value: str | None
    rows: int


@dataclass(frozen=True)
class Lesson:
    """What a model learned, or forgot, at once.

    Parameters
    ----------
    at : str
        When, in UTC.
    rows : int
        Negative if they were forgotten.
    new_classes : tuple of str
    groups : tuple of GroupRows
        What the rows were.
    seconds : float
    notes : tuple of str
    passed : PassRecord or None
        Weights and losses of all groups afterwards, of a method that learns in one pass.
    digest : str
        Of the rows, to tell whether the same come again; empty once they are forgotten, and where
        noise hides rows.
    """

    at: str
    rows: int
    new_classes: tuple[str, ...]
    groups: tuple[GroupRows, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    passed: PassRecord | None = None
    digest: str = ""


@dataclass(frozen=True)
class PredictedRows:
    """Rows of a group that a model gave one class; the value is None where it is unknown."""

    label: str
    value: str | None
    prediction: str
    rows: int


@dataclass(frozen=True)
class Measured:
    """How a model did on rows that it had not learned.

    Parameters
    ----------
    at : str
        When, in UTC.
    on : str
        Which rows, in plain words.
    rows : int
    lessons : int
        Those that the model had had; what it learned later is not measured. 0: the rows are those
        that its method was chosen by, with models of it that learned a part of the others.
    metrics : dict
        All of :data:`faircil.metrics.METRICS`; None where one is undefined.
    groups : tuple of GroupResult
        Accuracy of each group; empty with 0 lessons.
    predicted : tuple of PredictedRows
        All rows, counted: what an audit needs; empty with 0 lessons.
    """

    at: str
    on: str
    rows: int
    lessons: int
    metrics: dict[str, float | None]
    groups: tuple[GroupResult, ...] = ()
    predicted: tuple[PredictedRows, ...] = ()


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
