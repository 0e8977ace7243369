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
    """Options of a sweep.

    Parameters
    ----------
    root : Path
        Folder of the runs.
    jobs : int
        Number of processes, with one thread each; 1: run in this process.
    gpu_jobs : int
        Number of processes that share the GPU. They run what is faster there, see
        :func:`suits_gpu`; the rest is left to ``jobs``.
    any_code : bool
        Whether to accept runs executed with other code.
    run_missing : bool
        Whether to execute missing runs.
    folder : Path or None
        Folder for the runs of a single configuration, instead of folders below ``root``.
    again : bool
        Whether to execute existing runs again.
    replace : bool
        Whether to replace runs that cannot be used, such as damaged ones; otherwise, their outcomes
        report the problem. Anything that is not a run is never replaced.
    device : str
        Device of the ``jobs``.
    command : str or None
        The user's command line; None: the ``faircil run`` command of each run.
    keep : callable or None
        Stores the final model of each executed run, see :func:`faircil.sweep.work.make_run`. By
        default, no model is stored: models are large, and a sweep has many runs.
    scheduler : str or None
        Dask cluster that executes runs instead of ``jobs``, see :class:`faircil.cluster.Dask`. Its
        workers must have access to the same folders as this process.
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
        """The store of the runs."""
        return Store(self.root, self.folder, self.any_code)

    def place(self, device: str) -> Place:
        """Return where runs are stored and executed."""
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
    """Execute all missing runs.

    Parameters
    ----------
    works : sequence of Work
        The same run may occur several times; it is executed once.
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
        Receives messages about saved states and disk space.

    Returns
    -------
    list of Outcome
        In the order of ``works``.

    Raises
    ------
    SweepError
        If it cannot continue, for example because the disk is full; finished runs are kept.
    StorageError
        If something other than a run is in the place of one.
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
    """Return the outcome of an existing run; None if it must be executed."""
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
# Cost of a step relative to one of plain replay.
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
    """Return whether a GPU is faster: it replays the steps as graphs, or they are large."""
    method = LEARNERS[work.config.method]
    return method.graphable or method.one_pass or work.config.trains_encoder
