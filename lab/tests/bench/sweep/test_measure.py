from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import faircil_lab.bench.sweeps
from faircil.errors import FaircilError
from faircil.sweep.sweep import SweepOptions
from faircil.sweep.work import Outcome, Spent, Work
from faircil_lab.bench.sweeps import (
    Arrival,
    Processes,
    TimeParts,
    cases_of,
    measure_case,
    measure_sweeps,
    split_time,
    summed,
    works_of,
)
from faircil_lab.bench.whole_runs import TimedMethod
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


RUNS_OF_CASES = [small_work(seed, method) for method in ("er", "gdumb") for seed in range(3)]
GRAPHABLE = RUNS_OF_CASES[:3]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)


def cases(
    jobs: list[int] | None, gpu_jobs: list[int], works: list[Work], alone: bool = False
) -> tuple[list[Processes], list[str]]:
    mistakes: list[str] = []
    return cases_of(jobs, gpu_jobs, works, mistakes, alone=alone), mistakes


def test_every_run_once_and_never_on_test_data() -> None:
    contenders = [TimedMethod("toy", name) for name in ("er", "fsw", "er+fsw")]
    works = works_of(contenders, [0, 2])
    assert [(work.config.label, work.seed) for work in works] == [
        ("er", 0), ("er", 2), ("fsw", 0), ("fsw", 2),
    ]  # fmt: skip
    assert {work.config.evaluate_on for work in works} == {"validation"}


def test_cpu_first_and_each_number_once() -> None:
    assert cases(None, [], RUNS_OF_CASES) == ([Processes(1), Processes(2)], [])
    found, _ = cases([4, 2, 4], [], RUNS_OF_CASES, alone=True)
    assert found == [Processes(alone=True), Processes(4), Processes(2)]


@pytest.mark.usefixtures("gpu")
def test_what_a_gpu_does_not_replay_is_made_beside_it() -> None:
    assert cases(None, [1, 3], GRAPHABLE) == ([Processes(0, 1), Processes(0, 3)], [])
    assert cases([1, 2], [3], GRAPHABLE)[0] == [Processes(1), Processes(2), Processes(0, 3)]
    assert cases(None, [3], RUNS_OF_CASES)[0] == [Processes(1, 3)]
    assert cases([1, 2], [3], RUNS_OF_CASES)[0][-1] == Processes(2, 3)


def test_all_mistakes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    _, mistakes = cases([0, 7], [4], RUNS_OF_CASES)
    assert mistakes[:3] == [
        "--jobs is 0, expected 1 to 6, the number of runs for it",
        "--jobs is 7, expected 1 to 6, the number of runs for it",
        "--gpu-jobs is 4, expected 1 to 3, the number of runs for it",
    ]
    assert mistakes[3].startswith("--gpu-jobs needs a GPU, and torch sees none")
    assert cases([0, 7], [], [])[1] == ["--jobs is 0, expected at least 1"]


def test_names() -> None:
    names = [
        case.name
        for case in (Processes(1), Processes(0, 14), Processes(2, 1), Processes(alone=True))
    ]
    assert names == [
        "1 process on the CPU",
        "14 processes on the GPU",
        "2 processes on the CPU and 1 process on the GPU",
        "a new process for each run",
    ]


def arrival(at: float, process: int = 1, **spent: float) -> Arrival:
    """A run of 8 seconds of its own (1 + 1 weights, 4 training, 1 evaluation), unless said."""
    parts = {"device": 0.0, "load": 2.0, "run": 9.0, "write": 0.5, "total": 12.0, "cpu": 12.0}
    seconds = {"gradient": 1.0, "lp": 1.0, "train": 4.0, "eval": 1.0, "total": 8.0}
    return Arrival(at, Spent(process, **(parts | spent)), seconds)


def test_one_run() -> None:
    (parts,) = split_time([arrival(20.0, device=3.0, total=15.0)], wall=21.0).values()
    # Ready 5 seconds after the beginning; the device takes 3, the preparation of the run 1.
    assert parts == TimeParts(
        start=9, load=2, weights=2, train=4, evaluate=1, write=0.5, rest=1.5, idle=1
    )
    assert parts.runs == 7


def test_only_the_first_preparation_of_a_process_is_its_start() -> None:
    (parts,) = split_time([arrival(12.0), arrival(25.0)], wall=25.0).values()
    assert parts.start == 1
    # 0.5 + 1 unnamed within the runs, 1 preparation of the second, 1 between the two.
    assert parts == TimeParts(1, 4, 4, 8, 2, 1, rest=5, idle=0)


def test_a_process_that_ends_early_is_idle() -> None:
    late, early = split_time([arrival(14.0, 7), arrival(12.0, 3)], wall=15.0).values()
    assert (late.idle, early.idle) == (1, 3)
    assert (late.start, early.start) == (3, 1)


def test_parts_of_every_process_add_up_to_the_time_of_the_sweep() -> None:
    draw = random.Random(0)
    arrivals, wall = [], 100.0
    for process in range(5):
        at = draw.uniform(0, 10)
        for _ in range(4):
            at += draw.uniform(12, 20)
            arrivals.append(arrival(at, process))
    by_process = split_time(sorted(arrivals, key=lambda one: one.at), wall)
    assert sorted(by_process) == list(range(5))
    assert [parts.total for parts in by_process.values()] == pytest.approx([wall] * 5)
    assert summed(list(by_process.values())).total == pytest.approx(5 * wall)
    assert all(min(parts.rest, parts.idle, parts.start) >= 0 for parts in by_process.values())
