"""Contenders on targets: what has to be chosen and run for them, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.config import RunConfig
from faircil.reproduction.availability import FILES_ABSENT, files_absent
from faircil.reproduction.contenders import Contender, config, request
from faircil.reproduction.exhibit import SEEDS, Results
from faircil.reproduction.targets import TARGETS, Target
from faircil.results.summary import RunSummary
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest


@dataclass(frozen=True)
class Entry:
    """A contender on a target.

    Parameters
    ----------
    contender : Contender
    runs : tuple of RunSummary
        Those that are finished.
    command : str
        What a reader types for them.
    problem : str or None
        Why there are none, or not all.
    """

    contender: Contender
    runs: tuple[RunSummary, ...]
    command: str
    problem: str | None = None


@dataclass(frozen=True)
class LineUp:
    """Contenders on targets.

    Parameters
    ----------
    contenders : sequence of Contender
    targets : sequence of Target
    settings : str
        ``tuned``: chosen on validation data; ``shipped``: those of the table of settings.
    seeds : sequence of int
    """

    contenders: Sequence[Contender]
    targets: Sequence[Target] = TARGETS
    settings: Literal["tuned", "shipped"] = "tuned"
    seeds: Sequence[int] = SEEDS

    def requests(self) -> list[TuneRequest]:
        """Return the settings that have to be chosen first."""
        if self.settings == "shipped":
            return []
        return [
            request(contender, target.dataset, target.measure)
            for target in self.targets
            for contender in self.contenders
        ]

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> list[Work]:
        """Return the runs of all whose settings are known."""
        configs = (
            self._config(contender, target, tuned)
            for target in self.targets
            for contender in self.contenders
        )
        return [Work(config, seed) for config in configs if config for seed in self.seeds]

    def entries(self, target: Target, results: Results) -> list[Entry]:
        """Return what came of each contender on a target."""
        return [self.entry(contender, target, results) for contender in self.contenders]

    def entry(self, contender: Contender, target: Target, results: Results) -> Entry:
        """Return what came of a contender on a target."""
        found = self._config(contender, target, results.tuned)
        if found is None:
            shipped = config(contender, target.dataset, target.measure, None)
            line = command_of(shipped, self.seeds)
            return Entry(contender, (), line, why_not_chosen(contender, target, results))
        runs = tuple(results.runs(found, self.seeds))
        line = command_of(found, self.seeds)
        return Entry(contender, runs, line, results.problem(found, self.seeds))

    def _config(
        self, contender: Contender, target: Target, tuned: Mapping[TuneRequest, Tuned]
    ) -> RunConfig | None:
        """Return its configuration; None where that cannot be told."""
        chosen = None
        if self.settings == "tuned":
            chosen = tuned.get(request(contender, target.dataset, target.measure))
            if chosen is None:
                return None
        return config(contender, target.dataset, target.measure, chosen)


def why_not_chosen(contender: Contender, target: Target, results: Results) -> str:
    """Say why there are no settings of a contender on a target."""
    if files_absent(target.dataset):
        return FILES_ABSENT
    wanted = request(contender, target.dataset, target.measure)
    return results.not_tuned.get(wanted, "its settings were not searched for")


def missing(entries: Sequence[Entry]) -> str:
    """Say in Markdown which runs are missing, and why, each reason once; empty if none is."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        if entry.problem is not None:
            reasons.setdefault(entry.problem, []).append(entry.contender.name)
    return "\n".join(
        f"Not run: {', '.join(names) if len(names) < len(entries) else 'all'}: {reason}."
        for reason, names in reasons.items()
    )


def commands(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return what a reader types for them, each command once."""
    return tuple(dict.fromkeys(entry.command for entry in entries))
