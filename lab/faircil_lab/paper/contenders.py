"""Methods that are compared: their settings, their runs on each target, and the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from faircil.data.datasets import DATASETS
from faircil.report import BOUNDS
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig, resolve
from faircil.sweep.command import command_of
from faircil.sweep.sweep import Finish, SweepOptions, finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.exhibit import SEEDS, Results
from faircil_lab.paper.metrics import TARGETS, Target

# Chosen on validation data, or those of the table of settings.
Settings = Literal["tuned", "shipped"]


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
        ``name=value`` settings that define it, so they are not searched.
    in_paper : bool
        Whether the paper has it.
    settings_of : Contender or None
        Whose settings it takes, all of them; None: its own. A control takes those of the method it
        is a control for, so that the two differ in one thing.
    note : str
        What a reader should know along with its numbers.
    """

    name: str
    method: str
    weighting: str | None = None
    fixed: tuple[str, ...] = ()
    in_paper: bool = True
    settings_of: Contender | None = None
    note: str = ""

    def with_fixed(self, *fixed: str) -> Contender:
        """Return it with further fixed settings, also where its settings come from."""
        source = self.settings_of and self.settings_of.with_fixed(*fixed)
        return replace(self, fixed=(*self.fixed, *fixed), settings_of=source)

    @property
    def is_weighted(self) -> bool:
        """Whether the measure enters its runs: where the program is solved, and with moments."""
        return self.method in ("fsw", "moments") or self.weighting is not None


FSW = Contender("FSW", "fsw")
REPLAY = Contender("replay", "er", in_paper=False)
# The controls have FSW's settings, all of them: they differ from it in the weights alone.
RANDOM = Contender("replay, random weights", "er", "random", in_paper=False, settings_of=FSW)
BALANCED = Contender("replay, balanced subset", "er", "balanced", in_paper=False, settings_of=FSW)
DARK = Contender(
    "DER++",
    "der++",
    in_paper=False,
    note=(
        "`DER++` differs from the original in two points: the target logits of the buffer are "
        "renewed at the end of each task (`logits=stored`: kept), and one memory batch serves both "
        "of its terms, where the original draws two."
    ),
)
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
    RANDOM,
    BALANCED,
    Contender("FSW by group", "fsw", fixed=BY_GROUP, in_paper=False),
    DARK,
    Contender(
        "DER++ with FSW by group", "der++", "fsw", fixed=BY_GROUP, in_paper=False, note=DARK.note
    ),
)


def request(contender: Contender, dataset: str, measure: str) -> TuneRequest:
    """Return the search for its settings on a dataset by a measure.

    The measure does not enter the runs of a method without weighting. They all carry the measure
    of the dataset. EO and DP differ in the objective alone: both choose among the same runs.
    """
    source = contender.settings_of or contender
    own = _run_measure(source, dataset, measure)
    return TuneRequest(
        dataset=dataset,
        method=source.method,
        measure=own,
        weighting=source.weighting,
        fixed=source.fixed,
        objective=None if own == measure else f"accuracy - {measure}",
    )


def chosen(contender: Contender, tuned: Tuned | None) -> tuple[str, ...]:
    """Return its ``name=value`` settings: fixed ones, then those that were chosen."""
    return (*contender.fixed, *(tuned.best.overrides if tuned else ()))


def config(contender: Contender, dataset: str, measure: str, tuned: Tuned | None) -> RunConfig:
    """Return its run on test data, with the settings chosen, or with the shipped ones (None)."""
    source = contender.settings_of or contender
    found = resolve(
        dataset=dataset,
        method=source.method,
        weighting=source.weighting,
        measure=_run_measure(source, dataset, measure),
        overrides=chosen(contender, tuned),
    )
    if source is contender or contender.weighting is None:
        return found
    return found.model_copy(update={"weighting": contender.weighting})


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
    """Whether a file of a dataset is missing."""
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
        Why runs are missing that did not diverge.
    diverged : int
        Seeds whose training diverged. They count against the contender: it is not judged on the
        others.
    published : str or None
        Its name in the published data; None: the paper does not have it.
    tuned : Tuned or None
        The search for its settings.
    apart : bool
        Whether it is of another kind, and takes no part in a ranking.
    """

    contender: Contender
    runs: tuple[RunSummary, ...]
    command: str
    problem: str | None = None
    diverged: int = 0
    published: str | None = None
    tuned: Tuned | None = None
    apart: bool = False

    @property
    def name(self) -> str:
        """Name of the contender."""
        return self.contender.name

    @property
    def is_bound(self) -> bool:
        """Whether it is a reference, never the best of a comparison."""
        return self.contender.method in BOUNDS


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
    held_out : int
        Samples of each group that are kept from training, for post-processing.
    """

    contenders: Sequence[Contender]
    targets: Sequence[Target] = TARGETS
    settings: Settings = "tuned"
    seeds: Sequence[int] = SEEDS
    held_out: int = 0

    def requests(self) -> list[TuneRequest]:
        """Return the settings that have to be chosen first, each search once."""
        if self.settings == "shipped":
            return []
        wanted = (
            request(contender, target.dataset, target.measure)
            for target in self.targets
            for contender in self.contenders
        )
        return list(dict.fromkeys(wanted))

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> list[Work]:
        """Return the runs of all whose settings are known."""
        configs = (
            self._config(contender, target, tuned)
            for target in self.targets
            for contender in self.contenders
        )
        return [Work(config, seed) for config in configs if config for seed in self.seeds]

    def entries(self, target: Target, results: Results) -> list[Entry]:
        """Return the results of each contender on a target."""
        return [self.entry(contender, target, results) for contender in self.contenders]

    def entry(self, contender: Contender, target: Target, results: Results) -> Entry:
        """Return the results of a contender on a target."""
        found = self._config(contender, target, results.tuned)
        if found is None:
            shipped = config(contender, target.dataset, target.measure, None)
            line = command_of(shipped, self.seeds)
            return Entry(contender, (), line, why_not_chosen(contender, target, results))
        wanted = request(contender, target.dataset, target.measure)
        return Entry(
            contender,
            tuple(results.runs(found, self.seeds)),
            command_of(found, self.seeds),
            results.problem(found, self.seeds),
            results.diverged(found, self.seeds),
            tuned=results.tuned.get(wanted) if self.settings == "tuned" else None,
        )

    def _config(
        self, contender: Contender, target: Target, tuned: Mapping[TuneRequest, Tuned]
    ) -> RunConfig | None:
        """Return its configuration; None where no settings were chosen."""
        chosen = None
        if self.settings == "tuned":
            chosen = tuned.get(request(contender, target.dataset, target.measure))
            if chosen is None:
                return None
        found = config(contender, target.dataset, target.measure, chosen)
        return found.model_copy(update={"held_out": self.held_out})


def why_not_chosen(contender: Contender, target: Target, results: Results) -> str:
    """Say why there are no settings of a contender on a target."""
    if files_absent(target.dataset):
        return FILES_ABSENT
    wanted = request(contender, target.dataset, target.measure)
    return results.not_tuned.get(wanted, "no settings were chosen")


def missing(entries: Sequence[Entry]) -> str:
    """Say in Markdown which runs are missing, and why, each reason once; empty if none is."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        if entry.problem is not None:
            reasons.setdefault(entry.problem, []).append(entry.name)
    parts = [
        f"Not run: {reason.removeprefix('not run: ').rstrip('.')}"
        f" ({'all' if len(names) == len(entries) else '; '.join(names)})."
        for reason, names in reasons.items()
    ]
    lost: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.diverged:
            lost.setdefault(seeds_diverged(entry), {})[entry.name] = None
    parts += [f"{how.capitalize()}: {'; '.join(names)}." for how, names in lost.items()]
    if lost:
        parts.append("A diverged seed counts against a method: it is not judged on the others.")
    return "\n\n".join(parts)


def seeds_diverged(entry: Entry) -> str:
    """Say how many seeds of an entry diverged."""
    return f"{entry.diverged} of {entry.diverged + len(entry.runs)} seeds diverged"


def notes_of(contenders: Iterable[Contender]) -> list[str]:
    """Return what a reader should know of contenders, each note once."""
    return list(dict.fromkeys(one.note for one in contenders if one.note))


def commands(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return what a reader types for them, each command once."""
    return tuple(dict.fromkeys(entry.command for entry in entries))
