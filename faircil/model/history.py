"""The history of a model: what it learned, when and from whom, and how it was measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from faircil.learners.base import PassRecord
from faircil.results.record import GroupResult


@dataclass(frozen=True)
class GroupRows:
    """Rows of a class with one attribute value; the value is None if it is unknown."""

    label: str
    value: str | None
    rows: int


@dataclass(frozen=True)
class Lesson:
    """Rows that a model learned, or forgot, at once.

    Parameters
    ----------
    at : str
        Time in UTC.
    rows : int
        Negative if the rows were forgotten.
    new_classes : tuple of str
    groups : tuple of GroupRows
        Rows by group.
    seconds : float
    notes : tuple of str
    passed : PassRecord or None
        For one-pass methods: weights and losses of all groups afterwards.
    digest : str
        Hash of the rows, to detect that the same rows are learned again; empty once they are
        forgotten, and if noise hides rows.
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
    """Rows of a group for which a model predicted one class; the value is None if unknown."""

    label: str
    value: str | None
    prediction: str
    rows: int


@dataclass(frozen=True)
class Measured:
    """Results of a model on rows that it had not learned.

    Parameters
    ----------
    at : str
        Time in UTC.
    on : str
        Description of the rows, in plain language.
    rows : int
    lessons : int
        Number of lessons that the model had learned; later ones are not measured. 0: the rows are
        those on which its method was chosen, by models trained on a part of the others.
    metrics : dict
        All of :data:`faircil.metrics.METRICS`; None where undefined.
    groups : tuple of GroupResult
        Accuracy of each group; empty with 0 lessons.
    predicted : tuple of PredictedRows
        Counts of all rows, as needed for an audit; empty with 0 lessons.
    """

    at: str
    on: str
    rows: int
    lessons: int
    metrics: dict[str, float | None]
    groups: tuple[GroupResult, ...] = ()
    predicted: tuple[PredictedRows, ...] = ()


def now() -> str:
    """Return the time in UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
