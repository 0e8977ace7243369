"""``faircil demo``: unfair forgetting and its cure on real digits, without a download."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import say, show_table
from faircil.cli.seeds import parse_seeds

HELP = "see unfair forgetting and its cure on real digits; no download, about a minute"
EPILOG = """Trains fine-tuning, plain replay and FSW on digits whose background colour goes with
the class, prints a table and draws accuracy and disparity over the tasks. Finished runs are
kept in the folder and not made twice.
"""
DATASET = "biased-digits"
METHODS = ("finetune", "er", "fsw")
SHOWN = ("accuracy", "eo_gap")
TITLE = "Digits on coloured ground, two classes per task"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-results"),
        metavar="DIR",
        help="folder of runs and figures (default: demo-results)",
    )
    parser.add_argument("--seeds", default="0-1", metavar="LIST", help="default: 0-1")
    parser.add_argument("--quiet", action="store_true", help="only the table")


def command(arguments: argparse.Namespace) -> None:
    """Run the methods, print the table, draw the figure."""
    from faircil.cli.device import choose_device
    from faircil.cli.running import RunOptions, run_seeds
    from faircil.config import resolve
    from faircil.metrics import METRICS
    from faircil.plots import over_tasks, save
    from faircil.report import compare, group_runs

    seeds, runs = parse_seeds(arguments.seeds), []
    # The folder is the demo's own: runs of an older version there are replaced.
    device = choose_device("auto")
    options = RunOptions(arguments.typed, device, replace=True, quiet=arguments.quiet)
    for method in METHODS:
        config = resolve(dataset=DATASET, method=method, measure="eo")
        runs += run_seeds(config, seeds, arguments.out / method, options)
    for table in compare(runs):
        show_table(table)
    figure = over_tasks(group_runs(runs), SHOWN, TITLE)
    files = save(figure, arguments.out / "over-tasks")
    if not arguments.quiet:
        for metric in SHOWN:
            say(f"{metric}: {METRICS[metric]}")
        say(f"figures: {', '.join(map(str, files))}")
