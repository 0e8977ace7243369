from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faircil.errors import FaircilError
from faircil.results.record import Seconds
from faircil_lab.bench import whole_runs
from faircil_lab.bench.whole_runs import (
    METHODS,
    REFERENCE,
    RunCost,
    TimedMethod,
    measure_runs,
    missing_files,
    run_once,
    timed_methods,
)


def test_run_in_a_process_of_its_own() -> None:
    cost = run_once(TimedMethod("toy", "fsw", ("epochs=1",)), 2, "cpu")
    assert (cost.dataset, cost.method, cost.repeat) == ("toy", "fsw", 2)
    assert cost.seconds.total >= cost.seconds.train > 0
    assert cost.seconds.lp > 0
    assert 0 < cost.accuracy <= 1
    assert cost.memory is None or 0.05 < cost.memory < 20


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("er", ["--method", "er"]),
        ("er+random", ["--method", "er", "--weighting", "random"]),
        ("der++", ["--method", "der++"]),
        ("der+++fsw:epochs=1", ["--method", "der++", "--weighting", "fsw", "--set", "epochs=1"]),
    ],
)
def test_names_of_methods(name: str, arguments: list[str]) -> None:
    assert TimedMethod("toy", name).arguments == ["--dataset", "toy", *arguments]


def test_message_of_a_run_that_fails_is_passed_on() -> None:
    script = "import sys; print('error: a file is missing', file=sys.stderr); sys.exit(1)"
    with pytest.raises(FaircilError, match=r"^a file is missing$"):
        whole_runs.outcome_of([sys.executable, "-c", script])


def test_interrupt_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_runs, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_once(TimedMethod("toy", "er"), 1, "cpu")
    assert started[0].returncode != 0
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)


def test_methods_of_a_dataset_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(contender: TimedMethod, repeat: int, device: str) -> RunCost:
        seconds = Seconds(0, 0, 0, 0, 1)
        return RunCost(contender.dataset, contender.name, repeat, seconds, None, 1.0)

    monkeypatch.setattr(whole_runs, "run_once", fake)
    runs = [TimedMethod(dataset, name) for dataset in "xy" for name in "ab"]
    order = [(run.dataset, run.repeat, run.method) for run in measure_runs(runs, 2, "cpu")]
    assert order == [(d, r, m) for d in "xy" for r in (1, 2) for m in "ab"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("er", "--method er --set epochs=1"),
        ("er+random", "--method er --weighting random --set epochs=1"),
        (
            "fsw:granularity=group:solver=highs",
            "--method fsw --set epochs=1 granularity=group solver=highs",
        ),
    ],
)
def test_method_with_settings(name: str, arguments: str) -> None:
    contender = TimedMethod("toy", name, ("epochs=1",))
    assert contender.arguments == ["--dataset", "toy", *arguments.split()]
    assert contender.config().settings.training.epochs == 1


def test_own_settings_win() -> None:
    assert TimedMethod("toy", "er:epochs=2", ("epochs=1",)).config().settings.training.epochs == 2


def test_defaults_run_on_every_embedded_dataset() -> None:
    mistakes: list[str] = []
    found = timed_methods(["digits", "biased-digits", "toy"], METHODS, [], mistakes)
    assert mistakes == []
    assert len(found) == 9
    assert REFERENCE in METHODS


def test_every_mistake_is_named_once() -> None:
    mistakes: list[str] = []
    timed_methods(["toy", "tooy"], ["er", "fws", "fsw:taau=1"], ["lr=0"], mistakes)
    text = "\n".join(mistakes)
    for words in ("dataset 'tooy'", "method 'fws'", "setting 'taau'", "setting lr=0"):
        assert text.count(words) == 1
    assert len(mistakes) == 4


def test_missing_files_are_named_as_the_loader_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    assert missing_files(["toy", "digits"]) == []
    mistakes = missing_files(["drug", "mnist", "biased-mnist"])
    assert len(mistakes) == 5
    assert "drug_consumption.data is missing: run `faircil data fetch drug`" in mistakes[0]
