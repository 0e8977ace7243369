"""Requests for tuning, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.data.own import OwnData
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig, resolve

Overrides = tuple[str, ...]  # ``name=value`` settings

BUDGET = 12
SEED = 10  # none of those that tables show


@dataclass(frozen=True)
class TuneRequest:
    """Settings to choose for a method on a dataset.

    Parameters
    ----------
    dataset, method, measure : str
        The dataset is empty where it is the user's own data.
    weighting : str or None
        None: the method's own.
    fixed : tuple of str
        ``name=value`` settings that are not up for choice.
    tried : tuple of str
        ``name=value,value`` for each setting that is; empty: those of the shipped table.
    objective : str or None
        See :mod:`faircil.tuning.objective`; None: accuracy less the disparity of the measure.
    strategy : str
        See :mod:`faircil.tuning.strategies`.
    budget : int
        Configurations to try, at most.
    seeds : tuple of int
        That each is tried on.
    select_on : str
        ``validation``, a held-out part of the training data; ``test`` is the way of the paper,
        which shows too good a picture, and is there to be compared with.
    own : OwnData, optional
        The user's own data.
    favoured : tuple of str
        Names of the favoured classes, for a measure that needs them.
    target : str or None
        A bound such as ``eo_gap<=0.05`` in place of the objective. Where nothing meets it, the
        closest is chosen, and without ``tried`` the trade-off ``lam`` alone is searched.
    """

    dataset: str
    method: str
    measure: str
    weighting: str | None = None
    fixed: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    objective: str | None = None
    strategy: str = "random"
    budget: int = BUDGET
    seeds: tuple[int, ...] = (SEED,)
    select_on: Literal["validation", "test"] = "validation"
    own: OwnData | None = None
    favoured: tuple[str, ...] = ()
    target: str | None = None

    @property
    def data(self) -> str:
        """What the data is called."""
        return self.own.name if self.own else self.dataset

    def config(self, overrides: Sequence[str]) -> RunConfig:
        """Return the run that tries these settings."""
        return resolve(
            dataset=self.dataset or None,
            own=self.own,
            method=self.method,
            weighting=self.weighting,
            measure=self.measure,
            favoured=self.favoured,
            overrides=[*self.fixed, *overrides],
            evaluate_on=self.select_on,
        )


@dataclass(frozen=True)
class Trial:
    """Settings that were tried: their runs, and their score, None where a run failed.

    ``diverged`` says that the settings are to blame for it.
    """

    overrides: Overrides
    runs: tuple[RunSummary, ...]
    score: float | None
    problem: str | None = None
    diverged: bool = False


@dataclass(frozen=True)
class NotTuned:
    """All trials of a request of which none will do, and why."""

    request: TuneRequest
    trials: tuple[Trial, ...]
    problem: str


@dataclass(frozen=True)
class Tuned:
    """All trials of a request in the order they were made, and the best of them.

    ``note`` says that the best misses the target, and by how much; empty where it does not.
    """

    request: TuneRequest
    trials: tuple[Trial, ...]
    best: Trial
    note: str = ""
