"""What an exhibit is: the settings and runs it needs, and the page it makes of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.page import Page

SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Results:
    """The results that the chosen exhibits asked for.

    Parameters
    ----------
    outcomes : mapping
        By the key of the work.
    tuned : mapping
        By request.
    root : Path
        Where runs and measurements are kept.
    run_missing : bool
        Whether missing measurements are made.
    any_code : bool
        Whether measurements made by other code are used.
    not_tuned : mapping
        Why nothing could be chosen, by request.
    """

    outcomes: Mapping[str, Outcome]
    tuned: Mapping[TuneRequest, Tuned]
    root: Path
    run_missing: bool = True
    any_code: bool = False
    not_tuned: Mapping[TuneRequest, str] = field(default_factory=dict)

    def runs(self, config: RunConfig, seeds: Sequence[int] = SEEDS) -> list[RunSummary]:
        """Return the finished runs of a configuration, in the order of seeds."""
        found = (self.outcomes[Work(config, seed).key].run for seed in seeds)
        return [run for run in found if run is not None]

    def problem(self, config: RunConfig, seeds: Sequence[int] = SEEDS) -> str | None:
        """Return why a run of a configuration is missing that did not diverge, if one is."""
        outcomes = [self.outcomes[Work(config, seed).key] for seed in seeds]
        return next((o.problem for o in outcomes if o.problem and not o.diverged), None)

    def diverged(self, config: RunConfig, seeds: Sequence[int] = SEEDS) -> int:
        """Return how many seeds of a configuration diverged."""
        return sum(self.outcomes[Work(config, seed).key].diverged for seed in seeds)


class Exhibit(Protocol):
    """A table or figure of the paper."""

    @property
    def title(self) -> str:
        """Its name in plain words."""

    @property
    def paper(self) -> str:
        """Where it is in the paper, e.g. ``Table 1``."""

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs, with the settings that were chosen."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""


class WithoutRuns:
    """An exhibit that needs no finished runs: the settings of what it measures are shipped."""

    def requests(self) -> Sequence[TuneRequest]:
        """Return nothing to choose."""
        return ()

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return no runs."""
        del tuned
        return ()
