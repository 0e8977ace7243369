"""``faircil reproduce``: tables and figures of the paper, the published values next to ours."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.common_options import parse_seeds
from faircil.cli.console import say, show_columns
from faircil.cli.sweeping import add_sweep_arguments, finish_shown, sweep_options
from faircil.errors import collecting, raise_all

if TYPE_CHECKING:
    from faircil_lab.paper.exhibit import Page

EPILOG = """examples:
  faircil reproduce --list
  faircil reproduce table1 --jobs 4
  faircil reproduce eo dp --settings shipped --seeds 0-2 -o mine
  faircil reproduce all --only-finished

Where a table compares methods, settings are chosen on a held-out part of the training data, never
on test data. Finished runs are reused, and an interrupted command continues where it stopped. If
the files of a dataset are missing, a message says so and its lines stay empty. Text encoders are
trained only with --gpu-jobs.
"""
FOLDER = Path("docs") / "reproduction"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("what to reproduce")
    what.add_argument(
        "names", nargs="*", metavar="NAME", help="tables and figures (see --list), or all"
    )
    what.add_argument("--list", action="store_true", help="name all tables and figures")
    what.add_argument(
        "--settings",
        choices=("shipped", "tuned"),
        metavar="KIND",
        help="tuned, chosen here on validation data; or shipped (default: depends on the page)",
    )
    what.add_argument(
        "--seeds", metavar="LIST", help="3, 0-4 or 0,2,5 (default: depends on the page, mostly 0-4)"
    )
    what.add_argument(
        "--only-finished",
        action="store_true",
        help="run nothing, show the results of finished runs",
    )
    what.add_argument(
        *("-o", "--out"),
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help=f"folder of the pages (default: {FOLDER})",
    )
    add_sweep_arguments(parser)


def command(arguments: argparse.Namespace) -> None:
    """Make the pages, and print their tables."""
    from faircil_lab.paper.exhibits import EXHIBITS

    if arguments.list:
        rows = [(name, exhibit.title, exhibit.paper) for name, exhibit in EXHIBITS.items()]
        show_columns("Tables and figures", ("name", "what", "in the paper"), rows)
        return
    from faircil_lab.paper.exhibits import ALL, Changes, chosen_exhibits, reproduce

    mistakes: list[str] = []
    if not arguments.names:
        mistakes.append("nothing to reproduce: give names (see --list), or all")
    seeds: tuple[int, ...] | None = None
    if arguments.seeds is not None:
        with collecting(mistakes):
            seeds = tuple(parse_seeds(arguments.seeds))
    options = sweep_options(arguments, mistakes, run_missing=not arguments.only_finished)
    changes = Changes(seeds, arguments.settings)
    with collecting(mistakes):
        exhibits = chosen_exhibits(arguments.names, EXHIBITS, changes)
    raise_all(mistakes)  # so that below, all names are bound
    pages = reproduce(
        exhibits,
        arguments.out,
        lambda works: finish_shown(works, options, arguments.quiet),
        options,
        index=ALL in arguments.names,
        report=(lambda _: None) if arguments.quiet else say,
    )
    for name, page in pages.items():
        _show(exhibits[name].title, page)
    if not arguments.quiet:
        say(f"saved in {arguments.out}")


def _show(title: str, page: Page) -> None:
    """Print the tables of a page, and its answer."""
    from faircil_lab.paper.render import plain

    for section in page.sections:
        if section.on_terminal and section.table is not None and section.table.rows:
            rows = [tuple(plain(cell) for cell in row) for row in section.table.rows]
            show_columns(f"{title}: {section.heading}", section.table.header, rows)
    say(f"{title}: {plain(page.answer)}")
