"""Tasks that succeed, fail or kill their process (importable by processes)."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faircil.engines import Engine, Processes
from faircil.errors import DataError
from faircil.metrics import METRICS
from faircil.stopping import Stopped, listening

TASKS = range(9)
SQUARES = [n * n for n in TASKS]


def square(number: int) -> int:
    """Return a square; the first numbers take longer than the others."""
    time.sleep(0.05 * (number < 2))
    return number**2


def count_frozen(_: int) -> tuple[bool, int]:
    """Return whether garbage collection is on, and how many objects are frozen."""
    return gc.isenabled(), gc.get_freeze_count()


def refuse(number: int) -> int:
    """Raise an error with two sentences."""
    if number == 3:
        raise DataError("three is refused", "and so is this")
    return number


def break_down(number: int) -> int:
    """Raise an unexpected error."""
    raise ZeroDivisionError(number)


def inner_function(number: int) -> Callable[[], int]:
    """Return something that cannot be sent."""
    return lambda: number


def knows(metric: str) -> bool:
    """Return whether a metric exists; looking up a missing one raises an error."""
    return METRICS.find(metric) is not None


def nothing(_: object) -> float:
    """Return the value of a metric of nothing."""
    return 0.0


def die(number: int) -> int:
    """Kill the process, as the system does when memory is full."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@dataclass(frozen=True)
class DieOnce:
    """Squares numbers; the process of one of them dies the first time.

    Parameters
    ----------
    flag : str
        File that exists from then on.
    how : {"kill", "exit"}
    """

    flag: str
    how: str

    def __call__(self, number: int) -> int:
        """Return a square."""
        flag = Path(self.flag)
        if number == 4 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL) if self.how == "kill" else os._exit(1)
        return number**2


def process_of(_: int) -> int:
    """Return the id of the process."""
    time.sleep(0.1)
    return os.getpid()


def parent_of(_: int) -> int:
    """Return the id of the parent process."""
    return os.getppid()


def sleep(seconds: float) -> None:
    """Do nothing for a long time."""
    time.sleep(seconds)


def kill_one(engine: Engine) -> None:
    """Kill a process of an engine."""
    os.kill(next(iter(engine.map(process_of, [0]))), signal.SIGKILL)


def in_order(engine: Engine, work: Callable[[Any], Any], tasks: Any = TASKS) -> list[Any]:
    """Return all results in order."""
    return list(engine.map(work, list(tasks)))


def wait_long(folder: str) -> None:
    """Write the id of this process to a file, and wait."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


def stop_in_the_middle(folder: str) -> None:
    """Let two processes wait until a signal arrives."""
    with listening():
        try:
            with Processes(2) as engine:
                list(engine.map(wait_long, [folder] * 8))
        except Stopped as stopped:
            sys.stdout.write(f"stopped by {stopped}\n")
