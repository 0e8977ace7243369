"""Run the seeds of one configuration: reuse finished runs, show progress, store results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faircil.cli.console import say
from faircil.cli.progress import reporting
from faircil.cli.sweeping import tallying
from faircil.errors import DataError, DivergedError, FaircilError, raise_all, unknown_name
from faircil.learners import ALIASES, LEARNERS
from faircil.model.saved import keep_model, size_of
from faircil.report.sentences import helped_as_text
from faircil.report.study import BASELINE, studies_of
from faircil.results.folder import model_folder
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig, resolve
from faircil.runs.saved_states import state_folder
from faircil.runs.settings import in_effect
from faircil.sweep.store import Store, check_folder, check_others, check_place, remove_others
from faircil.sweep.sweep import SweepOptions, finish, look
from faircil.sweep.work import NO_MODEL, Both, Outcome, Work
from faircil.tracking import Tracker, tracking
from faircil.weighting.measures import find_measure

MOST_NOTES, MOST_MODELS = 10, 5  # listed in messages


@dataclass(frozen=True)
class RunOptions:
    """How to run, and how to handle existing files in the folder.

    Parameters
    ----------
    typed : str
        The user's command line, to repeat the run.
    device : str
    jobs : int
        Number of seeds run at a time.
    again : bool
        Whether to run finished seeds again.
    replace : bool
        Whether runs of another configuration are replaced; otherwise they are an error.
    quiet : bool
        Whether to show neither progress nor notes.
    keep : bool
        Whether the final models of executed seeds are stored.
    trackers : sequence of Tracker
        Trackers of the runs, if there is one job.
    notes : bool
        Whether to show notes, unless quiet.
    scheduler : str or None
        Dask cluster that runs the seeds, instead of this process and its ``jobs``.
    """

    typed: str
    device: str
    jobs: int = 1
    again: bool = False
    replace: bool = False
    quiet: bool = False
    keep: bool = False
    trackers: Sequence[Tracker] = ()
    notes: bool = True
    scheduler: str | None = None


def run_seeds(
    config: RunConfig, seeds: Sequence[int], folder: Path, options: RunOptions
) -> list[RunSummary]:
    """Run a configuration for each seed, or reuse its finished runs in the folder."""
    works = [Work(config, seed) for seed in seeds]
    sweep = SweepOptions(
        folder=folder,
        again=options.again,
        replace=options.replace,
        device=options.device,
        command=options.typed,
        keep=keep_model if options.keep else None,
    )
    _check(folder, works[0], options)
    outcomes = [look(work, sweep) for work in works]
    seeds_run = SeedsRun(config, folder, options, [found for found in outcomes if found])
    if seeds_run.done and not options.quiet:
        say(f"already in {folder}, not run again: {_seeds(seeds_run.done)}")
    todo = [work for work, found in zip(works, outcomes, strict=True) if found is None]
    try:
        seeds_run.make(todo, sweep)
    except KeyboardInterrupt as stop:
        begun = [work.seed for work in todo if state_folder(folder, work.seed).is_dir()]
        for note in _standing(config, folder, seeds_run.done, begun, again=options.again):
            stop.add_note(note)
        raise
    runs = seeds_run.results(seeds)
    if options.notes and not options.quiet:
        _say_notes(runs)
    return runs


def _standing(
    config: RunConfig, folder: Path, done: Iterable[int], begun: Iterable[int], *, again: bool
) -> Iterator[str]:
    """Describe what is finished after a stop, and how to resume; seeds are listed by number."""
    if not {*done, *begun}:
        nothing = "nothing was kept" + " but embeddings" * (config.medium is not None)
        yield f"no seed was finished, {nothing}; the same command starts again"
        return
    if finished := sorted(done):
        yield f"finished: {_seeds(finished)} in {folder}"
    if saved := sorted({*begun} - {*finished}):
        yield f"started and saved: {_seeds(saved)} in {folder}"
    yield f"the same command{' without --force' * again} continues from there"


def baseline_mistakes(name: str | None) -> list[str]:
    """Return a mistake if the baseline is not the name of a method."""
    known = (*LEARNERS, *ALIASES, "none")
    return [] if name is None or name in known else [unknown_name("baseline", name, known)]


@dataclass(frozen=True)
class Beside:
    """A second method that is run for comparison with the first one.

    Parameters
    ----------
    config : RunConfig
    folder : Path
        Folder of its runs.
    optional : bool
        Whether it was not requested: if it cannot be run, this is then a note and not an error.
    """

    config: RunConfig
    folder: Path
    optional: bool

    @classmethod
    def of(
        cls,
        config: RunConfig,
        name: str | None,
        given: Sequence[str],
        out: Path | None,
        seeds: Sequence[int],
    ) -> Beside | None:
        """Return the method to run for comparison; None if there is none, or if it is the same.

        Parameters
        ----------
        config : RunConfig
        name : str or None
            The method, or ``none``. By default, plain replay for runs on own data, but not for
            trials on validation data.
        given : sequence of str
            ``name=value`` settings of the user; those that the method uses are shared.
        out : Path or None
            The folder given by the user; the runs are in its subfolder ``baseline``.
        seeds : sequence of int
        """
        if name is None and (config.own is None or config.evaluate_on != "test"):
            return None
        method = name or BASELINE
        if method == "none":
            return None
        learner = ALIASES[method][0] if method in ALIASES else method
        base = resolve(
            dataset=None if config.own else config.dataset,
            own=config.own,
            method=method,
            measure=config.measure,
            favoured=config.favoured,
            evaluate_on=config.evaluate_on,
            overrides=in_effect(given, learner, medium=config.medium),
        )
        folder = Store().folder_of(Work(base, seeds[0])) if out is None else out / "baseline"
        return None if base == config else cls(base, folder, optional=name is None)

    def run(self, seeds: Sequence[int], options: RunOptions) -> list[RunSummary]:
        """Run it for each seed; return an empty list if it fails and was not requested."""
        # Notes concern the data, and have already been shown.
        mine = replace(options, keep=False, notes=False)
        try:
            return run_seeds(self.config, seeds, self.folder, mine)
        except FaircilError as error:
            if not self.optional:
                raise
            if not options.quiet:
                say(f"note: {self.config.label} was not run for comparison: {error}")
            return []


def against_baseline(runs: Sequence[RunSummary]) -> list[str]:
    """Return sentences on whether a method is better than plain replay, if both were run."""
    shown = {str(run.config["measure"]) for run in runs}
    studies = studies_of(runs, {name: find_measure(name).shown for name in shown})
    return [line for one in studies for line in helped_as_text(one)]


class SeedsRun:
    """Runs of one configuration, and the outcome of each."""

    def __init__(
        self, config: RunConfig, folder: Path, options: RunOptions, found: Sequence[Outcome]
    ) -> None:
        self._config, self._folder, self._options = config, folder, options
        self.done: dict[int, RunSummary] = {}
        self._diverged: dict[int, Outcome] = {}
        for outcome in found:
            self._add(outcome)
        self._others = options.replace  # whether runs of another configuration may exist

    def make(self, todo: Sequence[Work], sweep: SweepOptions) -> None:
        """Execute these runs: one with its epochs shown, or several at a time."""
        quiet = self._options.quiet or not todo
        jobs = min(self._options.jobs, len(todo))
        if jobs > 1 or self._options.scheduler is not None:
            with tallying(todo, quiet) as tally:

                def take(outcome: Outcome) -> None:
                    self._take(outcome)  # first, so that an interrupt does not lose it
                    tally.ended(outcome)

                several = replace(sweep, jobs=max(1, jobs), scheduler=self._options.scheduler)
                finish(
                    todo,
                    several,
                    take,
                    found=self._add,
                    waiting=tally.waiting,
                    tell=tally.say,
                )
        else:
            with (
                reporting(self._config, len(todo), quiet) as shown,
                tracking(self._options.trackers, self._config, say) as tracked,
            ):
                finish(
                    todo,
                    sweep,
                    self._take,
                    found=self._add,
                    waiting=self._waiting,
                    watcher=Both(shown, tracked),
                    tell=self._tell,
                )

    def results(self, seeds: Sequence[int]) -> list[RunSummary]:
        """Return the runs by seed; raise an error that lists diverged ones."""
        if self._diverged and self.done and not self._options.quiet:
            say(f"finished: {_seeds(self.done)} in {self._folder}")
        several = len(seeds) > 1
        raise_all(
            [
                f"seed {seed}: {outcome.problem}" if several else str(outcome.problem)
                for seed, outcome in sorted(self._diverged.items())
            ],
            DivergedError,
        )
        return [self.done[seed] for seed in seeds]

    def _add(self, outcome: Outcome) -> None:
        """Record an existing run, which another process may have finished in the meantime."""
        if outcome.run is not None:
            self.done[outcome.work.seed] = outcome.run
        else:
            self._diverged[outcome.work.seed] = outcome

    def _take(self, outcome: Outcome) -> None:
        if outcome.diverged:
            self._diverged[outcome.work.seed] = outcome
        elif outcome.run is None:
            raise outcome.kind(outcome.problem)
        else:
            self.done[outcome.work.seed] = outcome.run
            if self._others:
                self._others = False
                remove_others(self._folder, outcome.work)

    def _waiting(self, work: Work) -> None:
        self._tell(f"another process is running seed {work.seed} in {self._folder}; waiting for it")

    def _tell(self, line: str) -> None:
        if not self._options.quiet:
            say(line)


def _check(folder: Path, work: Work, options: RunOptions) -> None:
    """Raise an error if the folder cannot be used, before anything is run."""
    check_place(folder)
    if options.replace:
        check_others(folder, work)
    else:
        try:
            check_folder(folder, work)
        except DataError as error:
            then = "\n" if "\n" in str(error) else "; "
            advice = "choose another folder with --out, or replace it with --force"
            raise DataError(f"{error}{then}{advice}") from None


def _seeds(seeds: Iterable[int]) -> str:
    return f"seed {', '.join(map(str, sorted(seeds)))}"


def _say_notes(runs: Sequence[RunSummary]) -> None:
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    for note in notes[:MOST_NOTES]:
        say(f"note: {note}")
    if len(notes) > MOST_NOTES:
        say(f"note: {len(notes) - MOST_NOTES} more of this kind in {runs[0].dir}/summary.json")


def kept_at(run: RunSummary) -> str | None:
    """Return the folder of a run's model, or None."""
    folder = model_folder(Path(run.dir))
    return str(folder) if folder.is_dir() else None


def say_models(runs: Sequence[RunSummary]) -> None:
    """Report the paths and sizes of the final models."""
    for run in runs[:MOST_MODELS]:
        if (folder := kept_at(run)) is not None:
            say(f"model of seed {run.seed}: {size_of(Path(folder)) / 1e6:.1f} MB in {folder}")
        elif not any(note.startswith(NO_MODEL) for note in run.notes):
            say(f"model of seed {run.seed}: none is kept; run it again with --force to keep one")
    if len(runs) > MOST_MODELS:
        say(f"and the models of {len(runs) - MOST_MODELS} more seeds next to them")
