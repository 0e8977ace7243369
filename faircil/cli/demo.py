"""``faircil demo``: unfair forgetting and its cure on real digits, without a download."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import say, show_table
from faircil.cli.run import run_seeds
from faircil.cli.seeds import parse_seeds

HELP = "see unfair forgetting and its cure on real digits; no download, about a minute"
EPILOG = """Trains fine-tuning, plain replay and FSW on digits whose background colour goes with
the class, prints a table and draws accuracy and disparity over the tasks.
"""
METHODS = ("finetune", "er", "fsw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--out", type=Path, default=Path("demo-results"), metavar="DIR")
    parser.add_argument("--seeds", default="0-1", metavar="LIST", help="default: 0-1")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def command(arguments: argparse.Namespace) -> None:
    """Run the methods, print the table, draw the figure."""
    from faircil.config import resolve
    from faircil.plots import over_tasks, save
    from faircil.report import compare, group_runs

    seeds, runs = parse_seeds(arguments.seeds), []
    for method in METHODS:
        config = resolve(dataset="biased-digits", method=method, measure="eo")
        out = arguments.out / method
        runs += run_seeds(config, seeds, out=out, device="auto", quiet=arguments.quiet)
    for table in compare(runs):
        show_table(table)
    figure = over_tasks(
        group_runs(runs), ("accuracy", "eo_gap"), "Digits on coloured ground, two classes per task"
    )
    files = save(figure, arguments.out / "over-tasks")
    say("figures: " + ", ".join(map(str, files)))
