"""``faircil demo``: unfair forgetting and its mitigation, without a download."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.common_options import parse_seeds
from faircil.cli.console import say, show_table

if TYPE_CHECKING:
    from faircil.report.plots import Panel
    from faircil.results.record import RunSummary
    from faircil.runs.config import RunConfig

EPILOG = """Shows the mechanism on three clusters in the plane, then compares plain replay, FSW and
learning from moments on real digits whose background colour correlates with the class. Prints
tables and plots who is predicted right, and accuracy, worst-group accuracy and disparity over the
tasks. Ends with a page to open in a browser. Finished runs are reused.
"""
NEXT = """Replay forgets unevenly. FSW weights the samples of the current task to counter this;
moments weights all groups ever seen. docs/reproduction and docs/moments.md have more data.
Your own table: faircil run --data FILE --label COLUMN --sensitive COLUMN"""


@dataclass(frozen=True)
class Scene:
    """A dataset, and the methods and the measure to run on it."""

    dataset: str
    methods: tuple[str, ...]
    measure: str
    title: str


SCENES = (
    Scene(
        "toy",
        ("er", "fsw", "moments"),
        "eer",
        "Three clusters: the third, close to the second, arrives in task 2",
    ),
    Scene(
        "biased-digits",
        ("er", "fsw", "moments"),
        "eo",
        "Digits on coloured backgrounds, two classes per task",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        *("-o", "--out"),
        type=Path,
        default=Path("demo-results"),
        metavar="DIR",
        help="folder for runs and figures (default: demo-results)",
    )
    parser.add_argument("--seeds", default="0-1", metavar="LIST", help="seeds (default: 0-1)")
    parser.add_argument("--quiet", action="store_true", help="print only the tables")


def command(arguments: argparse.Namespace) -> None:
    """Run the methods, print the tables, draw the figures, write the report."""
    from faircil.cli.compare import say_report, write_report
    from faircil.cli.run_seeds import RunOptions, run_seeds
    from faircil.compute import choose_device
    from faircil.metrics import METRICS
    from faircil.report import compare, group_runs
    from faircil.report.plots import over_tasks, save
    from faircil.runs.config import resolve
    from faircil.weighting.measures import find_measure

    # The folder belongs to the demo, so runs of an older version are replaced.
    device = str(choose_device("auto"))
    options = RunOptions(arguments.typed, device, replace=True, quiet=arguments.quiet)
    every: list[RunSummary] = []
    for scene in SCENES:
        runs: list[RunSummary] = []
        panels: list[Panel] = []
        for method in scene.methods:
            config = resolve(dataset=scene.dataset, method=method, measure=scene.measure)
            folder = arguments.out / scene.dataset / method
            summaries = run_seeds(config, parse_seeds(arguments.seeds), folder, options)
            runs += summaries
            panels.append(panel_of(config, summaries))
        every = [*runs, *every]  # the real data first
        for table in compare(runs):
            show_table(table)
        # Accuracy and worst group first: a model that forgot everything has no disparity.
        shown = ("accuracy", "worst_group", find_measure(scene.measure).shown)
        figure = over_tasks(group_runs(runs), shown, scene.title, panels)
        files = save(figure, arguments.out / scene.dataset)
        if not arguments.quiet:
            for metric in shown:
                say(f"{metric}: {METRICS[metric].description}")
            say(f"figures: {', '.join(map(str, files))}")
    page = arguments.out / "report.html"
    size = write_report(every, page, arguments.typed)
    if not arguments.quiet:
        say(NEXT)
        say_report(page, size)


def panel_of(config: RunConfig, runs: Sequence[RunSummary]) -> Panel:
    """Return a panel of the final predictions: samples in the plane, or accuracy of groups."""
    from statistics import fmean

    import numpy as np

    from faircil.report.plots import GroupPanel, Plane
    from faircil.results.run_files import read_final_predictions
    from faircil.runs.state import load_stream

    title, first = f"{config.label} after the last task", runs[0]
    stream = load_stream(config, first.seed)
    x = np.concatenate([task.test.x.numpy() for task in stream.tasks])
    if x.ndim == 2 and x.shape[1] == 2:
        final = read_final_predictions(Path(first.dir))
        return Plane(f"{title}, seed {first.seed}", x, final.y_true, final.y_pred)
    accuracy: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for group in run.groups or ():
            accuracy.setdefault((group.label, group.attribute or ""), []).append(group.accuracy)
    means = {group: fmean(values) for group, values in accuracy.items()}
    return GroupPanel(f"{title}, mean over seeds", means)
