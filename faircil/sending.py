"""Work for other processes: what is sent to them, how they do it, and how they answer.

Work, registered pieces and results travel as pickles over pipes and sockets between processes that
trust each other; none is ever written to a file.
"""

from __future__ import annotations

import os
import pickle  # over pipes and sockets to processes of our own, never a file  # nosec B403
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
UNPICKLED = (pickle.PicklingError, AttributeError, TypeError)  # what cannot be sent raises these
PACKAGES = ("torch", "numpy", "pandas")  # whose versions can change a result
AHEAD = 2  # tasks that are begun for each worker: results wait for their turn in memory


def pack_pieces(
    rows: Mapping[tuple[str, str], object],
) -> tuple[Sent, dict[tuple[str, str], str]]:
    """Return registered pieces for processes that begin without them, and why others are not sent.

    A pickle names a function or class by its module, from which the other process imports it.

    Parameters
    ----------
    rows : mapping
        As :func:`faircil.registry.added_pieces` returns them.
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
    """Tell whether a process that is started can import the script that this one runs."""
    return getattr(module, "__file__", None) is not None or module.__spec__ is not None


def _unsent(kind: str, name: str, why: str) -> str:
    return (
        f"{kind} '{name}' {why}, where other processes cannot find it; define it in a module, or "
        "in a package with an entry point, or use `jobs=1`"
    )


def receive_pieces(sent: Sent) -> str | None:
    """Register what was sent; say what cannot be found, if something cannot."""
    for (kind, name), pickled in sent.items():
        try:
            register(kind, name, pickle.loads(pickled))  # from our parent process  # nosec B301
        except Exception as error:  # whatever the import of a user's module raises
            return f"{_unsent(kind, name, 'cannot be imported')} ({type(error).__name__}: {error})"
    return None


@cache
def own_versions() -> dict[str, str]:
    """Return the versions of what can change a result, Python's without its last number."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2]), "faircil": __version__}
    return found | {name: version(name) for name in PACKAGES}


def one_thread_each() -> None:
    """Use one thread for the rest of this process: other workers use the other cores.

    It is set for good, since tasks may run side by side in threads of a worker: a number that one
    of them sets and restores would change under the others.
    """
    # Libraries read this when they are loaded, which may be later or never: torch takes seconds.
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
        The function, pickled.
    pieces : mapping
        Registered pieces that the process needs, see :func:`pack_pieces`.
    unsent : dict
        Why others are not sent, in case that the work asks for them.
    versions : dict
        Of the process that gives it.
    """

    work: bytes
    pieces: Sent = field(default_factory=dict)
    unsent: Mapping[tuple[str, str], str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=own_versions)


def order_of(work: Callable[[Any], Any]) -> Order:
    """Return what other processes need for some work.

    Raises
    ------
    UsageError
        If it cannot be sent.
    """
    return Order(packed(work), *pack_pieces(added_pieces()))


def packed(content: object) -> bytes:
    """Return what is sent.

    Plain pickles: those of torch would share memory, which is gone with the process.
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
    """An error as the answer of a process, in place of a result."""

    error: Exception


def carry_out(order: Order, task: bytes) -> bytes:
    """Do work for the process that sent it; an error is an answer, too."""
    here = own_versions()
    try:
        if here != order.versions:
            raise FaircilError(
                f"{platform.node()} has {described(here, order.versions)}; results would differ: "
                "install the same versions"
            )
        if (problem := receive_pieces(order.pieces)) is not None:
            raise FaircilError(problem)
        work = pickle.loads(order.work)  # of our own process  # nosec B301
        return packed(work(pickle.loads(task)))  # as before  # nosec B301
    except FaircilError as error:
        asked = [why for (_, name), why in order.unsent.items() if f"'{name}'" in str(error)]
        error.args += tuple(why for why in asked if why not in error.args)
        return pickle.dumps(Failed(error))
    except Exception as error:  # a defect: it keeps its type, and a note has its traceback
        error.add_note(f"in another process:\n{traceback.format_exc()}")
        try:
            sent = pickle.dumps(Failed(error))
            pickle.loads(sent)  # what we have just made  # nosec B301
        except Exception:  # not every error survives that
            return pickle.dumps(Failed(RuntimeError(traceback.format_exc())))
        return sent


def described(found: Mapping[str, str | None], wanted: Mapping[str, str]) -> str:
    """Say which versions differ from the wanted ones.

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
    found = pickle.loads(answer)  # of our own process  # nosec B301
    if isinstance(found, Failed):
        raise found.error
    return found
