"""Work for other processes: what is sent to them, how it is carried out, and how they answer.

Work, registered pieces and results are sent as pickles over pipes and sockets between processes
that trust each other; pickles are never written to a file.
"""

from __future__ import annotations

import os
import pickle  # over pipes and sockets to our own processes, never a file  # nosec B403
import platform
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from faircil import __version__
from faircil.errors import FaircilError, UsageError
from faircil.registry import added_pieces, register

Sent = Mapping[tuple[str, str], bytes]  # registered pieces by kind and name, pickled
UNPICKLED = (pickle.PicklingError, AttributeError, TypeError)  # raised for unpicklable objects
PACKAGES = ("torch", "numpy", "pandas")  # packages whose versions can affect results
AHEAD = 2  # tasks in progress per worker: results wait in memory until it is their turn


def pack_pieces(
    rows: Mapping[tuple[str, str], object],
) -> tuple[Sent, dict[tuple[str, str], str]]:
    """Return registered pieces for processes that start without them, and why others are not sent.

    A pickle refers to a function or class by its module, which the other process imports.

    Parameters
    ----------
    rows : mapping
        Returned by :func:`faircil.registry.added_pieces`.
    """
    sent: dict[tuple[str, str], bytes] = {}
    unsent: dict[tuple[str, str], str] = {}
    for (kind, name), row in rows.items():
        try:
            content = pickle.dumps(row)
        except UNPICKLED:
            unsent[kind, name] = _unsent(kind, name, "is defined inside a function")
            continue
        if b"__main__" in content and not _has_file(sys.modules["__main__"]):
            unsent[kind, name] = _unsent(
                kind, name, "is defined in a notebook or an interactive session"
            )
        else:
            sent[kind, name] = content
    return sent, unsent


def _has_file(module: ModuleType) -> bool:
    """Return whether a new process can import the script that this process runs."""
    return getattr(module, "__file__", None) is not None or module.__spec__ is not None


def _unsent(kind: str, name: str, why: str) -> str:
    return (
        f"{kind} '{name}' {why}, where other processes cannot find it; define it in a module, or "
        "in a package with an entry point, or use `jobs=1`"
    )


def receive_pieces(sent: Sent) -> str | None:
    """Register received pieces; return a message if one cannot be found, else None."""
    for (kind, name), pickled in sent.items():
        try:
            register(kind, name, pickle.loads(pickled))  # from our parent process  # nosec B301
        except Exception as error:  # importing a user's module may raise anything
            return f"{_unsent(kind, name, 'cannot be imported')} ({type(error).__name__}: {error})"
    return None


@cache
def own_versions() -> dict[str, str]:
    """Return the versions that can affect results; Python's without its micro version."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2]), "faircil": __version__}
    return found | {name: version(name) for name in PACKAGES}


def one_thread_each() -> None:
    """Use one thread for the rest of this process, since other workers use the other cores.

    The number is set permanently: tasks may run in parallel threads of a worker, and a task that
    sets and restores a number would affect the others.
    """
    # Libraries read this when they are loaded, possibly later or never: torch takes seconds.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if "numpy" in sys.modules:
        threadpool_limits(1, user_api="blas")


@dataclass(frozen=True)
class Order:
    """Work for another process.

    Parameters
    ----------
    work : bytes
        The pickled function.
    pieces : mapping
        Registered pieces that the process needs; see :func:`pack_pieces`.
    unsent : dict
        Why other pieces are not sent, in case the work requests them.
    versions : dict
        Versions of the sending process.
    """

    work: bytes
    pieces: Sent = field(default_factory=dict)
    unsent: Mapping[tuple[str, str], str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=own_versions)


def order_of(work: Callable[[Any], Any]) -> Order:
    """Return the order for some work, which other processes can carry out.

    Raises
    ------
    UsageError
        If the work cannot be sent.
    """
    return Order(packed(work), *pack_pieces(added_pieces()))


def packed(content: object) -> bytes:
    """Return an object in its serialised form.

    Plain pickles are used: those of torch would share memory, which is lost with its process.
    """
    try:
        return pickle.dumps(content)
    except UNPICKLED as error:
        raise UsageError(
            f"{content!r:.200} cannot be sent to another process ({error}); define it in a module, "
            "not inside a function, or use `jobs=1`"
        ) from None


@dataclass(frozen=True)
class Failed:
    """An error that a process returns in place of a result."""

    error: Exception


def carry_out(order: Order, task: bytes) -> bytes:
    """Carry out work for the process that sent it; errors are returned as answers."""
    here = own_versions()
    try:
        if here != order.versions:
            raise FaircilError(
                f"{platform.node()} has {described(here, order.versions)}; results would differ: "
                "install the same versions"
            )
        if (problem := receive_pieces(order.pieces)) is not None:
            raise FaircilError(problem)
        work = pickle.loads(order.work)  # from our own process  # nosec B301
        return packed(work(pickle.loads(task)))  # from our own process  # nosec B301
    except FaircilError as error:
        asked = [why for (_, name), why in order.unsent.items() if f"'{name}'" in str(error)]
        error.args += tuple(why for why in asked if why not in error.args)
        return pickle.dumps(Failed(error))
    except Exception as error:  # a defect: it keeps its type, and a note has its traceback
        error.add_note(f"in another process:\n{traceback.format_exc()}")
        try:
            sent = pickle.dumps(Failed(error))
            pickle.loads(sent)  # the bytes just created  # nosec B301
        except Exception:  # not every error can be unpickled
            return pickle.dumps(Failed(RuntimeError(traceback.format_exc())))
        return sent


def described(found: Mapping[str, str | None], wanted: Mapping[str, str]) -> str:
    """Describe which versions differ from the wanted ones.

    Examples
    --------
    >>> described({"torch": "2.8.0", "numpy": None}, {"torch": "2.9.0", "numpy": "2.3.0"})
    'torch 2.8.0 instead of 2.9.0, no numpy instead of 2.3.0'
    """
    return ", ".join(
        f"{f'{name} {there}' if (there := found.get(name)) else f'no {name}'} instead of {own}"
        for name, own in wanted.items()
        if found.get(name) != own
    )


def unpacked(answer: bytes) -> Any:
    """Return the result that a process has sent, or raise its error."""
    found = pickle.loads(answer)  # from our own process  # nosec B301
    if isinstance(found, Failed):
        raise found.error
    return found
