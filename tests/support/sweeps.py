"""Work that is done quickly, and processes that fail (importable by processes)."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from faircil.buffer import ReplayBuffer
from faircil.counts import Counts
from faircil.learners.replay import Replay
from faircil.options import ReplayOptions
from faircil.sweep import processes
from faircil.sweep.store import Store
from faircil.sweep.work import Work
from small_runs import small_config


def small_work(seed: int = 0, method: str = "er", **settings: object) -> Work:
    """Return a run on the toy data that takes a few hundredths of a second."""
    return Work(small_config(method, attribute=True, **{"epochs": 1, **settings}), seed)


class OwnReplay(Replay):
    """A user's replay method, with its own settings."""

    class Own(ReplayOptions):
        """Settings that a process must be able to import."""

        mine: int = 3
        """a number"""

    options = Own


class DiesOnce(Replay):
    """Replay whose process is killed after its first task, the first time."""

    class Own(ReplayOptions):
        """Settings."""

        flag: str = ""
        """file that is there from then on"""

    options = Own

    def end_task(self, buffer: ReplayBuffer) -> None:
        """End a task, or the process."""
        flag = Path(self.settings.flag)  # type: ignore[attr-defined]
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().end_task(buffer)


def always_half(counts: Counts) -> float:
    """Return .5 for any predictions."""
    del counts
    return 0.5


def may_make(work: Work, root: Path) -> bool:
    """Return whether a process may currently execute the run."""
    with Store(root).alone(work) as mine:
        return mine


def dies_on_seed_1(pipe: Connection, place: processes.Place) -> None:
    """Serve as a worker, but die on one run, as if memory had run out."""
    real = processes.answer

    def answer(work: Work, *given: Any) -> processes.Answer:
        if work.seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(work, *given)

    processes.answer = answer  # type: ignore[assignment]
    processes.serve(pipe, place)
