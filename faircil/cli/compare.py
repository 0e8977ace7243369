"""``faircil compare``: a table of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import show_table

EPILOG = """examples:
  faircil compare runs/mnist
  faircil compare runs/mnist/er-eer-* runs/mnist/fsw-eer-* --markdown

A method is marked best only where it is significantly better than every other one: paired t-test
over at least 3 common seeds, Holm, 5 %. joint and finetune are references and not ranked. Runs
with another sensitive attribute, other tasks or other test data are in tables of their own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders with runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")


def command(arguments: argparse.Namespace) -> None:
    """Print one table for all runs that can be compared."""
    from faircil.report import as_markdown, compare, legend
    from faircil.results.folder import find_runs

    for table in compare(find_runs(arguments.runs)):
        if arguments.markdown:
            # A line of its own in Markdown is a paragraph.
            explained = "".join(f"\n{line}\n" for line in legend(table).splitlines())
            print(f"### {table.title}\n\n{as_markdown(table)}{explained}")  # noqa: T201
        else:
            show_table(table)
