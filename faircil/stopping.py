"""Stops from outside: Ctrl-C, SIGTERM and SIGHUP.

All three end a program alike: :class:`Stopped` is raised, wherever it is. While a run is made, the
first one waits until the run stands at a point from which it can go on; a second one does not wait.
Signals that the caller has ignored, as ``nohup`` does, stay ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
KILLED_BY = 128  # exit codes of programs that a signal ends begin here


class Stopped(KeyboardInterrupt):
    """A signal that ends the program.

    Parameters
    ----------
    number : int
        Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass
class _Stop:
    """The signal that has come, and how many runs it has to wait for."""

    number: int | None = None
    waits: int = 0


_STOP = _Stop()  # signals are those of the process


@contextmanager
def listening() -> Iterator[None]:
    """Raise :class:`Stopped` in the block when a signal comes; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers of signals belong to the main thread
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):  # None: not for Python to change
                signal.signal(number, _take)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _STOP.number = None


def _take(number: int, _: FrameType | None) -> None:
    first, _STOP.number = _STOP.number is None, number
    if not (first and _STOP.waits):
        raise Stopped(number)


@contextmanager
def waiting() -> Iterator[None]:
    """Let the first signal wait in the block; call :func:`check` where it may take effect."""
    _STOP.waits += 1
    try:
        yield
    finally:
        _STOP.waits -= 1


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Yield what stops the run in the block, from another thread, as SIGTERM does."""

    def stop() -> None:
        _STOP.number = signal.SIGTERM

    try:
        yield stop
    finally:
        _STOP.number = None


def requested() -> bool:
    """Tell whether a signal has come."""
    return _STOP.number is not None


def check() -> None:
    """Raise if a signal has come and waits."""
    if _STOP.number is not None:
        raise Stopped(_STOP.number)


def exit_code(error: BaseException) -> int | None:
    """Return 128 and the number of the signal that led to an error; None if none did.

    A signal in the middle of an import may surface as another error.
    """
    number = error.number if isinstance(error, Stopped) else _STOP.number
    if number is None and isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    return None if number is None else KILLED_BY + number
