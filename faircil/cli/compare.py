"""``faircil compare``: a table of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import show_table

EPILOG = """examples:
  faircil compare runs/mnist
  faircil compare runs/mnist/er-eer-* runs/mnist/fsw-eer-* --markdown

A method is marked best only where it beats every other one in a paired t-test over common seeds
(Holm, 5 %); joint and finetune are bounds and take no part. Two seeds are needed, five are better.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders with runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")


def command(arguments: argparse.Namespace) -> None:
    """Print one table per dataset."""
    from faircil.report import as_markdown, compare, legend
    from faircil.results.folder import find_runs

    for table in compare(find_runs(arguments.runs)):
        if arguments.markdown:
            explained = f"\n{text}\n" if (text := legend(table)) else ""
            print(f"### {table.title}\n\n{as_markdown(table)}{explained}")  # noqa: T201
        else:
            show_table(table)
