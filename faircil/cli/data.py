"""``faircil data``: get dataset files and check them."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import say, show_columns
from faircil.errors import DataError, UsageError, unknown_name

HELP = "list, fetch and check dataset files"
EPILOG = """examples:
  faircil data list
  faircil data fetch mnist
  faircil data fetch mnist --from ~/Downloads
  faircil data check

Files live in FAIRCIL_DATA, or else in the user's cache folder.
"""
ACTIONS = ("list", "fetch", "check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("action", choices=ACTIONS, metavar="action", help=", ".join(ACTIONS))
    parser.add_argument("names", nargs="*", metavar="NAME", help="datasets (default: all)")
    parser.add_argument("--from", dest="local", type=Path, metavar="DIR", help="a local folder")
    parser.add_argument("--force", action="store_true", help="fetch again")


def command(arguments: argparse.Namespace) -> None:
    """List, fetch or check."""
    from faircil.data.sources import SOURCES

    sources = _sources(arguments.names) or list(SOURCES)
    if arguments.action == "list":
        _list()
    elif arguments.action == "check":
        _check(sources)
    elif not arguments.names:
        raise UsageError(f"say what to fetch: faircil data fetch {' '.join(SOURCES)}")
    else:
        from faircil.data.fetch import fetch

        for source in sources:
            folder = fetch(source, local=arguments.local, force=arguments.force, report=say)
            say(f"{source} is in {folder}")


def _sources(names: list[str]) -> list[str]:
    """Turn names of datasets or sources into sources, each once."""
    from faircil.data.datasets import DATASETS
    from faircil.data.sources import SOURCES

    known = {name: row.source for name, row in DATASETS.items()} | {name: name for name in SOURCES}
    for name in names:
        if name not in known:
            raise UsageError(unknown_name("dataset", name, known))
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
    from faircil.data.sources import check_source

    statuses = [status for source in sources for status in check_source(source)]
    show_columns(
        "files",
        ("file", "state", "what to do"),
        [(str(s.path), s.state, s.message) for s in statuses],
    )
    bad = [status for status in statuses if status.state != "ok"]
    if bad:
        raise DataError(f"{len(bad)} of {len(statuses)} files are missing or damaged")
