"""Work is timed by the process that does it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from faircil.data.stream import TaskStream
from faircil.runs.config import RunConfig
from faircil.runs.state import load_stream
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Spent, Watch
from sweeps import small_work


def test_every_second_is_in_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def load(config: RunConfig, seed: int) -> TaskStream:
        passes(2)
        return stream

    work = small_work()
    stream = load_stream(work.config, work.seed)
    clock = SimpleNamespace(perf_counter=lambda: now, process_time=lambda: now / 5)
    monkeypatch.setattr("faircil.sweep.work.time", clock)
    monkeypatch.setattr("torch.zeros", lambda *_, device: passes(8 if device.type == "cuda" else 0))
    watch = Watch()
    passes(1)
    timed = watch.loading(load, torch.device("cuda"))
    assert timed(work.config, work.seed) is stream
    for _ in range(3):  # epochs, then the last evaluation
        passes(10)
        watch(None)  # type: ignore[arg-type]
    passes(4)
    assert watch.spent() == Spent(os.getpid(), device=8, load=2, run=30, write=4, total=45, cpu=9)


def test_runs_that_are_made_say_what_they_took_and_others_do_not(tmp_path: Path) -> None:
    works = [small_work(0), small_work(0, "fsw"), small_work(1, lr=1e30)]
    outcomes = finish(works, SweepOptions(tmp_path))
    first, second, diverged = (outcome.spent for outcome in outcomes)
    assert diverged is None
    for outcome, own in zip(outcomes, (first, second), strict=False):
        assert outcome.run is not None
        assert own is not None
        assert own.process == os.getpid()
        assert min(own.device, own.load, own.write, own.cpu) > 0
        assert own.run >= outcome.run.seconds["total"] > 0
        assert own.device + own.load + own.run + own.write <= own.total
    again = finish(works, SweepOptions(tmp_path))
    assert again == outcomes
    assert all(outcome.spent is None for outcome in again)
