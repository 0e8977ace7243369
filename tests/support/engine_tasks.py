"""Tasks that go well, fail or kill their process (importable by processes)."""

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
    """Return a square, of the first numbers later than of the others."""
    time.sleep(0.05 * (number < 2))
    return number**2


def count_frozen(_: int) -> tuple[bool, int]:
    """Tell whether cycles are looked for, and among how many objects they are not."""
    return gc.isenabled(), gc.get_freeze_count()


def refuse(number: int) -> int:
    """Refuse a number with two sentences."""
    if number == 3:
        raise DataError("three is refused", "and so is this")
    return number


def break_down(number: int) -> int:
    """Have a defect."""
    raise ZeroDivisionError(number)


def inner_function(number: int) -> Callable[[], int]:
    """Return what cannot be sent."""
    return lambda: number


def knows(metric: str) -> bool:
    """Tell whether a metric is there; asking for one that is not is an error."""
    return METRICS.find(metric) is not None


def nothing(_: object) -> float:
    """Return what a metric of nothing is."""
    return 0.0


def die(number: int) -> int:
    """Kill the process, as the system does if there is no memory."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@dataclass(frozen=True)
class DieOnce:
    """Squares numbers; the process of one of them dies the first time.

    Parameters
    ----------
    flag : str
        File that is there from then on.
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
    """Return the number of the process."""
    time.sleep(0.1)
    return os.getpid()


def parent_of(_: int) -> int:
    """Return the number of the process that began this one."""
    return os.getppid()


def sleep(seconds: float) -> None:
    """Do nothing for a long time."""
    time.sleep(seconds)


def kill_one(engine: Engine) -> None:
    """Kill a process of an engine."""
    os.kill(next(iter(engine.map(process_of, [0]))), signal.SIGKILL)


def in_order(engine: Engine, work: Callable[[Any], Any], tasks: Any = TASKS) -> list[Any]:
    """Return all results."""
    return list(engine.map(work, list(tasks)))


def wait_long(folder: str) -> None:
    """Say which process this is, and wait."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


def stop_in_the_middle(folder: str) -> None:
    """Let two processes wait, until a signal comes."""
    with listening():
        try:
            with Processes(2) as engine:
                list(engine.map(wait_long, [folder] * 8))
        except Stopped as stopped:
            sys.stdout.write(f"stopped by {stopped}\n")
