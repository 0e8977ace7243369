"""Rows of the benchmark pages: each is one ``faircil run`` command; finished runs are reused."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from faircil.report import format_value
from faircil.results.folder import find_runs, seed_folder
from faircil.results.record import RunSummary, over_seeds

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "runs" / "benchmarks"
TITLES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "biased-mnist": "Biased MNIST",
    "drug": "DRUG",
    "biased-digits": "Biased digits (embedded)",
}
MEASURES = {"mnist": "eer", "fashion-mnist": "eer"}  # of the others: eo
# The longest first, so that no core is left alone with one at the end.
DEAR_DATASETS, DEAR_METHODS = ("biased-mnist",), ("gss", "ocs", "fairl", "joint", "gdumb")


@dataclass(frozen=True)
class Benchmark:
    """A configuration, and the figures it is held against: metric → (lowest, highest).

    A noisy one, whose targets are closer than its standard error, is run on more seeds as well. One
    that is ``alone`` is there for its time: it has the machine to itself.
    """

    dataset: str
    options: str
    targets: dict[str, tuple[float, float]] = field(default_factory=dict)
    seeds: range = range(5)
    noisy: bool = False
    alone: bool = False

    @property
    def command(self) -> str:
        """What a reader types to get the row."""
        seeds = f"{self.seeds[0]}-{self.seeds[-1]}"
        return f"faircil run --dataset {self.dataset} {self.options} --seeds {seeds}"

    @property
    def kind(self) -> str:
        """Its method and weighting, without the measure."""
        return self.options.replace(" --measure eer", "").replace(" --measure eo", "")

    @property
    def folder(self) -> Path:
        """Where its runs are."""
        name = self.options.replace("--method ", "").replace("--", "").replace("set ", "")
        name += " alone" if self.alone else "" if self.seeds == range(5) else " more seeds"
        return RUNS / self.dataset / name.replace(" ", "_").replace("=", "-")

    @property
    def method(self) -> str:
        """Its method."""
        return self.options.split()[1]

    @property
    def cost(self) -> tuple[bool, bool]:
        """How long it takes, roughly; the least comes first."""
        return self.dataset not in DEAR_DATASETS, self.method not in DEAR_METHODS


Result = tuple[Benchmark, list[RunSummary]]
Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


def at_least(value: float) -> tuple[float, float]:
    """Allow no less."""
    return value, float("inf")


def at_most(value: float) -> tuple[float, float]:
    """Allow no more."""
    return -float("inf"), value


def results_of(rows: Sequence[Benchmark], description: str | None) -> list[Result]:
    """Run what is missing as the command line says, and read all results."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--only", nargs="+", choices=TITLES, help="datasets to run (default: all)")
    parser.add_argument("--methods", nargs="+", help="methods to run (default: all)")
    parser.add_argument(
        "--missing", action="store_true", help="leave runs alone that other code has made"
    )
    parser.add_argument("--page", action="store_true", help="only write the page, run nothing")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--alone", action="store_true", help="make the runs for times only")
    arguments = parser.parse_args()
    if not arguments.page:
        chosen = [row for row in rows if row.dataset in (arguments.only or TITLES)]
        chosen = [row for row in chosen if row.alone == arguments.alone]
        chosen = [row for row in chosen if row.method in (arguments.methods or (row.method,))]
        run_all(chosen, arguments.jobs, arguments.device, missing=arguments.missing)
    return [(row, find_runs([row.folder])) for row in rows if row.folder.is_dir()]


def run_all(
    rows: Sequence[Benchmark], jobs: int, device: str = "cpu", *, missing: bool = False
) -> None:
    """Run all seeds of all rows, or those that have no result."""
    longest_first = sorted(rows, key=lambda row: row.cost)
    work = [(row, seed) for row in longest_first for seed in row.seeds]
    if missing:
        work = [(row, seed) for row, seed in work if not seed_folder(row.folder, seed).is_dir()]
    if not work:
        return
    failed = [name for name in in_processes(partial(run_seed, device), work, jobs) if name]
    if failed:
        raise SystemExit("failed:\n" + "\n".join(failed))


def in_processes(do: Callable[[Work], Outcome], work: Sequence[Work], jobs: int) -> list[Outcome]:
    """Do all pieces of work, begun in order, ``jobs`` at a time in processes of their own."""
    # Threads inside a process would only be in the way of the others.
    os.environ |= {"OMP_NUM_THREADS": "1"} if jobs > 1 else {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(do, work))


def run_seed(device: str, work: tuple[Benchmark, int]) -> str | None:
    """Run one seed of a row; return its command if it failed."""
    from faircil.cli import main

    row, seed = work
    command = ["run", "--dataset", row.dataset, *shlex.split(row.options), "--seeds", str(seed)]
    command += ["--device", device, "--out", str(row.folder), "--quiet"]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        return shlex.join(command) if main(command) else None


def target_table(rows: Sequence[Result]) -> str:
    """Write targets and what was measured, in Markdown."""
    lines = ["| run | metric | target | measured | |", "|---|---|---|---|---|"]
    for row, runs in rows:
        means, deviations = over_seeds(runs)
        for metric, limits in row.targets.items():
            measured = f"{means[metric]:.4f} ± {deviations[metric] or 0:.4f}".replace("0.", ".")
            met = limits[0] <= means[metric] <= limits[1]
            lines.append(
                f"| {row.dataset} {row.options} | {metric} | {_limits(*limits)} | {measured} "
                f"| {'met' if met else '**missed**'} |"
            )
    return "\n".join(lines) + "\n"


def commands(rows: Sequence[Result]) -> str:
    """Write the commands of some rows, folded."""
    lines = "\n".join(row.command for row, _ in rows)
    return f"<details><summary>Commands</summary>\n\n```\n{lines}\n```\n\n</details>\n"


def _limits(lowest: float, highest: float) -> str:
    if highest == float("inf"):
        return f"≥ {format_value(lowest)}"
    if lowest == -float("inf"):
        return f"≤ {highest:.4g}".replace("0.", ".")
    return f"{format_value(lowest)} … {format_value(highest)}"
