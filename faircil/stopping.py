"""Stops from outside: Ctrl-C, SIGTERM and SIGHUP.

All three end a program alike: :class:`Stopped` is raised, wherever it is. While a run is made, the
first one waits until the run stands at a point from which it can go on; a second one does not wait.
Signals that the caller has ignored, as ``nohup`` does, stay ignored.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
KILLED_BY = 128  # exit codes of programs that a signal ends begin here
ONE_STOP = 3.0  # seconds within which signals are one stop


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
    """The signal that has come, and how many runs it has to wait for.

    Among processes in step with each other a signal is ``noted``, at the time ``since``, until all
    of them have agreed to stop.
    """

    number: int | None = None
    waits: int = 0
    in_step: int = 0
    noted: int | None = None
    since: float = 0.0


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
        _STOP.number = _STOP.noted = None


def _take(number: int, _: FrameType | None) -> None:
    if _STOP.in_step:
        # Ctrl-C comes from the terminal and once more from whoever started the processes.
        again = _STOP.noted is not None and time.monotonic() - _STOP.since > ONE_STOP
        if _STOP.noted is None:
            _STOP.noted, _STOP.since = number, time.monotonic()
        if again:
            raise Stopped(number)
        return
    first, _STOP.number = _STOP.number is None, number
    if not (first and _STOP.waits):
        raise Stopped(number)


def ignore_terminal() -> None:
    """Leave Ctrl-C, and the end of the terminal, to the process that began this one."""
    for number in SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def terminal_ignored() -> Iterator[None]:
    """Begin processes that signals of the terminal do not reach: this one ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers of signals belong to the main thread
        return
    terminal = [number for number in SIGNALS if number != signal.SIGTERM]
    handlers = [signal.signal(number, signal.SIG_IGN) for number in terminal]
    try:
        yield
    finally:
        for number, handler in zip(terminal, handlers, strict=True):
            if handler is not None:  # not for Python to change
                signal.signal(number, handler)


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


@contextmanager
def in_step() -> Iterator[None]:
    """Only note signals in the block, until :func:`agree`: all processes have to stop at one point.

    A second signal does not wait, if it comes seconds after the first.
    """
    _STOP.in_step += 1
    try:
        yield
    finally:
        _STOP.in_step -= 1
        if not _STOP.in_step and _STOP.noted is not None:
            _STOP.number, _STOP.noted = _STOP.number or _STOP.noted, None


def noted() -> int | None:
    """Return the signal that has come to this process and that the others may not know of."""
    return _STOP.noted


def agree() -> None:
    """Take a signal that came to any of the processes for one that came to this one."""
    _STOP.number = _STOP.number or _STOP.noted or signal.SIGTERM


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
