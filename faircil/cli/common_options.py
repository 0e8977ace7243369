"""Options shared by several commands: names, seeds, the user's own data, workers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.beginning import DASK, TABLES, begin_server, import_early
from faircil.cli.console import say
from faircil.errors import UsageError, collecting

if TYPE_CHECKING:
    from faircil.data.own import OwnData
    from faircil.engines import Engine

MOST_SEEDS = 1000  # more is probably a typing error
ALONE = "in the first of {size} processes alone: {why}"


def names_of(kind: str) -> str:
    """List the names of a kind in :data:`faircil.registry.KINDS`, for a help text."""
    from faircil.registry import registry_of

    names = [*registry_of(kind)]
    if kind == "learner":
        from faircil.learners import ALIASES

        names += ALIASES
    return ", ".join(names).replace("%", "%%")  # argparse interpolates %


def parse_seeds(text: str) -> list[int]:
    """Parse ``0-4``, ``3`` or ``0,2,5-7`` into sorted, distinct seeds.

    Examples
    --------
    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
        if match is None:
            raise UsageError(f"--seeds '{text}' cannot be read; write 3, 0-4 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"--seeds '{text}' counts down; write {last}-{first}")
        if last - first >= MOST_SEEDS:
            raise UsageError(
                f"--seeds '{text}' are {last - first + 1:,} seeds, more than {MOST_SEEDS:,}; "
                "write fewer"
            )
        seeds.update(range(first, last + 1))
    return sorted(seeds)


def add_gap_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare how rows without a class or a sensitive attribute are handled."""
    parser.add_argument(
        "--drop-missing",
        action="store_true",
        default=None,
        help="leave out rows without a class or a sensitive attribute (default: an error)",
    )
    parser.add_argument(
        "--unknown-group",
        action="store_true",
        default=None,
        help="keep rows without a sensitive attribute, as people of an unknown group",
    )


def add_own_arguments(parser: argparse._ArgumentGroup, share: str = "--test-share") -> None:
    """Declare the options of a user's table; missing options are None.

    ``share`` is the option for the fraction of test rows. For a name other than ``--test-share``,
    the option has no default, and by default all classes form one task.
    """
    of_run = share == "--test-share"
    parser.add_argument(
        "--data",
        metavar="FILE|FOLDER",
        help="a .csv, .tsv, .npz, .parquet, .arrow or .feather file, or a folder of Parquet, Arrow "
        "or .npy files",
    )
    parser.add_argument("--label", metavar="COLUMN", help="column of the class")
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of texts, which are then the only input (default: all columns without a role "
        "are features)",
    )
    parser.add_argument(
        "--images",
        metavar="COLUMN|FOLDER",
        help="column of paths of image files, which are then the only input; or without --data, a "
        "folder that has a folder of images for each class",
    )
    parser.add_argument("--sensitive", nargs="+", metavar="COLUMN", help="sensitive attributes")
    parser.add_argument(
        "--tasks",
        metavar="CLASSES",
        help="'a,b|c,d', or @FILE with a task on each line (default: "
        + ("two classes per task in sorted order" if of_run else "all classes together")
        + ")",
    )
    parser.add_argument(
        "--classes-per-task",
        type=int,
        metavar="N",
        help="without --tasks: number of classes per task, in sorted order"
        + " (default: 2)" * of_run,
    )
    parser.add_argument(
        "--ignore",
        nargs="+",
        metavar="COLUMN",
        help="columns to leave out, such as an id",
    )
    add_gap_arguments(parser)
    parser.add_argument(
        "--use-sensitive",
        action="store_true",
        default=None,
        help="also use the sensitive columns as features",
    )
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test-column", metavar="COLUMN", help="column that marks the test rows")
    test.add_argument(
        share,
        dest="test_share",
        type=float,
        metavar="SHARE",
        help=f"without --test-column: share of each group (default: {'0.3' if of_run else 'none'})",
    )


def add_measure_arguments(parser: argparse._ArgumentGroup) -> None:
    """Declare the fairness measure, and the classes that it favours."""
    parser.add_argument(
        "--measure",
        metavar="NAME",
        help=f"fairness measure: {names_of('measure')} (default: eo with an attribute, else eer)",
    )
    add_favoured_argument(parser)


def add_favoured_argument(parser: argparse._ArgumentGroup) -> None:
    """Declare the option for the favoured classes."""
    parser.add_argument(
        "--favoured",
        nargs="+",
        default=[],
        metavar="CLASS",
        help="for --measure eopp: classes whose outcome people want, as named in the data",
    )


def own_data(arguments: argparse.Namespace, mistakes: list[str]) -> OwnData | None:
    """Read the options; return None without data. Append errors to ``mistakes``."""
    from faircil.data.own import OwnData

    roles = (
        *("label", "text", "sensitive", "tasks", "use_sensitive", "test_column", "test_share"),
        *("classes_per_task", "drop_missing", "unknown_group", "images", "ignore"),
    )
    given = {name: getattr(arguments, name) for name in roles}
    if given["ignore"] is not None:
        given["ignore"] = tuple(given["ignore"])
    if (given["tasks"] or "").startswith("@"):
        with collecting(mistakes):
            given["tasks"] = _lines_of(Path(given["tasks"][1:]))
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.data is None and "images" in given:
        folder = given.pop("images")
        if not Path(folder).is_dir():
            mistakes.append(
                f"--images is {folder}, and there is no such folder; give one with a folder of "
                "images for each class, or with --data FILE the column of their paths"
            )
            folder = ""  # nothing is read from it
        given["sensitive"] = tuple(given.get("sensitive", ()))
        return replace(OwnData.of_folder(folder), **given)
    if arguments.data is None:
        if given:
            flags = ", ".join(f"`{name}`" for name in given)
            mistakes.append(f"{flags}: for your own data, given with --data FILE")
        return None
    if "label" not in given:
        mistakes.append("--data needs --label COLUMN, the column that holds the class")
    return OwnData(
        **{"label": "", **given, "sensitive": tuple(given.get("sensitive", ()))},
        path=arguments.data,
    )


def _lines_of(path: Path) -> str:
    """Read tasks from a file, one per line; empty lines are ignored."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--tasks @{path}: the file cannot be read ({error})") from None
    return "\n".join(line for line in lines if line.strip()) + "\n"


def add_worker_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare the workers that share a table in parts."""
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
    """Declare the cluster that executes runs."""
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on a Dask cluster instead, in folders that its workers share: "
        "dask://HOST:PORT, or local:N for N workers on this machine",
    )


def begin_early(arguments: argparse.Namespace, imports: Sequence[str] = TABLES) -> None:
    """Import what a command needs, in parallel with the server of workers, if any are requested.

    Parameters
    ----------
    arguments : Namespace
    imports : sequence of str
        Modules that this process and its workers need, see
        :func:`faircil.beginning.begin_server`.
    """
    from faircil.cluster import LOCAL

    mistakes: list[str] = []
    check_workers(arguments, mistakes)
    if mistakes:
        return  # reported later, with all others
    if (arguments.scheduler or "").startswith(LOCAL):
        begin_server((*imports, *DASK))
    elif arguments.jobs > 1:
        begin_server(imports)
    import_early(imports)


@contextmanager
def workers(arguments: argparse.Namespace) -> Iterator[Engine]:
    """Start and end the requested workers; under torchrun, use its processes instead."""
    from faircil.engines import engine_for
    from faircil.runs.together import team_engine

    team = team_engine()
    if team is not None:
        yield team
        return
    with engine_for(arguments.jobs, arguments.scheduler) as engine:
        yield engine


def check_workers(arguments: argparse.Namespace, mistakes: list[str]) -> None:
    """Append mistakes in the options, before anything is started."""
    from faircil.engines import check_engine

    with collecting(mistakes):
        check_engine(arguments.jobs, arguments.scheduler)


def sharded_settings(arguments: argparse.Namespace, mistakes: list[str]) -> list[str]:
    """Return the settings of a command, with as many shards as there are processes.

    A number of shards given by the user is kept. A method that cannot divide its steps gets none,
    and a message says that a single process runs it.

    Parameters
    ----------
    arguments : Namespace
        With ``set`` and ``method``, and optionally ``jobs``, ``device`` and ``quiet``.
    mistakes : list of str
        Receives contradictions.
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
            f"--jobs is {arguments.jobs}, and {size} processes were started to share each run; "
            "leave it out, or start one process"
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
