"""``auto``: choosing the method for given data, on held-out training rows.

Two families are tried. Learning from moments forgets nothing and weights all groups ever seen, on
fixed features. Replay learns its features, but forgets. Which one suits the data is measured: a
part of each group's training rows is held out, every candidate learns the others, and the best
score wins. Then all training rows are learned.

Group weights must be justified as well. If the groups that the measure compares do not differ
significantly, there is nothing to correct, and the groups of a class count equally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from faircil.data.splits import validation_stream
from faircil.data.stream import TaskStream
from faircil.errors import FaircilError, collecting, raise_all
from faircil.learners import LEARNERS
from faircil.learners.moments_options import PROTECTING, MomentsOptions
from faircil.media import Medium
from faircil.moments import PassRecord
from faircil.ranks import RankError
from faircil.report import format_value
from faircil.results.record import RunResult, RunSummary, over_seeds, summarise_run
from faircil.results.run_files import read_epochs
from faircil.runs.config import Part, RunConfig
from faircil.runs.experiment import run
from faircil.runs.settings import in_effect
from faircil.runs.state import read_stream, start_run
from faircil.runs.together import led
from faircil.sweep.sweep import Finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import SEED, Objective, parse_objective, usual_objective

AUTO = "auto"
ENOUGH = 2000  # held-out rows for a choice: with less data, several splits are used
# When users wait for a model, fewer rows must suffice, and more of them are held out at once.
ENOUGH_TO_FIT, SHARE_TO_FIT = 1000, 1 / 6
MOST_SEEDS = 5
CHANCE = 0.05
PLAIN = "group_weights=group"
KEEPS_ROWS = (
    "other methods keep rows of people, which `min_cell` and `noise_epsilon` are meant to hide"
)


@dataclass(frozen=True)
class Candidate:
    """A method that may suit the data.

    Parameters
    ----------
    name : str
        Description in plain language.
    method : str
    weighting : str or None
    overrides : tuple of str
        ``name=value`` settings.
    images : bool
        Whether it is for images only.
    """

    name: str
    method: str
    weighting: str | None = None
    overrides: tuple[str, ...] = ()
    images: bool = False


MOMENTS = Candidate("moments", "moments")
CANDIDATES = (
    MOMENTS,
    Candidate("moments of patches", "moments", overrides=("features=patches",), images=True),
    Candidate(
        "replay with fair draws",
        "der++",
        "fsw",
        ("granularity=group", "keep=draw", "average_last=0.2", "memory_batch_size=256"),
    ),
    Candidate("a new net on the buffer", "gdumb"),
)
Maker = Callable[[Candidate, Part], RunConfig]
Trying = Callable[
    [str, int, int], None
]  # takes the name of a candidate, the number of its run, and the number of runs


def last_pass(run: RunSummary) -> PassRecord | None:
    """Return the record of the last task in a run of a one-pass method."""
    return read_epochs(Path(run.dir))[-1].passed


@dataclass(frozen=True)
class Tried:
    """Results of a candidate on held-out rows.

    Parameters
    ----------
    candidate : Candidate
    runs : tuple of RunSummary
    accuracy, value, worst_group : float or None
        Accuracy and metric of the objective, see :class:`faircil.tuning.request.Objective`, and
        accuracy of the worst group: means over tasks and seeds. None if a run is missing.
    problem : str or None
        Why a run is missing.
    passed : callable
        Returns the record of the last task of a run.
    """

    candidate: Candidate
    runs: tuple[RunSummary, ...]
    accuracy: float | None = None
    value: float | None = None
    worst_group: float | None = None
    problem: str | None = None
    passed: Callable[[RunSummary], PassRecord | None] = field(default=last_pass, compare=False)


@dataclass(frozen=True)
class Choice:
    """The chosen method, and the reasons.

    Parameters
    ----------
    config : RunConfig
        The chosen run, on test data.
    chosen : Candidate
    tried : tuple of Tried
    rows : int
        Number of held-out rows on which each candidate was measured.
    objective : Objective
    reason : str
        In plain language.
    best : Tried
        Results of the choice as it was tried: with group weights, if these were then dropped.
    """

    config: RunConfig
    chosen: Candidate
    tried: tuple[Tried, ...]
    rows: int
    objective: Objective
    reason: str
    best: Tried


@dataclass(frozen=True)
class Trials:
    """The runs needed to choose a method.

    Parameters
    ----------
    candidates : tuple of Candidate
        The candidates that suit the data.
    configs : tuple of RunConfig
        Their runs on held-out rows.
    seeds : range
        Seeds of the held-out splits.
    rows : int
        Held-out rows per seed.
    """

    candidates: tuple[Candidate, ...]
    configs: tuple[RunConfig, ...]
    seeds: range
    rows: int

    @property
    def works(self) -> list[Work]:
        """The runs, candidate by candidate."""
        return [Work(config, seed) for config in self.configs for seed in self.seeds]


def trials_of(make: Maker) -> Trials:
    """Return the runs needed for a choice.

    Parameters
    ----------
    make : callable
        Makes the run of a candidate; raises an error if it does not support the user's settings.
    """
    return trials_on(make, read_stream(make(MOMENTS, "validation"), SEED))


def trials_on(make: Maker, stream: TaskStream, enough: int = ENOUGH) -> Trials:
    """Return the runs needed for a choice on a stream with held-out rows as test rows."""
    suited = [one for one in CANDIDATES if stream.image is not None or not one.images]
    rows = sum(len(task.test) for task in stream.tasks)
    seeds = range(SEED, SEED + min(MOST_SEEDS, ceil(enough / rows)))
    return Trials(tuple(suited), tuple(check(make, suited)), seeds, rows)


def choose(make: Maker, finish: Finish) -> Choice:
    """Choose a method.

    Parameters
    ----------
    make : callable
        Makes the run of a candidate, see :func:`trials_of`.
    finish : callable
        Executes runs, see :func:`faircil.sweep.sweep.finish`.
    """
    trials = trials_of(make)
    return decide(make, trials, finish(trials.works))


def choose_in_memory(
    make: Maker,
    stream: TaskStream,
    device: torch.device | str = "cpu",
    trying: Trying = lambda *_: None,
    *,
    every_row: bool = True,
) -> Choice:
    """Choose a method for a stream in memory, without writing anything.

    Parameters
    ----------
    make : callable
        Makes the run of a candidate.
    stream : TaskStream
        Its test rows are replaced by held-out training rows.
    device : torch.device or str
        Where candidates are trained.
    trying : callable
        Called before each run.
    every_row : bool
        Whether the stream contains all rows that will be learned.
    """
    trials = trials_on(make, validation_stream(stream, SEED, SHARE_TO_FIT), ENOUGH_TO_FIT)
    outcomes, last = [], {}
    for number, work in enumerate(trials.works):
        name = trials.candidates[number // len(trials.seeds)].name
        trying(name, number + 1, len(trials.works))
        held_out = validation_stream(stream, work.seed, SHARE_TO_FIT)
        try:
            result = _try(work, held_out, torch.device(device))
        except RankError:
            raise
        except FaircilError as error:
            outcomes.append(Outcome(work, None, str(error)))
            continue
        summary = summarise_run(result, Path(), "")
        last[id(summary)] = result.epochs[-1].passed
        outcomes.append(Outcome(work, summary))
    return decide(
        make,
        trials,
        outcomes,
        lambda run: last[id(run)],
        every_row=every_row,
        kept_rows_pay=True,
    )


def _try(work: Work, stream: TaskStream, device: torch.device) -> RunResult:
    """Execute a run in memory, with all processes started together."""
    state = start_run(work.config, work.seed, stream, device)
    with led(work.config, work.seed, stream, state, device) as (shared, ranks):
        return run(work.config, work.seed, stream=shared, device=device, state=state, ranks=ranks)


def decide(
    make: Maker,
    trials: Trials,
    outcomes: Sequence[Outcome],
    passed: Callable[[RunSummary], PassRecord | None] = last_pass,
    *,
    every_row: bool = True,
    kept_rows_pay: bool = False,
) -> Choice:
    """Choose the best candidate by its runs on held-out rows.

    Parameters
    ----------
    make : callable
    trials : Trials
    outcomes : sequence of Outcome
        Outcomes of ``trials.works``.
    passed : callable
        Returns the record of the last task of a run.
    every_row : bool
        Whether the trials had all rows but the held-out ones. With fewer rows, insignificant
        differences say nothing about all rows, and groups keep their weights.
    kept_rows_pay : bool
        Whether a candidate that stores data rows must be better than others by more than one
        standard error of the accuracy.
    """
    objective = parse_objective(usual_objective(trials.configs[0].measure))
    each, rows = iter(outcomes), trials.rows * len(trials.seeds)
    tried = []
    for candidate in trials.candidates:
        some = [next(each) for _ in trials.seeds]
        problem = next((one.problem or "no run" for one in some if one.run is None), None)
        runs = tuple(one.run for one in some if one.run is not None)
        found = _tried(candidate, runs, objective, problem)
        tried.append(replace(found, passed=passed))
    known = [one for one in tried if one.accuracy is not None]
    if not known:
        problems = "; ".join(f"{one.candidate.name}: {one.problem}" for one in tried)
        raise FaircilError(f"no candidate of method '{AUTO}' could be run: {problems}")
    ranked = sorted(known, key=lambda one: -_score(one, objective))
    best, reason = ranked[0], _why(ranked, objective, rows)
    if kept_rows_pay and (other := _without_rows(ranked, objective, rows)) is not None:
        best = other
        reason += (
            f"; {best.candidate.name} is within chance of it and stores no rows of data, so it is "
            "used"
        )
    chosen = best.candidate
    chance = chance_of(best) if every_row else None
    if chance is not None and chance > CHANCE:
        chosen = with_equal_groups(chosen)
        reason += (
            "; there is no measurable unfairness to correct here: groups that the measure compares "
            f"differ by no more than chance explains (p = {format_value(chance)}), so all groups "
            "of a class count equally"
        )
    return Choice(make(chosen, "test"), chosen, tuple(tried), rows, objective, reason, best)


def _without_rows(ranked: Sequence[Tried], objective: Objective, rows: int) -> Tried | None:
    """Return a candidate that stores no rows, if the best one does and is hardly better."""
    others = [one for one in ranked if not LEARNERS[one.candidate.method].replays]
    best = ranked[0]
    if best in others or not others or best.accuracy is None:
        return None
    error = (best.accuracy * (1 - best.accuracy) / rows) ** 0.5
    near = _score(best, objective) - _score(others[0], objective) <= error
    return others[0] if near else None


def with_equal_groups(candidate: Candidate) -> Candidate:
    """Return a candidate that learns from moments with equal weights for the groups of a class."""
    name, overrides = f"{candidate.name}, groups equal", (*candidate.overrides, PLAIN)
    return replace(candidate, name=name, overrides=overrides)


def as_document(choice: Choice) -> dict[str, Any]:
    """Return a choice as a JSON document."""
    return {
        "chosen": choice.chosen.name,
        "reason": choice.reason,
        "objective": choice.objective.text,
        "held_out_rows": choice.rows,
        "tried": [
            {
                "name": one.candidate.name,
                "accuracy": one.accuracy,
                choice.objective.metric: one.value,
                "worst_group": one.worst_group,
                "problem": one.problem,
            }
            for one in choice.tried
        ],
    }


def settings_for(
    candidate: Candidate, given: Sequence[str], *, medium: Medium | None = None
) -> list[str]:
    """Return the settings of a candidate: its own, then the user's settings that it uses.

    Settings of a net apply to candidates that train one, those of moments to the others. Settings
    that no candidate uses are kept, so that they are rejected.
    """

    def used(one: Candidate) -> list[str]:
        return in_effect([*one.overrides, *given], one.method, medium=medium)

    mine = used(candidate)
    others = {text for one in CANDIDATES for text in used(one)}
    return [*candidate.overrides, *(text for text in given if text in mine or text not in others)]


def protects(given: Sequence[str]) -> bool:
    """Whether the user's settings protect people in sums, which excludes methods that store rows.

    Examples
    --------
    >>> protects(["min_cell=10"]), protects(["min_cell=0", "width=20"])
    (True, False)
    """
    pairs = (text.partition("=") for text in given)
    chosen = {name: value for name, _, value in pairs if name in PROTECTING}
    try:
        return MomentsOptions.model_validate(chosen).protects
    except ValidationError:  # reported for the candidates, with all other mistakes
        return False


def partly_used(given: Sequence[str], *, medium: Medium | None = None) -> list[str]:
    """Report the user's settings that only some candidates use, and which candidates."""
    said = []
    for text in given:
        fitting = [one for one in CANDIDATES if text in settings_for(one, given, medium=medium)]
        if len(fitting) < len(CANDIDATES):
            names = ", ".join(one.name for one in fitting)
            said.append(f"setting {text} is for these candidates only: {names}")
    return said


def check(make: Maker, candidates: Sequence[Candidate] = CANDIDATES) -> list[RunConfig]:
    """Return the runs on held-out rows; raise an error with all mistakes of the candidates."""
    mistakes: list[str] = []
    configs = []
    for candidate in candidates:
        with collecting(mistakes):
            configs.append(make(candidate, "validation"))
    # A name unknown to all candidates is one mistake, although each has other known names.
    known = {
        text.partition(": ")[0] if text.startswith("unknown ") else text: text
        for text in reversed(mistakes)
    }
    raise_all([*reversed(known.values())])
    return configs


def chance_of(tried: Tried) -> float | None:
    """Return the smallest probability, over runs, of group differences as large by chance.

    None if the method does not compute it.
    """
    found = [tried.passed(run) for run in tried.runs]
    known = [one.chance for one in found if one is not None and one.chance is not None]
    return min(known, default=None)


def _tried(
    candidate: Candidate,
    runs: tuple[RunSummary, ...],
    objective: Objective,
    problem: str | None,
) -> Tried:
    if problem is not None or (values := objective.values(runs)) is None:
        undefined = f"{objective.metric} is undefined on the held-out rows"
        return Tried(candidate, runs, problem=problem or undefined)
    return Tried(candidate, runs, *values, over_seeds(runs)[0]["worst_group"])


def _score(tried: Tried, objective: Objective) -> float:
    assert tried.accuracy is not None
    assert tried.value is not None
    return objective.score(tried.accuracy, tried.value)


def _why(ranked: Sequence[Tried], objective: Objective, rows: int) -> str:
    """Describe what was best, and by how much."""

    def told(one: Tried) -> str:
        return f"{one.candidate.name} ({format_value(_score(one, objective))})"

    best = f"{told(ranked[0])} has the highest {objective.text} on {rows:,} held-out training rows"
    if len(ranked) > 1:
        best += f", ahead of {told(ranked[1])}"
    return f"{best}; accuracy is the mean over groups"
