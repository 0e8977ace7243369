"""``faircil demo``: unfair forgetting and its cure, without a download."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from faircil.cli.console import say, show_table
from faircil.cli.run import parse_seeds

HELP = "see unfair forgetting and its cure on a toy and on real digits; no download, a minute"
EPILOG = """First the mechanism on three clusters in the plane, then fine-tuning, plain replay and
FSW on real digits whose background colour goes with the class. Prints tables and draws accuracy
and disparity over the tasks. Finished runs are kept in the folder and not made twice.
"""
NEXT = """On so small a real dataset the gain is small; docs/reproduction has the larger ones.
Your own table: faircil run --data FILE --label COLUMN --sensitive COLUMN"""


@dataclass(frozen=True)
class Scene:
    """A dataset, what to run on it, and the disparity to show."""

    dataset: str
    methods: tuple[str, ...]
    measure: str
    disparity: str
    title: str


SCENES = (
    Scene(
        "toy",
        ("er", "fsw"),
        "eer",
        "eer",
        "Three clusters: the third, close to the second, comes in task 2",
    ),
    Scene(
        "biased-digits",
        ("finetune", "er", "fsw"),
        "eo",
        "eo_gap",
        "Digits on coloured ground, two classes per task",
    ),
)


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
    parser.add_argument("--quiet", action="store_true", help="only the tables")


def command(arguments: argparse.Namespace) -> None:
    """Run the methods, print the tables, draw the figures."""
    from faircil.cli.running import RunOptions, run_seeds
    from faircil.compute import choose_device
    from faircil.metrics import METRICS
    from faircil.report import compare, group_runs
    from faircil.report.plots import over_tasks, save
    from faircil.runs.config import resolve

    # The folder is the demo's own: runs of an older version there are replaced.
    device = choose_device("auto")
    options = RunOptions(arguments.typed, device, replace=True, quiet=arguments.quiet)
    for scene in SCENES:
        runs = []
        for method in scene.methods:
            config = resolve(dataset=scene.dataset, method=method, measure=scene.measure)
            folder = arguments.out / scene.dataset / method
            runs += run_seeds(config, parse_seeds(arguments.seeds), folder, options)
        for table in compare(runs):
            show_table(table)
        shown = ("accuracy", scene.disparity)
        files = save(
            over_tasks(group_runs(runs), shown, scene.title), arguments.out / scene.dataset
        )
        if not arguments.quiet:
            for metric in shown:
                say(f"{metric}: {METRICS[metric]}")
            say(f"figures: {', '.join(map(str, files))}")
    if not arguments.quiet:
        say(NEXT)
