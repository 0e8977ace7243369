from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import faircil_lab.bench.sweeps
from faircil.errors import FaircilError
from faircil.sweep.sweep import SweepOptions
from faircil.sweep.work import Outcome, Spent, Work
from faircil_lab.bench.sweeps import Processes, measure_case, measure_sweeps
from run_summaries import make_run
from sweeps import small_work

WORKS = [small_work(seed) for seed in range(3)]
Sweep = tuple[list[int], int, int, Path]


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[Sweep]:
    """Make no runs, but as many processes as there are jobs or runs; note what was asked for."""
    asked: list[Sweep] = []

    def finish(
        works: Sequence[Work], options: SweepOptions, listener: Callable[[Outcome], None]
    ) -> list[Outcome]:
        assert not any(options.root.iterdir())
        asked.append(([w.seed for w in works], options.jobs, options.gpu_jobs, options.root))
        outcomes = []
        for number, work in enumerate(works):
            process = number % (options.jobs + options.gpu_jobs)
            spent = Spent(process, 0, 0, 0, 0, total=number + 1, cpu=0.5)
            outcomes.append(Outcome(work, make_run("er"), spent=spent))
            listener(outcomes[-1])
        return outcomes

    monkeypatch.setattr("faircil_lab.bench.sweeps.finish", finish)
    return asked


def test_real_runs_in_this_process_and_in_two_others() -> None:
    one, two = measure_sweeps(WORKS[:2], [Processes(1), Processes(2)], repeats=1)
    for cost, processes in ((one, 1), (two, 2)):
        assert (cost.runs, cost.processes) == (2, processes)
        assert cost.parts.total == pytest.approx(processes * cost.wall)
        assert min(cost.parts.load, cost.parts.train, cost.parts.evaluate, cost.parts.write) > 0
        assert min(cost.parts.rest, cost.parts.idle) >= 0
        assert 0 < cost.cores < 64
    # Other processes have to import everything first.
    assert two.parts.start > one.parts.start


def test_cases_take_turns_in_new_folders(sweeps: list[Sweep]) -> None:
    costs = list(measure_sweeps(WORKS, [Processes(1), Processes(0, 2), Processes(1, 2)], repeats=2))
    assert [(cost.case.jobs, cost.case.gpu_jobs, cost.repeat) for cost in costs] == [
        (1, 0, 1), (0, 2, 1), (1, 2, 1), (1, 0, 2), (0, 2, 2), (1, 2, 2),
    ]  # fmt: skip
    assert [asked[:3] for asked in sweeps] == 2 * [
        ([0, 1, 2], 1, 0), ([0, 1, 2], 0, 2), ([0, 1, 2], 1, 2),
    ]  # fmt: skip
    assert [cost.cores for cost in costs] == pytest.approx([1.5 / 6] * 6)
    folders = [asked[3] for asked in sweeps]
    assert len(set(folders)) == 6
    assert not any(folder.exists() for folder in folders)


def test_alone_every_run_has_a_process(sweeps: list[Sweep]) -> None:
    cost = measure_case(WORKS, Processes(alone=True), 1)
    assert [asked[0] for asked in sweeps] == [[0], [1], [2]]
    assert all(asked[1] > 1 for asked in sweeps)  # else no process would be started
    assert (cost.runs, cost.processes) == (3, 1)
    assert cost.parts.total == pytest.approx(cost.wall)


def test_runs_that_fail_are_an_error() -> None:
    works = [small_work(0), small_work(1, lr=1e30), small_work(2, lr=1e30)]
    with pytest.raises(FaircilError, match=r"seed 1: training diverged.*\n.*seed 2: training"):
        measure_case(works, Processes(1), 1)


def test_a_process_that_died_is_an_error(
    sweeps: list[Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = faircil_lab.bench.sweeps.finish

    def finish(works: Sequence[Work], options: SweepOptions, listener: object) -> list[Outcome]:
        return real(works, SweepOptions(options.root, options.jobs + 1), listener)  # type: ignore[arg-type]

    monkeypatch.setattr("faircil_lab.bench.sweeps.finish", finish)
    with pytest.raises(FaircilError, match="with 2 processes on the CPU a process died"):
        measure_case(WORKS, Processes(2), 1)
