"""Contenders on targets: what has to be chosen and run for them, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from faircil.data.datasets import DATASETS
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig, resolve
from faircil.sweep.command import command_of
from faircil.sweep.sweep import Finish, SweepOptions, finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.exhibit import SEEDS, Results
from faircil_lab.paper.metrics import TARGETS, Target


@dataclass(frozen=True)
class Contender:
    """A method as one row or one line.

    Parameters
    ----------
    name : str
        In plain words.
    method : str
    weighting : str or None
        None: the method's own.
    fixed : tuple of str
        ``name=value`` settings that make it what it is, so that they are not up for choice.
    in_paper : bool
        Whether the paper has it.
    """

    name: str
    method: str
    weighting: str | None = None
    fixed: tuple[str, ...] = ()
    in_paper: bool = True

    @property
    def is_weighted(self) -> bool:
        """Whether its runs solve the program, which is all that the measure enters."""
        return self.method == "fsw" or self.weighting is not None


FSW = Contender("FSW", "fsw")
REPLAY = Contender("replay", "er", in_paper=False)
BY_GROUP = ("granularity=group",)
CONTENDERS = (
    Contender("joint training", "joint"),
    Contender("fine-tuning", "finetune"),
    Contender("iCaRL", "icarl"),
    Contender("WA", "wa"),
    Contender("CLAD", "clad"),
    Contender("GSS", "gss"),
    Contender("OCS", "ocs"),
    Contender("FaIRL", "fairl"),
    FSW,
    REPLAY,
    Contender("replay, random weights", "er", "random", in_paper=False),
    Contender("replay, balanced subset", "er", "balanced", in_paper=False),
    Contender("FSW by group", "fsw", fixed=BY_GROUP, in_paper=False),
    Contender("DER++", "der++", in_paper=False),
    Contender("DER++ with FSW by group", "der++", "fsw", fixed=BY_GROUP, in_paper=False),
)


def request(contender: Contender, dataset: str, measure: str) -> TuneRequest:
    """Return what has to be chosen before it is compared on a dataset by a measure.

    The measure does not enter the runs of a method without weighting. They all carry the measure
    of the dataset, and only the objective tells EO from DP: both choose among the same runs.
    """
    own = _run_measure(contender, dataset, measure)
    return TuneRequest(
        dataset=dataset,
        method=contender.method,
        measure=own,
        weighting=contender.weighting,
        fixed=contender.fixed,
        objective=None if own == measure else f"accuracy - {measure}",
    )


def chosen(contender: Contender, tuned: Tuned | None) -> tuple[str, ...]:
    """Return its ``name=value`` settings: fixed ones, then those that were chosen."""
    return (*contender.fixed, *(tuned.best.overrides if tuned else ()))


def config(contender: Contender, dataset: str, measure: str, tuned: Tuned | None) -> RunConfig:
    """Return its run on test data, with the settings chosen, or with the shipped ones (None)."""
    return resolve(
        dataset=dataset,
        method=contender.method,
        weighting=contender.weighting,
        measure=_run_measure(contender, dataset, measure),
        overrides=chosen(contender, tuned),
    )


def _run_measure(contender: Contender, dataset: str, measure: str) -> str:
    """Return the measure that its runs carry."""
    if contender.is_weighted:
        return measure
    return "eer" if DATASETS[dataset].attribute is None else "eo"


FILES_ABSENT = "files absent"
NO_GPU = (
    "an encoder is trained, which takes days without a GPU; give --gpu-jobs 1 where there is one"
)


def files_absent(dataset: str) -> bool:
    """Tell whether a file of a dataset is missing."""
    return bool(DATASETS[dataset].missing_files())


def where_possible(make: Finish, options: SweepOptions) -> Finish:
    """Return ``make`` for runs that can be made here; of others, finished runs are found.

    Parameters
    ----------
    make : callable
        Makes runs, as :func:`faircil.sweep.sweep.finish` does.
    options : SweepOptions
        Where finished runs are, and whether a GPU takes part.
    """

    def finish_some(works: Sequence[Work]) -> list[Outcome]:
        names = {work.config.dataset for work in works}
        absent = {name for name in names if files_absent(name)}

        def obstacle(work: Work) -> str | None:
            if work.config.dataset in absent:
                return FILES_ABSENT
            return NO_GPU if work.config.trains_encoder and not options.gpu_jobs else None

        obstacles = [obstacle(work) for work in works]
        impossible = [work for work, why in zip(works, obstacles, strict=True) if why]
        found = iter(finish(impossible, replace(options, run_missing=False)))
        made = iter(make([work for work, why in zip(works, obstacles, strict=True) if not why]))
        return [_explained(next(found), why) if why else next(made) for why in obstacles]

    return finish_some


def _explained(outcome: Outcome, obstacle: str) -> Outcome:
    return outcome if outcome.run else replace(outcome, problem=obstacle)


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
