"""The same runs with each number of processes, in a new folder each time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from faircil.bench.sweep.record import Case, SweepCost, summed
from faircil.bench.sweep.split import Arrival, split_time
from faircil.errors import FaircilError, raise_all
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Outcome, Work

IN_A_POOL = 2  # as many jobs as make a sweep start processes, even for one run


def measure_sweeps(
    works: Sequence[Work], cases: Sequence[Case], repeats: int
) -> Iterator[SweepCost]:
    """Make all runs in each case, in turns, ``repeats`` times."""
    for repeat in range(1, repeats + 1):
        for case in cases:
            yield measure_case(works, case, repeat)


def measure_case(works: Sequence[Work], case: Case, repeat: int) -> SweepCost:
    """Make all runs once.

    Raises
    ------
    FaircilError
        If a run fails, or a process dies: the time would mean nothing.
    """
    if case.alone:
        sweeps = [_sweep([work], IN_A_POOL, 0) for work in works]
    else:
        sweeps = [_sweep(works, case.jobs, case.gpu_jobs)]
    splits = [split_time(arrivals, wall) for wall, arrivals in sweeps]
    processes = max(map(len, splits))
    if processes > case.jobs + case.gpu_jobs:
        raise FaircilError(
            f"with {case.name} a process died and another took its place, so the time means "
            "nothing; measure again, with fewer processes if memory ran out"
        )
    parts = summed([summed(list(split.values())) for split in splits])
    wall = sum(wall for wall, _ in sweeps)
    spent = [arrival.spent for _, arrivals in sweeps for arrival in arrivals]
    cores = sum(one.cpu for one in spent) / sum(one.total for one in spent)
    return SweepCost(case, repeat, len(works), processes, wall, parts, cores)


def _sweep(works: Sequence[Work], jobs: int, gpu_jobs: int) -> tuple[float, list[Arrival]]:
    """Make runs in a new folder; return the seconds, and the runs as they came."""
    arrivals: list[Arrival] = []

    def told(outcome: Outcome) -> None:
        if outcome.run is not None and outcome.spent is not None:
            at = time.perf_counter() - start
            arrivals.append(Arrival(at, outcome.spent, outcome.run.seconds))

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        outcomes = finish(works, SweepOptions(Path(folder), jobs, gpu_jobs), told)
        wall = time.perf_counter() - start
    failed = [f"{o.work.name}: {o.problem}" for o in outcomes if o.problem is not None]
    raise_all(failed, FaircilError)
    return wall, arrivals
