"""``faircil bench run``: time and memory of whole runs, and what they are made of."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil_lab.cli.output import add_output_arguments, begin, keep, page_command

if TYPE_CHECKING:
    import torch

    from faircil_lab.bench.pages import Findings
    from faircil_lab.bench.runs import Contender, RunOutcome

DATASETS = ("digits", "biased-digits")
HELP = "measure time and memory of whole runs against plain replay"
EPILOG = """Every run has its own process; methods take turns. A method is METHOD, METHOD+WEIGHTING,
and settings after colons: er, er+random, fsw:granularity=group. With --scale also how the weights
of an epoch grow with samples, groups, classes and features, on generated data.

examples:
  faircil bench run
  faircil bench run --dataset mnist --methods er fsw fsw:solver=highs --repeats 5
  faircil bench run --scale samples classes --repeats 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--dataset",
        nargs="+",
        default=list(DATASETS),
        metavar="NAME",
        help=f"datasets (default: {' '.join(DATASETS)})",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        metavar="METHOD",
        help="methods (default: er fsw fsw:granularity=group)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="of every run (default: 3)")
    parser.add_argument(
        "--scale",
        nargs="*",
        metavar="FACTOR",
        help="growth with samples, groups, classes, features (default: all of these)",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="settings for all methods",
    )
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)"
    )
    add_output_arguments(parser, Path("bench") / "run")


def command(arguments: argparse.Namespace) -> None:
    """Measure, write the files, print the tables."""
    from faircil.compute import choose_device
    from faircil.errors import DataError, collecting, raise_all, unknown_name
    from faircil_lab.bench.runs import METHODS, contenders, missing_files
    from faircil_lab.bench.weights import FACTORS

    mistakes: list[str] = []
    runs = contenders(arguments.dataset, arguments.methods or METHODS, arguments.set, mistakes)
    if arguments.repeats < 1:
        mistakes.append(f"--repeats is {arguments.repeats}, expected at least 1")
    factors = list(FACTORS) if arguments.scale == [] else arguments.scale or []
    mistakes += [unknown_name("factor", name, FACTORS) for name in factors if name not in FACTORS]
    with collecting(mistakes):
        device = choose_device(arguments.device)
    raise_all(mistakes)
    raise_all(missing_files(arguments.dataset), DataError)
    tell, notes = begin(arguments)
    outcomes = _told(_outcomes(runs, factors, arguments.repeats, device), tell)
    keep(outcomes, partial(_finish, arguments, str(device), notes), arguments)


def _outcomes(
    runs: Sequence[Contender], factors: Sequence[str], repeats: int, device: torch.device
) -> Iterator[RunOutcome]:
    """Whole runs come first: a process's peak counts what its parent held when it began."""
    from faircil_lab.bench.runs import measure_runs
    from faircil_lab.bench.weights import measure_epochs, measure_growth

    yield from measure_runs(runs, repeats, str(device))
    first: dict[str, Contender] = {}
    for run in runs:
        first.setdefault(run.dataset, run)
    for run in first.values():
        yield from measure_epochs(run.config(), device)
    yield from measure_growth(factors, device)


def _told(outcomes: Iterator[RunOutcome], tell: Callable[[str], None]) -> Iterator[RunOutcome]:
    """Pass outcomes on and say how it goes, a line for each."""
    from faircil_lab.bench.measuring import written
    from faircil_lab.bench.runs import EpochCost, RunCost

    for outcome in outcomes:
        yield outcome
        if isinstance(outcome, RunCost):
            seconds = outcome.seconds
            tell(
                f"{outcome.dataset} {outcome.method}, run {outcome.repeat}: "
                f"{written(seconds.total)}, LP {written(seconds.lp)}"
            )
        elif isinstance(outcome, EpochCost):
            kinds = (f"{name} {written(value)}" for name, value in outcome.statistics.items())
            tell(
                f"{outcome.dataset} task {outcome.task}: forward {written(outcome.forward)}, "
                f"statistics by {', '.join(kinds)}"
            )
        else:
            tell(
                f"{outcome.value:,} {outcome.factor}: statistics {written(outcome.statistics)}, "
                f"LP {written(outcome.lp)}"
            )


def _finish(
    arguments: argparse.Namespace,
    device: str,
    notes: tuple[str, ...],
    outcomes: tuple[RunOutcome, ...],
    complete: bool,
) -> Findings:
    from faircil.results.identity import environment
    from faircil_lab.bench.runs import RunResults
    from faircil_lab.bench.runs_page import run_findings

    described = environment(arguments.typed, device)
    typed = page_command(arguments.typed)
    return run_findings(
        RunResults(
            outcomes,
            arguments.repeats,
            command=typed,
            environment=described,
            notes=notes,
            complete=complete,
        )
    )
