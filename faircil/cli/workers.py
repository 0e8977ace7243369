"""Options of commands whose work several processes or machines can share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from faircil.beginning import DASK, TABLES, begin_server
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
