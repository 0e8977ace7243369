from __future__ import annotations

import pytest

from faircil.sweep.work import Work
from faircil_lab.bench.sweeps import Processes, cases_of, works_of
from faircil_lab.bench.whole_runs import TimedMethod
from sweeps import small_work

WORKS = [small_work(seed, method) for method in ("er", "gdumb") for seed in range(3)]
GRAPHABLE = WORKS[:3]


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
    assert cases(None, [], WORKS) == ([Processes(1), Processes(2)], [])
    found, _ = cases([4, 2, 4], [], WORKS, alone=True)
    assert found == [Processes(alone=True), Processes(4), Processes(2)]


@pytest.mark.usefixtures("gpu")
def test_what_a_gpu_does_not_replay_is_made_beside_it() -> None:
    assert cases(None, [1, 3], GRAPHABLE) == ([Processes(0, 1), Processes(0, 3)], [])
    assert cases([1, 2], [3], GRAPHABLE)[0] == [Processes(1), Processes(2), Processes(0, 3)]
    assert cases(None, [3], WORKS)[0] == [Processes(1, 3)]
    assert cases([1, 2], [3], WORKS)[0][-1] == Processes(2, 3)


def test_all_mistakes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    _, mistakes = cases([0, 7], [4], WORKS)
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
