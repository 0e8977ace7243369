"""Listeners to the progress of a model during learning, predicting or forgetting."""

from __future__ import annotations

from typing import Protocol

from faircil.cache import EmbeddingProgress
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig


class LessonWatcher(Protocol):
    """Receives the progress of a learning model."""

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Receive the number of texts or images embedded so far."""

    def trying(self, name: str, number: int, total: int) -> None:
        """Receive the name of a candidate to try, the number of its run and their total."""

    def start(self, config: RunConfig, lessons: int) -> None:
        """Receive the number of lessons that begin."""

    def rows(self, done: int, total: int) -> None:
        """Receive the number of processed rows of a table in parts, and their total."""

    def __call__(self, epoch: EpochRecord) -> None:
        """Receive the record of an epoch."""


class UnwatchedLessons:
    """Ignores all progress."""

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
