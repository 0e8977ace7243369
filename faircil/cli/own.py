"""The options of ``faircil run`` for a user's own data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faircil.data.own import OwnData


def add_own_arguments(parser: argparse._ArgumentGroup) -> None:
    """Declare the options; those that are not given are None."""
    parser.add_argument("--data", metavar="FILE", help="a .csv, .tsv, .npz or .parquet file")
    parser.add_argument("--label", metavar="COLUMN", help="column of the class")
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of texts, for an encoder; they are then the only input (default: all columns "
        "without a role are features)",
    )
    parser.add_argument("--sensitive", nargs="+", metavar="COLUMN", help="sensitive attributes")
    parser.add_argument(
        "--tasks", metavar="CLASSES", help="'a,b|c,d' (default: two per task in sorted order)"
    )
    parser.add_argument(
        "--use-sensitive",
        action="store_true",
        default=None,
        help="use the sensitive columns as features too",
    )
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test-column", metavar="COLUMN", help="column that marks the test rows")
    test.add_argument(
        "--test-share", type=float, metavar="SHARE", help="else drawn by group (default: 0.3)"
    )


def own_data(arguments: argparse.Namespace, mistakes: list[str]) -> OwnData | None:
    """Read the options; None without ``--data``. Adds to ``mistakes`` what does not fit."""
    from faircil.data.own import OwnData

    roles = ("label", "text", "sensitive", "tasks", "use_sensitive", "test_column", "test_share")
    given = {name: getattr(arguments, name) for name in roles}
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.data is None:
        if given:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            mistakes.append(f"{flags}: for your own data, given with --data FILE")
        return None
    if "label" not in given:
        mistakes.append("--data needs --label COLUMN, the column that holds the class")
    return OwnData(
        **{"label": "", **given, "sensitive": tuple(given.get("sensitive", ()))},
        path=arguments.data,
    )
