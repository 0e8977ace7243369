"""``faircil bench lp``: time of every solver on weighting programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from faircil_lab.cli.output import add_output_arguments, begin, keep, page_command

if TYPE_CHECKING:
    from faircil_lab.bench.lp import LpOptions, Measurement, Skipped
    from faircil_lab.bench.lp_programs import NamedProgram
    from faircil_lab.bench.pages import Findings

HELP = "measure every installed solver on weighting programs, at any size"
EPILOG = """Without FILES the programs are real ones, from short runs of the embedded digits. A file
is an .npz archive with gap_rows, gap_offsets, cost, floor_rows, floor_offsets (numpy.savez).

examples:
  faircil bench lp --sizes 1k 12k 100k 1M
  faircil bench lp one.npz two.npz --solvers highs --sizes 12000 --repeats 9
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="programs")
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=[],
        metavar="N",
        help="columns to bring each program to, e.g. 1k 12k 1M (default: its own)",
    )
    parser.add_argument(
        "--solvers", nargs="+", metavar="NAME", help="solvers (default: all installed)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="solves to time (default: 5)")
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="leave out a solver where one solve would take longer (default: 60)",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda or cuda:N: also the solver for programs in its memory (default: cpu)",
    )
    parser.add_argument("--threads", type=int, default=1, help="of the linear algebra (default: 1)")
    add_output_arguments(parser, Path("bench") / "lp")


def command(arguments: argparse.Namespace) -> None:
    """Measure, write the files, print the tables."""
    from faircil.compute import choose_device
    from faircil.errors import collecting, raise_all
    from faircil_lab.bench.lp import measure
    from faircil_lab.bench.lp_programs import read_programs, usable_cases

    mistakes: list[str] = []
    options = _options(arguments, mistakes)
    device = None
    with collecting(mistakes):
        device = choose_device(arguments.device)
    cases, unusable = usable_cases(arguments.solvers, mistakes, device)
    programs = read_programs(arguments.files, mistakes)
    raise_all(mistakes)
    tell, notes = begin(arguments, unusable)
    programs = programs or _recorded(tell)
    tell(f"{len(programs)} programs, solvers {', '.join(case.name for case in cases)}")
    outcomes = _told(measure(programs, cases, options), tell)
    keep(outcomes, partial(_finish, arguments, options, notes), arguments)


def _options(arguments: argparse.Namespace, mistakes: list[str]) -> LpOptions:
    from faircil_lab.bench.lp import LpOptions
    from faircil_lab.bench.lp_programs import parse_sizes

    sizes = parse_sizes(arguments.sizes, mistakes)
    for name in ("repeats", "threads"):
        if (value := getattr(arguments, name)) < 1:
            mistakes.append(f"--{name} is {value}, expected at least 1")
    if not 0 < arguments.limit < float("inf"):
        mistakes.append(f"--limit is {arguments.limit:g}, expected a positive number of seconds")
    return LpOptions(sizes, arguments.repeats, arguments.limit, arguments.threads)


def _recorded(tell: Callable[[str], None]) -> list[NamedProgram]:
    from faircil_lab.bench.lp_programs import RUNS, recorded_programs

    programs = []
    for dataset, measure in RUNS:
        tell(f"recording the programs of a short run: {dataset}, {measure}")
        programs += recorded_programs(dataset, measure)
    return programs


def _told(
    outcomes: Iterator[Measurement | Skipped], tell: Callable[[str], None]
) -> Iterator[Measurement | Skipped]:
    """Pass outcomes on and say how it goes, a line per program."""
    from faircil_lab.bench.lp import Skipped
    from faircil_lab.bench.measuring import written

    for _, group in groupby(outcomes, key=lambda outcome: (outcome.size, outcome.program)):
        words = []
        for outcome in group:
            yield outcome
            if isinstance(outcome, Skipped):
                where = "" if outcome.size is None else f" at n = {outcome.size:,}"
                tell(f"{outcome.solver} not measured{where}: {outcome.why}")
            else:
                words.append(f"{outcome.solver} {written(outcome.median)}")
                line = f"n = {outcome.n:,}, {outcome.program}: "
        if words:
            tell(line + ", ".join(words))


def _finish(
    arguments: argparse.Namespace,
    options: LpOptions,
    notes: tuple[str, ...],
    outcomes: tuple[Measurement | Skipped, ...],
    complete: bool,
) -> Findings | None:
    from faircil.errors import SolverError, raise_all
    from faircil.results.identity import environment
    from faircil_lab.bench.lp import LpResults
    from faircil_lab.bench.lp_page import lp_findings, not_measured

    described = environment(arguments.typed, arguments.device)
    typed = page_command(arguments.typed)
    results = LpResults(
        outcomes, options, command=typed, environment=described, notes=notes, complete=complete
    )
    if results.measurements:
        return lp_findings(results)
    raise_all(not_measured(results.skipped) if complete else [], SolverError)
    return None
