"""Processes that start quickly: forks of a process that has already imported everything.

A new process needs five seconds to import torch. Systems that cannot fork processes (Windows) need
as long here.
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
    # The imports of a run, and those of torch with the first optimizer.
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
LONGEST = 300  # seconds for a command on a busy machine


def _stop_with_the_first_run(number: int, context: BaseContext) -> None:
    """Send a signal to a command with several processes when it has reported a finished run."""
    hear = processes.hear

    def heard(*said: Any) -> None:
        hear(*said)
        os.kill(os.getpid(), number)

    processes.hear = heard  # type: ignore[assignment]
    processes.get_context = lambda _: context  # type: ignore[attr-defined, assignment]


def die_with_the_first_run() -> None:
    """Make a command with several processes die when it has reported a finished run."""
    # Forks of the command would hold its pipes, and not notice that it is gone.
    _stop_with_the_first_run(signal.SIGKILL, CONTEXT)


def interrupt_with_the_first_run() -> None:
    """Send Ctrl-C to a command with several processes when it has reported a run."""
    _stop_with_the_first_run(signal.SIGINT, get_context("fork"))


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the processes of sweeps start quickly."""
    monkeypatch.setattr(processes, "get_context", lambda _: CONTEXT)


class Command:
    """A command line in a separate process, with a given current folder.

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
        """Send a signal to the process, if it is still running."""
        if not self.has_ended:
            os.kill(self._process.pid, number)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.exitcode is not None

    def has_said(self, text: str) -> bool:
        """Wait until a text was printed; return False if the process ended without it."""
        file = self._printed / "err"
        while True:
            ended = self.has_ended
            if file.exists() and text in file.read_text("utf-8"):
                return True
            if ended:
                return False
            time.sleep(0.005)

    def end(self) -> Outcome:
        """Wait until the process has ended."""
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
    # The parent process may have been started while these signals were ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(folder)
    if prepare is not None:
        prepare()
    sys.exit(main(list(words)))
