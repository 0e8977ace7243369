"""Methods that are run on the suite: those of reference, and plug-ins of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from faircil.errors import DataError, FaircilError, UsageError, collecting
from faircil.files import read_json
from faircil.learners import LEARNERS
from faircil.registry import load_reference
from faircil.report import BOUNDS
from faircil.runs.config import RunConfig
from faircil.sweep.sweep import Finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning import auto
from faircil_lab.bench.measuring import in_processes
from faircil_lab.bench.whole_runs import method_parts
from faircil_lab.paper.contenders import DARK, FSW, REPLAY, Contender, config, files_absent
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.moments_page import AUTO, Automatic
from faircil_lab.paper.tables import BY_NAME, DRAWS, GDUMB, MOMENTS, PATCHES
from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.row_index import index_of_run, read_aligned
from faircil_lab.suite.scoring import SeedScore, score

REFERENCES = (
    *(BY_NAME["fine-tuning"], REPLAY, DARK, GDUMB, BY_NAME["iCaRL"], FSW, DRAWS),
    *(MOMENTS, PATCHES, AUTO),
)
ALL = "all"
SHIPPED = "shipped settings"
BUDGETED = ("epochs", "buffer_size")  # settings that the rules limit


def entrants_of(
    texts: Sequence[str], name: str | None, settings: Sequence[str], mistakes: list[str]
) -> list[Contender]:
    """Return the methods that a user names.

    Parameters
    ----------
    texts : sequence of str
        ``all``, the name of a row of reference, a learner such as ``er``, ``er+fsw`` or
        ``fsw:lam=1``, or the class of a plug-in such as ``my_package:MyLearner``.
    name : str or None
        Of the row, if one method is given.
    settings : sequence of str
        ``NAME=VALUE`` for all of them.
    mistakes : list of str
        What cannot be used is added.
    """
    # A learner with the settings of a row of reference is that row.
    plain = {one.method: one for one in REFERENCES if not one.fixed and one.weighting is None}
    known = {**plain, **{one.name: one for one in REFERENCES}}
    found: list[Contender] = []
    for text in dict.fromkeys(texts):
        if text == ALL:
            found += REFERENCES
        elif text in known:
            found.append(known[text])
        else:
            with collecting(mistakes):
                found.append(_plugged_in(text))
    if name is not None and len(found) != 1:
        mistakes.append(f"`name` is '{name}', and there are {len(found)} methods; give one of them")
    elif name is not None:
        found = [replace(found[0], name=name)]
    if settings:
        words = ("", f", {' '.join(settings)}")[name is None]
        found = [
            replace(one, name=f"{one.name}{words}", fixed=(*one.fixed, *settings)) for one in found
        ]
    return found


def _plugged_in(text: str) -> Contender:
    """Return a method that is no row of reference; a class is registered under its own name."""
    module, _, rest = text.partition(":")
    head = rest.partition(":")[0]
    if not head or "=" in head:
        method, weighting, own = method_parts(text)
        return Contender(text, method, weighting, tuple(own), in_paper=False)
    method, weighting, own = method_parts(rest)
    try:
        learner = load_reference(f"{module}:{method}")
    except ImportError as error:
        raise UsageError(
            f"method '{text}': module {module} cannot be imported ({error}); install its package, "
            "or set PYTHONPATH to the folder that has it"
        ) from None
    except AttributeError:
        raise UsageError(
            f"method '{text}': module {module} has no {method}; expected the class of a learner"
        ) from None
    except (Exception, SystemExit) as error:  # whatever the code of another package raises
        raise UsageError(
            f"method '{text}': '{module}' cannot be imported ({type(error).__name__}: {error}); "
            "expected the name of a module whose import runs without an error"
        ) from error
    LEARNERS.add(method, learner)
    return Contender(text, method, weighting, tuple(own), in_paper=False)


def suits(entrant: Contender, stream: SuiteStream) -> bool:
    """Whether a method is for the inputs of a stream."""
    return "features=patches" not in entrant.fixed or stream.inputs == "images"


def configs_of(
    entrants: Sequence[Contender], streams: Sequence[SuiteStream], mistakes: list[str]
) -> dict[tuple[str, str], RunConfig]:
    """Return the run of each method on each stream that it suits, by their names.

    What ``auto`` runs is known only when it has chosen. Runs that cannot be put together are added
    to ``mistakes``, each once.
    """
    found: dict[tuple[str, str], RunConfig] = {}
    wrong: list[str] = []
    for entrant in entrants:
        for stream in streams:
            if entrant.method != auto.AUTO and suits(entrant, stream):
                with collecting(wrong):
                    made = config(entrant, stream.dataset, stream.measure, None)
                    found[entrant.name, stream.dataset] = made
    mistakes += dict.fromkeys(wrong)
    return found


def beyond_budget(entrant: Contender, stream: SuiteStream, made: RunConfig) -> list[str]:
    """Return settings that a user has set beyond the budget; those that are shipped keep to it."""
    given = {text.partition("=")[0] for text in entrant.fixed}
    training = made.settings.training
    return [
        f"{name}={getattr(training, name)}"
        for name in BUDGETED
        if name in given and getattr(training, name) > getattr(stream, name)
    ]


@dataclass(frozen=True)
class ScoredRun:
    """A run to score: stream, seed, and the folder of the run."""

    stream: SuiteStream
    seed: int
    folder: Path


def score_run(case: ScoredRun) -> SeedScore | str:
    """Score the predictions of a finished run; a text says why they cannot be."""
    mistakes: list[str] = []
    try:
        index = index_of_run(case.folder)
        case.stream.check(index.digest, case.seed, str(case.folder))
        predicted = read_aligned(case.folder / "predictions.csv", index, mistakes)
    except DataError as error:
        return str(error)
    if predicted is None:
        return "; ".join(mistakes)
    return score(case.stream, index, predicted)


@dataclass
class Attempt:
    """A method on the suite: its runs, and what became of them."""

    entrant: Contender
    configs: dict[str, RunConfig]
    missing: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)  # what auto took


def make_rows(
    entrants: Sequence[Contender],
    suite: Suite,
    streams: Sequence[SuiteStream],
    seeds: Sequence[int],
    finish: Finish,
    jobs: int = 1,
) -> Iterator[BoardRow]:
    """Run methods on streams, and score them.

    Parameters
    ----------
    entrants : sequence of Contender
    suite : Suite
    streams : sequence of SuiteStream
    seeds : sequence of int
    finish : callable
        Makes runs, see :func:`faircil.sweep.sweep.finish`; runs that are there are reused.
    jobs : int
        Processes that score.
    """
    mistakes: list[str] = []
    configs = configs_of(entrants, streams, mistakes)
    if mistakes:
        raise UsageError(*mistakes)
    attempts = [
        Attempt(one, {s.dataset: c for s in streams if (c := configs.get((one.name, s.dataset)))})
        for one in entrants
    ]
    automatic = [one for one in attempts if one.entrant.method == auto.AUTO]
    trials, makers = _trials(streams, automatic) if automatic else ({}, {})
    works = [
        Work(made, seed) for one in attempts for made in one.configs.values() for seed in seeds
    ]
    outcomes = _by_key(finish([*works, *(work for some in trials.values() for work in some.works)]))
    for one in automatic:
        _choose(one, trials, makers, outcomes)
        chosen = [Work(made, seed) for made in one.configs.values() for seed in seeds]
        outcomes |= _by_key(finish(chosen))
    by_name = {stream.dataset: stream for stream in streams}
    cases = [case for one in attempts for case in _cases(one, by_name, seeds, outcomes)]
    # All in one pool: a process takes seconds to start.
    found = dict(zip(cases, in_processes(score_run, cases, jobs), strict=True))
    for one in attempts:
        own = _cases(one, by_name, seeds, outcomes)
        yield _row(one, suite, by_name, {case: found[case] for case in own})


def _cases(
    attempt: Attempt,
    streams: Mapping[str, SuiteStream],
    seeds: Sequence[int],
    outcomes: Mapping[str, Outcome],
) -> list[ScoredRun]:
    """Return the runs to score, and note in the attempt why others are missing."""
    cases = []
    for name, made in attempt.configs.items():
        for seed in seeds:
            outcome = outcomes[Work(made, seed).key]
            if outcome.run is None:
                attempt.missing.setdefault(name, f"seed {seed}: {outcome.problem}")
            else:
                cases.append(ScoredRun(streams[name], seed, Path(outcome.run.dir)))
    return cases


def _by_key(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    return {outcome.work.key: outcome for outcome in outcomes}


def _trials(
    streams: Sequence[SuiteStream], automatic: Sequence[Attempt]
) -> tuple[dict[str, auto.Trials], dict[str, Automatic]]:
    """Return what ``auto`` has to try on each stream; where it cannot, its row says why."""
    trials, makers = {}, {}
    for stream in streams:
        maker = Automatic(Target(stream.dataset, stream.measure))
        try:
            if not files_absent(stream.dataset):
                trials[stream.dataset] = auto.trials_of(maker.make)
                makers[stream.dataset] = maker
                continue
            why = "files absent"
        except FaircilError as error:
            why = str(error)
        for one in automatic:
            one.missing[stream.dataset] = why
    return trials, makers


def _choose(
    attempt: Attempt,
    trials: Mapping[str, auto.Trials],
    makers: Mapping[str, Automatic],
    outcomes: Mapping[str, Outcome],
) -> None:
    for name, some in trials.items():
        try:
            tried = [outcomes[work.key] for work in some.works]
            choice = auto.decide(makers[name].make, some, tried)
        except FaircilError as error:
            attempt.missing[name] = str(error)
            continue
        attempt.configs[name] = choice.config
        attempt.chosen[name] = choice.chosen.name


def _row(
    attempt: Attempt,
    suite: Suite,
    streams: Mapping[str, SuiteStream],
    found: Mapping[ScoredRun, SeedScore | str],
) -> BoardRow:
    entrant, missing = attempt.entrant, dict(attempt.missing)
    over = [
        text
        for name, made in attempt.configs.items()
        for text in beyond_budget(entrant, streams[name], made)
    ]
    scores: dict[str, dict[int, SeedScore]] = {}
    for case, scored in found.items():
        name = case.stream.dataset
        if isinstance(scored, str):
            missing.setdefault(name, f"seed {case.seed}: {scored}")
        else:
            scores.setdefault(name, {})[case.seed] = scored
    taken = "; ".join(f"{name}: {what}" for name, what in attempt.chosen.items())
    return BoardRow(
        entrant.name,
        suite.label,
        "run",
        _what(entrant),
        scores,
        missing,
        reference=entrant.method in BOUNDS,
        other_budget=" ".join(dict.fromkeys(over)),
        made=tuple(dict.fromkeys(_made_on(case.folder) for case in found)),
        note=f"takes {taken}" if taken else entrant.note,
    )


def _what(entrant: Contender) -> str:
    if entrant.method == auto.AUTO:
        return "the method that is best on held-out training rows"
    parts = [entrant.method, *filter(None, [entrant.weighting])]
    return f"{'+'.join(parts)}, {' '.join(entrant.fixed) or SHIPPED}"


def _made_on(folder: Path) -> str:
    """Say which machine and versions made a run."""
    found = read_json(folder / "environment.json")
    machine = found.get("gpu") or f"{found.get('processor')} CPU"
    packages = found.get("packages", {})
    versions = ", ".join(f"{name} {packages.get(name)}" for name in ("torch", "numpy"))
    return f"{machine}; faircil {found.get('faircil')}, Python {found.get('python')}, {versions}"
