"""Options of a user's own data, for all commands that take a table or images."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.errors import UsageError, collecting

if TYPE_CHECKING:
    from faircil.data.own import OwnData


def add_gap_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add what becomes of rows without a class or a sensitive attribute."""
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
    """Declare the options of a user's table; absent options are None.

    ``share`` is the option for the share of test rows. If it has a name of its own, it has no
    default, and without tasks there is one.
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
        f"{'two classes per task in sorted order' if of_run else 'all classes at once'})",
    )
    parser.add_argument(
        "--classes-per-task",
        type=int,
        metavar="N",
        help="without --tasks: classes of each task, in sorted order" + " (default: 2)" * of_run,
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


def add_favoured_argument(parser: argparse._ArgumentGroup) -> None:
    """Declare the option that names the favoured classes."""
    parser.add_argument(
        "--favoured",
        nargs="+",
        default=[],
        metavar="CLASS",
        help="for --measure eopp: classes whose outcome people want, as named in the data",
    )


def own_data(arguments: argparse.Namespace, mistakes: list[str]) -> OwnData | None:
    """Read the options; None without data. Append errors to ``mistakes``."""
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
    """Read tasks from a file, one on each line; empty lines do not count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--tasks @{path}: the file cannot be read ({error})") from None
    return "\n".join(line for line in lines if line.strip()) + "\n"
