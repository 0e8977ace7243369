"""The runs of a benchmarked sweep, and the numbers of processes that make them."""

from __future__ import annotations

from collections.abc import Sequence

from faircil.bench.run.contenders import Contender
from faircil.bench.sweep.record import Case
from faircil.device import choose_device
from faircil.errors import UsageError
from faircil.sweep.costs import suits_gpu
from faircil.sweep.work import Work

DATASETS = ("digits", "biased-digits")
METHODS = ("er", "fsw", "wa")
JOBS = (1, 2)


def works_of(contenders: Sequence[Contender], seeds: Sequence[int]) -> list[Work]:
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
) -> list[Case]:
    """Return what to compare, the reference first; adds to ``mistakes`` what cannot be measured.

    Parameters
    ----------
    jobs : sequence of int or None
        Numbers of processes on the CPU. None: 1 and 2, or none of these where there is a GPU.
    gpu_jobs : sequence of int
        Numbers of processes on the GPU. Methods that it does not replay are made beside it by the
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
    if gpu_jobs:
        try:
            choose_device("cuda")
        except UsageError as error:
            mistakes.append(f"--gpu-jobs needs a GPU: {error}")
    beside = max(jobs, default=1) if suited < len(works) else 0
    cases = [Case(alone=True)] * alone
    cases += [Case(number) for number in dict.fromkeys(jobs)]
    return cases + [Case(beside, number) for number in dict.fromkeys(gpu_jobs)]


def _out_of_range(option: str, numbers: Sequence[int], most: int | None) -> list[str]:
    """Find numbers that make no sense; a process without a run is none of a sweep."""
    if most is None:
        return [f"{option} is {n}, expected at least 1" for n in numbers if n < 1]
    expected = f"1 to {most}, the number of runs for it"
    return [f"{option} is {n}, expected {expected}" for n in numbers if not 1 <= n <= most]
