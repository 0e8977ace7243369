"""``faircil bench``: measure the solvers, runs and what they are made of, sweeps, text encoders."""

from __future__ import annotations

import argparse

from faircil.cli.parser import add_command
from faircil_lab.cli import lp as bench_lp
from faircil_lab.cli import runs as bench_run
from faircil_lab.cli import sweeps as bench_sweep
from faircil_lab.cli import texts as bench_text

ACTIONS = {"lp": bench_lp, "run": bench_run, "sweep": bench_sweep, "text": bench_text}
EPILOG = """examples:
  faircil bench lp --sizes 1k 12k 100k 1M
  faircil bench lp mine.npz --solvers highs
  faircil bench run --dataset mnist biased-mnist --page docs/speed.md
  faircil bench run --scale
  faircil bench sweep --jobs 1 2 4
  faircil bench text --rows 50000

Results are files: results.json, results.csv, pictures, and a page in Markdown.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, module in ACTIONS.items():
        add_command(actions, name, module, module.HELP)


def command(arguments: argparse.Namespace) -> None:
    """Measure and write the results; each action sets its own."""
    ACTIONS[arguments.action].command(arguments)
