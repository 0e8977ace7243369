"""A sweep: all its runs finished, found or given up, in the order they were asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faircil.errors import FaircilError, SweepError
from faircil.results.reuse import ROOT
from faircil.sweep.pool import PATIENCE, Crew, Listener, share_work
from faircil.sweep.store import find
from faircil.sweep.work import Outcome, Work, effort, suits_gpu
from faircil.sweep.worker import Place, Streams, answer

NOT_MADE = "not run: no finished run of it is there"
Finish = Callable[[Sequence[Work]], list[Outcome]]


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is made.

    Parameters
    ----------
    root : Path
        Where runs are kept.
    jobs : int
        Processes that compute on the CPU, one thread each; 1: in this process.
    gpu_jobs : int
        Processes that share the GPU. They take the methods whose steps it replays as graphs; the
        others are faster on CPUs and left to ``jobs``.
    any_code : bool
        Whether runs that other code has made will do.
    run_missing : bool
        Whether to make what is not there.
    """

    root: Path = ROOT
    jobs: int = 1
    gpu_jobs: int = 0
    any_code: bool = False
    run_missing: bool = True


def finish(
    works: Sequence[Work],
    options: SweepOptions,
    listener: Listener = lambda _: None,
    found: Listener = lambda _: None,
) -> list[Outcome]:
    """Make all runs that are not there yet.

    Parameters
    ----------
    works : sequence of Work
        The same run may occur several times; it is made once.
    options : SweepOptions
    listener : callable
        Is told of every run that was made or given up.
    found : callable
        Is told of every run that was there, before any is made.

    Returns
    -------
    list of Outcome
        In the order of ``works``.

    Raises
    ------
    SweepError
        If it cannot go on, as with a full disk; what is finished is kept.
    """
    outcomes: dict[str, Outcome] = {}
    missing: dict[str, Work] = {}
    for key, work in {work.key: work for work in works}.items():
        there = _look(work, options)
        if there is None:
            missing[key] = work
        else:
            outcomes[key] = there
            found(there)

    def take(outcome: Outcome) -> None:
        outcomes[outcome.work.key] = outcome
        listener(outcome)

    if options.run_missing:
        _make(missing.values(), options, take)
    else:
        for work in missing.values():
            take(Outcome(work, None, NOT_MADE))
    return [outcomes[work.key] for work in works]


def _look(work: Work, options: SweepOptions) -> Outcome | None:
    """Look for a finished run; what is damaged is made anew, or named if nothing is made."""
    try:
        return find(work, options.root, any_code=options.any_code)
    except FaircilError as error:
        return None if options.run_missing else Outcome(work, None, f"not used: {error}")


def _make(works: Iterable[Work], options: SweepOptions, take: Listener) -> None:
    longest_first = sorted(works, key=effort, reverse=True)
    cpu = Place(options.root, "cpu", options.any_code)
    if options.jobs > 1 or options.gpu_jobs:
        gpu = Place(options.root, "cuda", options.any_code)
        crews = (
            Crew(cpu, options.jobs, lambda work: not (options.gpu_jobs and suits_gpu(work))),
            Crew(gpu, options.gpu_jobs, suits_gpu),
        )
        share_work(longest_first, crews, take)
        return
    streams = Streams()
    for work in longest_first:
        made = answer(work, cpu, streams)
        while made.outcome is None:
            if made.stop is not None:
                raise SweepError(made.stop)
            time.sleep(PATIENCE)  # another sweep is making it
            made = answer(work, cpu, streams)
        take(made.outcome)
