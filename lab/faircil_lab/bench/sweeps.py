"""How fast a sweep of runs is with several processes, and where their time is spent."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from faircil.cli.sweeping import missing_gpu
from faircil.errors import FaircilError, raise_all
from faircil.sweep.sweep import SweepOptions, finish, suits_gpu
from faircil.sweep.work import Outcome, Spent, Work
from faircil_lab.bench.measuring import Circumstances
from faircil_lab.bench.whole_runs import TimedMethod


@dataclass(frozen=True)
class Processes:
    """How many processes make the runs.

    Parameters
    ----------
    jobs, gpu_jobs : int
        Processes that compute on the CPU, and that share the GPU.
    alone : bool
        Whether every run has a process of its own, one after another: no sweep at all.
    """

    jobs: int = 1
    gpu_jobs: int = 0
    alone: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        if self.alone:
            return "a new process for each run"
        numbers = {"CPU": self.jobs, "GPU": self.gpu_jobs}
        parts = [_counted(number, device) for device, number in numbers.items() if number]
        return " and ".join(parts)


def _counted(number: int, device: str) -> str:
    return f"{number} process{'es' if number > 1 else ''} on the {device}"


@dataclass(frozen=True)
class TimeParts:
    """What the time of processes goes to, in seconds or in shares of all.

    Parameters
    ----------
    start : float
        Until a process is ready for its first run: Python, imports, the device.
    load : float
        The data.
    weights : float
        Statistics of the groups and linear program.
    train, evaluate : float
    write : float
        The files of the runs.
    rest : float
        All else: nets, buffers, locks, waiting for the next piece of work.
    idle : float
        From the last run of a process to the end of the sweep.
    """

    start: float
    load: float
    weights: float
    train: float
    evaluate: float
    write: float
    rest: float
    idle: float

    @property
    def total(self) -> float:
        """All of it."""
        return float(sum(astuple(self)))

    @property
    def runs(self) -> float:
        """The runs themselves, as they would be without any sweep."""
        return self.weights + self.train + self.evaluate

    def times(self, factor: float) -> TimeParts:
        """Return all parts ``factor`` times as long."""
        return TimeParts(**{name: factor * value for name, value in asdict(self).items()})


PARTS = tuple(field.name for field in fields(TimeParts))


def summed(parts: Sequence[TimeParts]) -> TimeParts:
    """Add up, part by part."""
    return TimeParts(**{name: sum(getattr(part, name) for part in parts) for name in PARTS})


@dataclass(frozen=True)
class SweepCost:
    """What one sweep took.

    Parameters
    ----------
    case : Processes
    repeat : int
        From 1.
    runs, processes : int
    wall : float
        Seconds from the beginning to the end.
    parts : TimeParts
        Seconds of all processes; together ``processes * wall``.
    cores : float
        That a process had while it worked; less than 1 where others were in its way, or it waited.
    """

    case: Processes
    repeat: int
    runs: int
    processes: int
    wall: float
    parts: TimeParts
    cores: float


@dataclass(frozen=True)
class SweepResults(Circumstances):
    """A benchmark of sweeps.

    Parameters
    ----------
    costs : tuple of SweepCost
    works : tuple of str
        Names of the runs that each sweep makes.
    """

    costs: tuple[SweepCost, ...]
    works: tuple[str, ...]


DATASETS = ("digits", "biased-digits")
METHODS = ("er", "fsw", "wa")
JOBS = (1, 2)


def works_of(contenders: Sequence[TimedMethod], seeds: Sequence[int]) -> list[Work]:
    """Return every run once; the test data is not looked at, as in a search for settings."""
    works = [
        Work(contender.config().model_copy(update={"evaluate_on": "validation"}), seed)
        for contender in contenders
        for seed in seeds
    ]
    return list({work.key: work for work in works}.values())


def cases_of(
    jobs: Sequence[int] | None,
    gpu_jobs: Sequence[int],
    works: Sequence[Work],
    mistakes: list[str],
    *,
    alone: bool = False,
) -> list[Processes]:
    """Return what to compare, the reference first; adds to ``mistakes`` what cannot be measured.

    Parameters
    ----------
    jobs : sequence of int or None
        Numbers of processes on the CPU. None: 1 and 2, or none of these where there is a GPU.
    gpu_jobs : sequence of int
        Numbers of processes on the GPU. Methods that it does not replay are made in parallel by the
        largest number of ``jobs``.
    works : sequence of Work
        What they make; empty where that is not known.
    mistakes : list of str
    alone : bool
        Whether to begin with a process for each run.
    """
    if jobs is None:
        jobs = () if gpu_jobs else JOBS
    suited = sum(map(suits_gpu, works))
    mistakes += _out_of_range("--jobs", jobs, len(works) if works else None)
    mistakes += _out_of_range("--gpu-jobs", gpu_jobs, suited if works else None)
    mistakes += missing_gpu() if gpu_jobs else []
    on_cpu = max(jobs, default=1) if suited < len(works) else 0
    cases = [Processes(alone=True)] * alone
    cases += [Processes(number) for number in dict.fromkeys(jobs)]
    return cases + [Processes(on_cpu, number) for number in dict.fromkeys(gpu_jobs)]


def _out_of_range(option: str, numbers: Sequence[int], most: int | None) -> list[str]:
    """Find numbers that make no sense; a process without a run is none of a sweep."""
    if most is None:
        return [f"{option} is {n}, expected at least 1" for n in numbers if n < 1]
    expected = f"1 to {most}, the number of runs for it"
    return [f"{option} is {n}, expected {expected}" for n in numbers if not 1 <= n <= most]


@dataclass(frozen=True)
class Arrival:
    """A run that has come back.

    Parameters
    ----------
    at : float
        Seconds since the sweep began.
    spent : Spent
        What its process says.
    seconds : mapping
        What the run itself says, see :class:`faircil.results.record.Seconds`.
    """

    at: float
    spent: Spent
    seconds: Mapping[str, float]

    @property
    def preparation(self) -> float:
        """What a run needs before its first task; the first time, torch loads more of itself."""
        return self.spent.device + self.spent.run - self.seconds["total"]


def split_time(arrivals: Sequence[Arrival], wall: float) -> dict[int, TimeParts]:
    """Divide the time of each process, ``wall`` seconds, by the number of the process."""
    by_process: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        by_process.setdefault(arrival.spent.process, []).append(arrival)
    return {process: _split(own, wall) for process, own in by_process.items()}


def _split(arrivals: Sequence[Arrival], wall: float) -> TimeParts:
    first, last = arrivals[0], arrivals[-1]
    known = summed([_of_run(arrival) for arrival in arrivals])
    # Both clocks measure durations only: a process has its own zero.
    start = first.at - first.spent.total + first.preparation
    idle = wall - last.at
    rest = wall - known.total - start - idle
    return summed([known, TimeParts(start, 0, 0, 0, 0, 0, rest, idle)])


def _of_run(arrival: Arrival) -> TimeParts:
    seconds, spent = arrival.seconds, arrival.spent
    return TimeParts(
        start=0,
        load=spent.load,
        weights=seconds["gradient"] + seconds["lp"],
        train=seconds["train"],
        evaluate=seconds["eval"],
        write=spent.write,
        rest=0,
        idle=0,
    )


IN_A_POOL = 2  # as many jobs as make a sweep start processes, even for one run


def measure_sweeps(
    works: Sequence[Work], cases: Sequence[Processes], repeats: int
) -> Iterator[SweepCost]:
    """Make all runs in each case, in turns, ``repeats`` times."""
    for repeat in range(1, repeats + 1):
        for case in cases:
            yield measure_case(works, case, repeat)


def measure_case(works: Sequence[Work], case: Processes, repeat: int) -> SweepCost:
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
            f"with {case.name} a process died and was replaced, so the time is meaningless; "
            "measure again, with fewer processes if memory ran out"
        )
    parts = summed([summed(list(split.values())) for split in splits])
    wall = sum(wall for wall, _ in sweeps)
    spent = [arrival.spent for _, arrivals in sweeps for arrival in arrivals]
    cores = sum(one.cpu for one in spent) / sum(one.total for one in spent)
    return SweepCost(case, repeat, len(works), processes, wall, parts, cores)


def _sweep(works: Sequence[Work], jobs: int, gpu_jobs: int) -> tuple[float, list[Arrival]]:
    """Make runs in a new folder; return the seconds, and the runs as they came."""
    arrivals: list[Arrival] = []

    def arrived(outcome: Outcome) -> None:
        if outcome.run is not None and outcome.spent is not None:
            at = time.perf_counter() - start
            arrivals.append(Arrival(at, outcome.spent, outcome.run.seconds))

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        outcomes = finish(works, SweepOptions(Path(folder), jobs, gpu_jobs), arrived)
        wall = time.perf_counter() - start
    failed = [f"{o.work.name}: {o.problem}" for o in outcomes if o.problem is not None]
    raise_all(failed, FaircilError)
    return wall, arrivals
