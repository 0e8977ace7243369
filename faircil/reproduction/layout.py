"""What a table of the paper is made of: rows, columns, claims, and what came of a row."""

from __future__ import annotations

from dataclasses import dataclass

from faircil.reproduction.contenders import Contender
from faircil.reproduction.targets import DATASET_NAMES, Target
from faircil.results.summary import RunSummary
from faircil.tuning.request import Tuned


@dataclass(frozen=True)
class Row:
    """A method in a table.

    Parameters
    ----------
    contender : Contender
    published : str or None
        Its name in the published data; None: the paper does not have it.
    measure : str or None
        What its weights are for; None: the measure of the column.
    settings_of : Contender or None
        Whose chosen settings it takes; None: its own.
    """

    contender: Contender
    published: str | None = None
    measure: str | None = None
    settings_of: Contender | None = None


@dataclass(frozen=True)
class Column:
    """A dataset and a measure with the metrics that are shown.

    ``besides`` are shown as well, but nothing is claimed of them; ``key`` is its name in the
    published data, the target's unless it is given; ``only`` the names of its rows, all unless they
    are given.
    """

    target: Target
    metrics: tuple[str, ...]
    besides: tuple[str, ...] = ()
    key: str | None = None
    only: tuple[str, ...] | None = None

    @property
    def published_key(self) -> str:
        """Its name in the published data."""
        return self.key or self.target.key

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return DATASET_NAMES[self.target.dataset] if self.key else self.target.title


@dataclass(frozen=True)
class Pair:
    """Two rows, by name, whose difference is a claim of its own."""

    left: str
    right: str


@dataclass(frozen=True)
class Line:
    """A row in a column: its finished runs, how to get them, and why some are missing."""

    row: Row
    runs: tuple[RunSummary, ...]
    command: str
    problem: str | None = None
    tuned: Tuned | None = None
