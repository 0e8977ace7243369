"""Processes that begin in a moment: copies of one that has imported everything already.

A new process needs five seconds to import torch. Where the system cannot copy processes (Windows),
these do too.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest

from cli_outcome import Outcome
from faircil.cli import main
from faircil.sweep import processes

CONTEXT: BaseContext = get_context("spawn")
if "forkserver" in get_all_start_methods():
    CONTEXT = get_context("forkserver")
    # What a run imports, and what torch imports with the first optimizer.
    CONTEXT.set_forkserver_preload(
        [
            "faircil.cli.run_seeds",
            "faircil.cli.run",
            "faircil.learners.moments",
            "faircil.model.table_models",
            "faircil.report.plots",
            "highspy",
            "torch._dynamo",
        ]
    )
Prepare = Callable[[], None]
LONGEST = 300  # seconds of a command, on a busy machine


def _stop_with_the_first_run(number: int, context: BaseContext) -> None:
    """Send a signal to a command with several processes once it has told of a finished run."""
    hear = processes.hear

    def heard(*said: Any) -> None:
        hear(*said)
        os.kill(os.getpid(), number)

    processes.hear = heard  # type: ignore[assignment]
    processes.get_context = lambda _: context  # type: ignore[attr-defined, assignment]


def die_with_the_first_run() -> None:
    """Let a command with several processes die as soon as it has told of a finished run."""
    # Copies of the command would hold its pipes, and not notice that it is gone.
    _stop_with_the_first_run(signal.SIGKILL, CONTEXT)


def interrupt_with_the_first_run() -> None:
    """Send Ctrl-C to a command with several processes, as soon as it has told of a run."""
    _stop_with_the_first_run(signal.SIGINT, get_context("fork"))


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of sweeps in a moment."""
    monkeypatch.setattr(processes, "get_context", lambda _: CONTEXT)


class Command:
    """A command line in a process of its own, with a folder as the current one.

    Parameters
    ----------
    folder : Path
    *words : str
    prepare : callable
        Called in the process before the command.
    """

    def __init__(self, folder: Path, *words: str, prepare: Prepare | None = None) -> None:
        self._printed = Path(tempfile.mkdtemp(prefix="printed-", dir=folder))
        arguments = (folder, self._printed, words, prepare)
        self._process = CONTEXT.Process(target=_run, args=arguments)  # type: ignore[attr-defined]
        self._process.start()

    def send(self, number: int) -> None:
        """Send a signal to it, if it is still there."""
        if not self.has_ended:
            os.kill(self._process.pid, number)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.exitcode is not None

    def has_said(self, text: str) -> bool:
        """Wait until it has printed a text; False if it has ended without."""
        file = self._printed / "err"
        while True:
            ended = self.has_ended
            if file.exists() and text in file.read_text("utf-8"):
                return True
            if ended:
                return False
            time.sleep(0.005)

    def end(self) -> Outcome:
        """Wait until it has ended."""
        self._process.join(LONGEST)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            pytest.fail(f"a command has not ended within {LONGEST} seconds")
        out, err = ((self._printed / name).read_text("utf-8") for name in ("out", "err"))
        return Outcome(self._process.exitcode, out, err)


def _run(folder: Path, printed: Path, words: tuple[str, ...], prepare: Prepare | None) -> None:
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        file = os.open(printed / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream.fileno())
    # The process that this one is a copy of may have been started while these were ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(folder)
    if prepare is not None:
        prepare()
    sys.exit(main(list(words)))
