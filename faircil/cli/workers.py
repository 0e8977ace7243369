"""Options of commands whose work several processes or machines share, also those of torchrun."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from faircil.beginning import DASK, TABLES, begin_server
from faircil.cli.console import say
from faircil.errors import collecting

if TYPE_CHECKING:
    from faircil.engines import Engine


def add_worker_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare who shares the work on a table in parts."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of processes that divide a table of Parquet, Arrow or .npy files among them; "
        "it does not change the result (default: 1)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="divide the table among Dask workers instead: dask://HOST:PORT, or local:N for N "
        "workers on this machine",
    )


def add_scheduler_argument(group: argparse._ArgumentGroup) -> None:
    """Declare the cluster that makes runs."""
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on a Dask cluster instead, in folders that its workers share: "
        "dask://HOST:PORT, or local:N for N workers on this machine",
    )


def begin_early(arguments: argparse.Namespace, imports: Sequence[str] = TABLES) -> None:
    """Begin what processes of this machine will be copies of, if some are wanted.

    It imports what they need while this process still imports what the command needs.

    Parameters
    ----------
    arguments : Namespace
    imports : sequence of str
        See :func:`faircil.beginning.begin_server`.
    """
    from faircil.cluster import LOCAL

    mistakes: list[str] = []
    check_workers(arguments, mistakes)
    if mistakes:
        return  # told later, with all others
    if (arguments.scheduler or "").startswith(LOCAL):
        begin_server((*imports, *DASK))
    elif arguments.jobs > 1:
        begin_server(imports)


@contextmanager
def workers(arguments: argparse.Namespace) -> Iterator[Engine]:
    """Begin the workers that are wanted, those of torchrun among them, and end them."""
    from faircil.engines import engine_for
    from faircil.runs.together import team_engine

    team = team_engine()
    if team is not None:
        yield team
        return
    with engine_for(arguments.jobs, arguments.scheduler) as engine:
        yield engine


def check_workers(arguments: argparse.Namespace, mistakes: list[str]) -> None:
    """Append what is wrong with the options, before anything is begun."""
    from faircil.engines import check_engine

    with collecting(mistakes):
        check_engine(arguments.jobs, arguments.scheduler)


ALONE = "in the first of {size} processes alone: {why}"


def shared(arguments: argparse.Namespace, mistakes: list[str]) -> list[str]:
    """Return the settings of a command, with as many shards as there are processes.

    A number of shards that the user gives stays. A method that cannot divide its steps gets none,
    and a line says that one process runs it.

    Parameters
    ----------
    arguments : Namespace
        With ``set`` and ``method``, and perhaps ``jobs``, ``device`` and ``quiet``.
    mistakes : list of str
        What does not go together is added here.
    """
    from faircil.learners import ALIASES, LEARNERS
    from faircil.runs.settings import in_effect
    from faircil.runs.together import team_size
    from faircil.tuning.auto import AUTO, protects

    given: list[str] = arguments.set
    size = team_size()
    if size == 1:
        return given
    if getattr(arguments, "jobs", 1) > 1:
        mistakes.append(
            f"--jobs is {arguments.jobs}, and {size} processes were started to make each run "
            "together; leave it out, or start one process"
        )
    device = getattr(arguments, "device", "auto")
    if device.startswith("cuda:"):
        mistakes.append(
            f"--device is {device}, and each of the {size} processes has a GPU of its own; use "
            "--device cuda"
        )
    if any(text.partition("=")[0] == "shards" for text in given):
        return given
    by_target = getattr(arguments, "target", None) is not None
    method = arguments.method or ("moments" if by_target else AUTO)
    if method == AUTO and protects(given):
        method = "moments"
    method = ALIASES.get(method, (method,))[0]
    wish = f"shards={size}"
    undivided = [text for text in given if text.startswith(("gradient=all", "granularity=cluster"))]
    why = None
    if method in LEARNERS and wish not in in_effect([wish], method):
        why = f"method '{method}' cannot be divided"
    elif undivided:
        why = f"{undivided[0]} cannot be divided"
    if why is None:
        return [*given, wish]
    if not arguments.quiet:
        say(f"note: it runs {ALONE.format(size=size, why=why)}")
    return given
