"""Listeners to the progress of a model that learns, predicts or forgets."""

from __future__ import annotations

from typing import Protocol

from faircil.cache import EmbeddingProgress
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig


class LessonWatcher(Protocol):
    """Receives the progress of a model that learns."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Take note of how many texts or images are embedded."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Take note that a candidate is tried, in which of how many runs."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Take note that so many lessons begin."""

    def rows(self, done: int, total: int) -> None:
        """Take note of how many rows of a table in parts are done."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Take note of an epoch."""


class UnwatchedLessons:
    """Takes note of nothing."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Ignore the embedding."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Ignore the candidate."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Ignore the lessons."""

    def rows(self, done: int, total: int) -> None:
        """Ignore the rows."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Ignore the epoch."""


UNWATCHED = UnwatchedLessons()
