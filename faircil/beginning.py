"""How worker processes start: as forks of a server that has already imported what they need.

A new Python process needs seconds to import torch and pandas. On Linux, a *server* with no other
purpose imports them once, while this process does so itself; workers are forked from the server. It
has no threads that compute or hold locks, uses no GPU and is not a fork of this process, so the
usual problems of forking do not apply. On other systems, where system libraries do not survive a
fork, each worker imports for itself.
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

# Before 3.11.1, other users of the machine could access a server (CVE-2022-42919).
HAS_SERVER = sys.platform == "linux" and sys.version_info >= (3, 11, 1)
ONE_THREAD = "faircil.one_thread"
TABLES = ("faircil.model.in_parts", "faircil.learners.moments", "pyarrow.parquet")
COUNTS = ("faircil.auditing.reading", "pyarrow.parquet")  # for audits, which need no torch
DASK = ("distributed",)
SAFE_PATH = "PYTHONSAFEPATH"


def begin_server(imports: Sequence[str] = TABLES) -> bool:
    """Start the server from which workers are forked, unless it is running already.

    Call it early: the server imports while this process does something else. It ends with this
    process.

    Parameters
    ----------
    imports : sequence of str
        Modules that workers need, if the server is not running; missing ones are skipped.

    Returns
    -------
    bool
        Whether the server is running.
    """
    if not HAS_SERVER:
        return False
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([ONE_THREAD, *imports])
    with _safe_path(), terminal_ignored():
        try:
            forkserver.ensure_running()
        except OSError:  # such as a temporary folder whose name is too long for a socket
            return False
    return True


def import_early(names: Sequence[str]) -> None:
    """Import modules that a command will need; missing ones are skipped.

    Garbage collection is off meanwhile: modules stay, and it takes a fifth of the time.
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
    """Return how workers start: as forks of the server, or separately if there is none.

    Parameters
    ----------
    imports : sequence of str
        Modules that they need, if the server is not running.
    """
    return get_context("forkserver" if begin_server(imports) else "spawn")


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes that start in the block from importing from the current folder."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
