"""What an exhibit is: the settings and runs it needs, and the page it makes of the results.

A page has an answer, tables, pictures and commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Tuned, TuneRequest

SEEDS = (0, 1, 2, 3, 4)


class Verdict(Enum):
    """How a value of ours stands to the published one."""

    SAME = "same"
    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"  # where neither direction is better
    DIVERGED = "diverged"  # some of our seeds did, so there is no value of ours to compare
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Grid:
    """A table: texts in Markdown."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure: ``draw`` writes it to the path it is given, a PNG next to the page."""

    file: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Section:
    """A part of a page; ``commands`` are what a reader types to get its lines.

    ``on_terminal`` says whether the command line shows its table too.
    """

    heading: str
    text: str = ""
    table: Grid | None = None
    picture: Picture | None = None
    commands: tuple[str, ...] = ()
    on_terminal: bool = True


@dataclass(frozen=True)
class Page:
    """The result of reproducing a table or figure.

    Parameters
    ----------
    answer : str
        The result in a sentence or two, for the index, also where FSW does not help.
    sections : tuple of Section
    verdicts : tuple of Verdict
        One for each published value that is compared with one of ours.
    findings : tuple of str
        Sentences for the index: which differences are significant, and which are not.
    by_method : mapping
        The verdicts on the published rows of a method.
    """

    answer: str
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...] = ()
    findings: tuple[str, ...] = ()
    by_method: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)


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
