"""``faircil bench sweep``: how fast a sweep is, and what the time of its processes goes to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.run import parse_seeds
from faircil_lab.cli.output import add_output_arguments, begin, keep, page_command

if TYPE_CHECKING:
    from faircil.sweep.work import Work
    from faircil_lab.bench.pages import Findings
    from faircil_lab.bench.sweeps import SweepCost

HELP = "measure a sweep of runs with several numbers of processes"
EPILOG = """The same runs are made with each number of processes, in a new folder each time. A
method is METHOD, METHOD+WEIGHTING, and settings after colons: er, er+random,
fsw:granularity=group. With --alone the first to be measured is a process for each run, one after
another: no sweep at all.

examples:
  faircil bench sweep
  faircil bench sweep --dataset mnist drug --methods er fsw wa --seeds 0-3 --jobs 1 2 4
  faircil bench sweep --dataset mnist --jobs 1 --gpu-jobs 1 4 8 14
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--dataset", nargs="+", metavar="NAME", help="datasets (default: digits biased-digits)"
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="methods (default: er fsw wa)"
    )
    parser.add_argument(
        "--seeds", default="0-1", metavar="LIST", help="3, 0-4 or 0,2,5 (default: 0-1)"
    )
    parser.add_argument(
        "--jobs",
        nargs="+",
        type=int,
        metavar="N",
        help="runs at a time on the CPU (default: 1 2; with --gpu-jobs, none)",
    )
    parser.add_argument(
        "--gpu-jobs",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="runs at a time that share the GPU; methods that it does not replay are made beside "
        "it, by the largest of --jobs",
    )
    parser.add_argument("--alone", action="store_true", help="also a process for each run")
    parser.add_argument("--repeats", type=int, default=1, help="of every sweep (default: 1)")
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="settings for all methods",
    )
    add_output_arguments(parser, Path("bench") / "sweep")


def command(arguments: argparse.Namespace) -> None:
    """Measure, write the files, print the tables."""
    from faircil.errors import DataError, collecting, raise_all
    from faircil_lab.bench.runs import contenders, missing_files
    from faircil_lab.bench.sweeps import DATASETS, METHODS, cases_of, measure_sweeps, works_of

    mistakes: list[str] = []
    datasets = arguments.dataset or DATASETS
    methods = contenders(datasets, arguments.methods or METHODS, arguments.set, mistakes)
    seeds: list[int] = []
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    works = [] if mistakes else works_of(methods, seeds)
    cases = cases_of(arguments.jobs, arguments.gpu_jobs, works, mistakes, alone=arguments.alone)
    if arguments.repeats < 1:
        mistakes.append(f"--repeats is {arguments.repeats}, expected at least 1")
    raise_all(mistakes)
    raise_all(missing_files(datasets), DataError)
    tell, notes = begin(arguments)
    tell(f"{len(works)} runs each with {', then with '.join(case.name for case in cases)}")
    costs = _told(measure_sweeps(works, cases, arguments.repeats), tell)
    keep(costs, partial(_finish, arguments, works, notes), arguments)


def _told(costs: Iterator[SweepCost], tell: Callable[[str], None]) -> Iterator[SweepCost]:
    """Pass costs on and say how it goes, a line for each."""
    from faircil_lab.bench.measuring import written

    for cost in costs:
        yield cost
        tell(f"{cost.case.name}, round {cost.repeat}: {cost.runs} runs in {written(cost.wall)}")


def _finish(
    arguments: argparse.Namespace,
    works: list[Work],
    notes: tuple[str, ...],
    costs: tuple[SweepCost, ...],
    complete: bool,
) -> Findings:
    from faircil.results.identity import environment
    from faircil_lab.bench.sweeps import SweepResults
    from faircil_lab.bench.sweeps_page import sweep_findings

    described = environment(arguments.typed, "cuda" if arguments.gpu_jobs else "cpu")
    names = tuple(work.name for work in works)
    typed = page_command(arguments.typed)
    return sweep_findings(
        SweepResults(
            costs, names, command=typed, environment=described, notes=notes, complete=complete
        )
    )
