"""How processes of this machine begin: as copies of one that has imported what they need.

A new Python needs seconds to import torch and pandas. On Linux a *server*, which does nothing else,
imports them once, while this process does so itself; workers are copies of it. It has no threads
that compute or hold locks, touches no GPU and is no copy of this process, so what makes copies of a
process unsafe does not apply to it. Elsewhere, where system libraries do not survive a copy, every
worker imports for itself.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.context import BaseContext

from faircil.stopping import terminal_ignored

# Before 3.11.1 other users of the machine could talk to a server (CVE-2022-42919).
HAS_SERVER = sys.platform == "linux" and sys.version_info >= (3, 11, 1)
ONE_THREAD = "faircil.one_thread"
TABLES = ("faircil.model.in_parts", "faircil.learners.moments", "pyarrow.parquet")
COUNTS = ("faircil.auditing.reading", "pyarrow.parquet")  # of audits, which need no torch
DASK = ("distributed",)
SAFE_PATH = "PYTHONSAFEPATH"


def begin_server(imports: Sequence[str] = TABLES) -> bool:
    """Begin the process that workers will be copies of, if there is none yet.

    The sooner the better: it imports while this process does something else. It ends with this
    process.

    Parameters
    ----------
    imports : sequence of str
        Modules that workers need, if there is none yet; one that is absent is left out.

    Returns
    -------
    bool
        Whether there is one.
    """
    if not HAS_SERVER:
        return False
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([ONE_THREAD, *imports])
    with _safe_path(), terminal_ignored():
        try:
            forkserver.ensure_running()
        except OSError:  # such as a folder for temporary files with too long a name for a socket
            return False
    return True


def import_early(names: Sequence[str]) -> None:
    """Import modules that a command needs soon; one that is absent is left out.

    No cycles are looked for meanwhile: modules stay, and looking takes a fifth of the time.
    """
    looking = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            with suppress(ImportError):
                import_module(name)
    finally:
        if looking:
            gc.enable()


def worker_context(imports: Sequence[str] = TABLES) -> BaseContext:
    """Return how workers begin: as copies of the server, or each for itself where there is none.

    Parameters
    ----------
    imports : sequence of str
        Modules that they need, if the server is not there yet.
    """
    return get_context("forkserver" if begin_server(imports) else "spawn")


@contextmanager
def _safe_path() -> Iterator[None]:
    """Let a process that begins in the block import nothing from the current folder."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
