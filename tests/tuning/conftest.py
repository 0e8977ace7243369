from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from faircil.errors import DivergedError
from faircil.results.folder import write_run
from faircil.results.record import environment
from faircil.runs.config import RunConfig
from faircil.runs.experiment import run
from faircil.sweep.work import Outcome, Work
from run_summaries import make_run

Metrics = Callable[[RunConfig, int], "dict[str, Any] | str"]


class Pretended:
    """Finishes runs without training: metrics, or a problem, are a function of the run."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.rounds: list[list[Work]] = []

    def __call__(self, works: Sequence[Work]) -> list[Outcome]:
        self.rounds.append(list(works))
        return [self._outcome(work) for work in works]

    def _outcome(self, work: Work) -> Outcome:
        metrics = self._metrics(work.config, work.seed)
        if isinstance(metrics, str):
            return Outcome(work, None, metrics, diverged="diverged" in metrics)
        return Outcome(work, make_run(work.config.label, seed=work.seed, **metrics))


@pytest.fixture
def pretend() -> Callable[[Metrics], Pretended]:
    """Make a finish from a function of configuration and seed."""
    return Pretended


@pytest.fixture
def finish_here(tmp_path: Path) -> Callable[[Sequence[Work]], list[Outcome]]:
    """Make runs one after another in this process."""

    def finish(works: Sequence[Work]) -> list[Outcome]:
        return [_made(work, tmp_path / "here" / work.key) for work in works]

    return finish


def _made(work: Work, folder: Path) -> Outcome:
    try:
        result = run(work.config, work.seed)
    except DivergedError as error:
        return Outcome(work, None, str(error), diverged=True)
    folder.mkdir(parents=True)
    return Outcome(work, write_run(folder / "seed", result, environment("test", "cpu")))
