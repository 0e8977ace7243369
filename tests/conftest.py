from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from faircil.runs import experiment
from faircil.runs.state import RunState


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep small nets on one core: on a busy machine, threads that wait for each other crawl."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[RunState]:
    """Collect the states of all runs that a test makes, in order."""
    collected: list[RunState] = []
    start = experiment.start_run

    def collecting(*arguments: Any) -> RunState:
        collected.append(start(*arguments))
        return collected[-1]

    monkeypatch.setattr(experiment, "start_run", collecting)
    return collected
