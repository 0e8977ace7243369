from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import faircil.sweep.work
from cli_outcome import Cli, run_words
from faircil.runs.experiment import run

TOY = run_words("finetune", "toy", "--out", "out", "--seeds", "0-1", epochs=1)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    def interrupted(config: Any, seed: int, **options: Any) -> Any:
        if seed == stop:
            raise KeyboardInterrupt
        return run(config, seed, **options)

    monkeypatch.setattr(faircil.sweep.work, "run", interrupted)


def test_finished_seeds_stay_and_the_same_command_goes_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupt_at(monkeypatch, 1)
    outcome = cli(*TOY)
    assert outcome.code == 130
    assert outcome.err.endswith(
        "interrupted; finished: seed 0 in out; the same command continues from there\n"
    )
    assert outcome.out == ""
    assert [path.name for path in (tmp_path / "out").glob("seed*")] == ["seed-0"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    outcome = cli(*TOY)
    assert outcome.code == 0
    assert "not run again: seed 0" in outcome.err


def test_with_force_the_way_on_is_without_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 1)
    assert "the same command without --force continues from there" in cli(*TOY, "--force").err


def test_before_the_first_seed_is_finished(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 0)
    outcome = cli(*TOY)
    assert outcome.code == 130
    assert outcome.err.endswith(
        "interrupted; no seed was finished, nothing was kept; the same command starts again\n"
    )
