"""Stop signals: Ctrl-C, SIGTERM and SIGHUP.

All three end a program in the same way: :class:`Stopped` is raised wherever it is. During a run,
the first signal is deferred until the run reaches a point from which it can be resumed; a second
one is not deferred. Signals that the caller has ignored, as ``nohup`` does, stay ignored.
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
KILLED_BY = 128  # base of the exit codes of programs ended by a signal
ONE_STOP = 3.0  # seconds within which several signals count as one


class Stopped(KeyboardInterrupt):
    """A signal that ends the program.

    Parameters
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass
class _Stop:
    """The received signal, and the number of runs for which it is deferred.

    For processes in step with each other, a signal is ``noted`` at time ``since`` until all of them
    have agreed to stop.
    """

    number: int | None = None
    waits: int = 0
    in_step: int = 0
    noted: int | None = None
    since: float = 0.0


_STOP = _Stop()  # signals belong to the process


@contextmanager
def listening() -> Iterator[None]:
    """Raise :class:`Stopped` in the block when a signal arrives; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set signal handlers
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):  # None: not set by Python
                signal.signal(number, _take)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _STOP.number = _STOP.noted = None


def _take(number: int, _: FrameType | None) -> None:
    if _STOP.in_step:
        # Ctrl-C arrives from the terminal, and again from the launcher of the processes.
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
    """Leave Ctrl-C and the closing of the terminal to the process that started this one."""
    for number in SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def terminal_ignored() -> Iterator[None]:
    """Shield processes started in the block from the terminal's signals: this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set signal handlers
        return
    terminal = [number for number in SIGNALS if number != signal.SIGTERM]
    handlers = [signal.signal(number, signal.SIG_IGN) for number in terminal]
    try:
        yield
    finally:
        for number, handler in zip(terminal, handlers, strict=True):
            if handler is not None:  # None: not set by Python
                signal.signal(number, handler)


@contextmanager
def waiting() -> Iterator[None]:
    """Defer the first signal in the block; call :func:`check` where it may take effect."""
    _STOP.waits += 1
    try:
        yield
    finally:
        _STOP.waits -= 1


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Yield a function that stops the run in the block, from another thread, as SIGTERM does."""

    def stop() -> None:
        _STOP.number = signal.SIGTERM

    try:
        yield stop
    finally:
        _STOP.number = None


@contextmanager
def in_step() -> Iterator[None]:
    """Defer signals in the block until :func:`agree`, so that all processes stop at one point.

    A second signal is not deferred if it arrives seconds after the first.
    """
    _STOP.in_step += 1
    try:
        yield
    finally:
        _STOP.in_step -= 1
        if not _STOP.in_step and _STOP.noted is not None:
            _STOP.number, _STOP.noted = _STOP.number or _STOP.noted, None


def noted() -> int | None:
    """Return the signal received by this process, of which the others may not know."""
    return _STOP.noted


def agree() -> None:
    """Treat a signal received by any of the processes as received by this one."""
    _STOP.number = _STOP.number or _STOP.noted or signal.SIGTERM


def requested() -> bool:
    """Return whether a signal was received."""
    return _STOP.number is not None


def check() -> None:
    """Raise :class:`Stopped` if a deferred signal was received."""
    if _STOP.number is not None:
        raise Stopped(_STOP.number)


def exit_code(error: BaseException) -> int | None:
    """Return 128 plus the number of the signal that caused an error; None if there is none.

    A signal during an import may surface as another error.
    """
    number = error.number if isinstance(error, Stopped) else _STOP.number
    if number is None and isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    return None if number is None else KILLED_BY + number
