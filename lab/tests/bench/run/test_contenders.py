from __future__ import annotations

from pathlib import Path

import pytest

from faircil_lab.bench.whole_runs import (
    METHODS,
    REFERENCE,
    TimedMethod,
    missing_files,
    timed_methods,
)


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
