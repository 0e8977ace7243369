"""A sweep: execute or reuse all its runs, and return the outcomes in the given order.

A single run is a sweep of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faircil.errors import FaircilError, StorageError
from faircil.learners import LEARNERS
from faircil.results.folder import check_replaceable, seed_folder
from faircil.runs.saved_states import Tell
from faircil.sweep.on_cluster import make_on_cluster
from faircil.sweep.processes import Crew, Listener, Place, Waiting, make_here, share_work
from faircil.sweep.store import ROOT, Store
from faircil.sweep.work import Keep, Outcome, Watcher, Work

NOT_MADE = "not run: it has no finished run"
Finish = Callable[[Sequence[Work]], list[Outcome]]


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is made.

    Parameters
    ----------
    root : Path
        Where runs are kept.
    jobs : int
        Processes that compute, one thread each; 1: in this process.
    gpu_jobs : int
        Processes that share the GPU. They take the methods whose steps it replays as graphs; the
        others are faster on CPUs and left to ``jobs``.
    any_code : bool
        Whether runs that other code has made will do.
    run_missing : bool
        Whether to make what is not there.
    folder : Path or None
        One folder for the runs of the only configuration, instead of those below ``root``.
    again : bool
        Whether to make what is there again.
    replace : bool
        Whether runs that cannot be used, such as damaged ones, are replaced; else each is the
        problem of its outcome. What is no run is never replaced.
    device : str
        Where ``jobs`` compute.
    command : str or None
        What the user typed; if not given, the ``faircil run`` of each run.
    keep : callable or None
        Keeps the final model of every run that is made, see :func:`faircil.sweep.work.make_run`.
        Models are large, and the runs of a sweep are many: none by default.
    scheduler : str or None
        Dask cluster that computes, see :class:`faircil.cluster.Dask`, instead of ``jobs``. Its
        workers have to see the same folders as this process.
    """

    root: Path = ROOT
    jobs: int = 1
    gpu_jobs: int = 0
    any_code: bool = False
    run_missing: bool = True
    folder: Path | None = None
    again: bool = False
    replace: bool = True
    device: str = "cpu"
    command: str | None = None
    keep: Keep | None = None
    scheduler: str | None = None

    @property
    def store(self) -> Store:
        """Where runs are kept."""
        return Store(self.root, self.folder, self.any_code)

    def place(self, device: str) -> Place:
        """Return where runs are kept and computed."""
        return Place(self.store, device, self.again, self.replace, self.command, keep=self.keep)


def finish(
    works: Sequence[Work],
    options: SweepOptions,
    listener: Listener = lambda _: None,
    found: Listener = lambda _: None,
    *,
    waiting: Waiting = lambda _: None,
    watcher: Watcher | None = None,
    tell: Tell = lambda _: None,
) -> list[Outcome]:
    """Make all runs that are not there yet.

    Parameters
    ----------
    works : sequence of Work
        The same run may occur several times; it is made once.
    options : SweepOptions
    listener : callable
        Called for every run that was executed or has failed.
    found : callable
        Called for every existing run, before any is executed.
    waiting : callable
        Called once for every run that another process is executing.
    watcher : Watcher, optional
        Receives the progress of runs executed in this process.
    tell : callable
        Takes lines about saved states of runs and room on the disk.

    Returns
    -------
    list of Outcome
        In the order of ``works``.

    Raises
    ------
    SweepError
        If it cannot go on, as with a full disk; what is finished is kept.
    StorageError
        If something that is no run is in the place of one.
    """
    outcomes: dict[str, Outcome] = {}
    missing: dict[str, Work] = {}
    for key, work in {work.key: work for work in works}.items():
        there = look(work, options)
        if there is None:
            missing[key] = work
        else:
            outcomes[key] = there
            found(there)

    def take(outcome: Outcome) -> None:
        outcomes[outcome.work.key] = outcome
        listener(outcome)

    if not options.run_missing:
        for work in missing.values():
            take(Outcome(work, None, NOT_MADE))
    elif missing:
        _make(missing.values(), options, take, waiting, watcher, tell)
    return [outcomes[work.key] for work in works]


def look(work: Work, options: SweepOptions) -> Outcome | None:
    """Look for a finished run; None where it is to be made."""
    store = options.store
    place = seed_folder(store.folder_of(work), work.seed)
    if options.again and options.run_missing:
        check_replaceable(place)
        return None
    try:
        found = store.find(work)
        if found is not None:
            store.clear_states(work)
        return found
    except StorageError:
        raise
    except FaircilError as error:
        if not options.run_missing:
            return Outcome(work, None, f"not used: {error}")
        if options.replace:
            check_replaceable(place)
            return None
    # Another process may be replacing it at this moment.
    with store.alone(work) as mine:
        try:
            return store.find(work) if mine else None
        except StorageError:
            raise
        except FaircilError as error:
            return Outcome(work, None, str(error), kind=type(error))


def _make(
    works: Iterable[Work],
    options: SweepOptions,
    take: Listener,
    waiting: Waiting,
    watcher: Watcher | None,
    tell: Tell,
) -> None:
    longest_first = sorted(works, key=effort, reverse=True)
    here = options.place(options.device)
    if options.scheduler is not None:
        make_on_cluster(longest_first, here, options.scheduler, take, waiting, tell)
        return
    if options.jobs == 1 and not options.gpu_jobs:
        make_here(longest_first, here, take, waiting, watcher, tell)
        return
    crews = (
        Crew(here, options.jobs, lambda work: not (options.gpu_jobs and suits_gpu(work))),
        Crew(options.place("cuda"), options.gpu_jobs, suits_gpu),
    )
    share_work(longest_first, crews, take, waiting, tell)


# Training samples; only the proportions matter.
SAMPLES = {
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "biased-mnist": 60_000,
    "drug": 1_300,
    "biasbios": 253_000,
}
OTHER_SAMPLES = 10_000
# A step against one of plain replay.
EFFORT = {"joint": 2.5, "gss": 3.0, "ocs": 2.0, "fairl": 2.0, "finetune": 0.5}
WIDE = {"biased-mnist": 2.0}  # inputs of three channels
TRAINED_ENCODER = 100.0


def effort(work: Work) -> float:
    """Return the cost of a run in steps of plain replay on MNIST."""
    config, training = work.config, work.config.settings.training
    steps = SAMPLES.get(config.dataset, OTHER_SAMPLES) / training.batch_size * training.epochs
    wide = TRAINED_ENCODER if config.trains_encoder else WIDE.get(config.dataset, 1.0)
    return steps * EFFORT.get(config.method, 1.0) * wide


def suits_gpu(work: Work) -> bool:
    """Whether a GPU replays the steps as graphs, or they are large; else CPUs are faster."""
    method = LEARNERS[work.config.method]
    return method.graphable or method.one_pass or work.config.trains_encoder
