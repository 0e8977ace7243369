"""What the benchmarks share on the command line: options, where results go, what is said."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircil.cli.console import say, show_table

if TYPE_CHECKING:
    from faircil_lab.bench.benchmark import Benchmark, Findings

PLACES = ("-o", "--out", "--page")  # options that say where to write, with a value each
MANNERS = ("--json", "--quiet")
DATASETS = ("digits", "biased-digits")  # that runs and sweeps are timed on
Report = Callable[[str], None]


@dataclass(frozen=True)
class Action:
    """A benchmark as a subcommand: its help, its options, and what it does."""

    help: str
    epilog: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    command: Callable[[argparse.Namespace], None]


def add_output_arguments(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Declare where results go and what is printed."""
    parser.add_argument(
        *("-o", "--out"),
        type=Path,
        default=folder,
        metavar="DIR",
        help=f"folder (default: {folder})",
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="also write the page to this file, with its pictures in images/ next to it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def add_sizes(parser: argparse.ArgumentParser, sizes: Mapping[str, tuple[int, str]]) -> None:
    """Declare options that are numbers, each with its default and what it counts."""
    for name, (default, what) in sizes.items():
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Declare the number of processes, of a benchmark that measures no time."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes; the figures are the same with any number (default: 1)",
    )


def add_methods(parser: argparse.ArgumentParser, methods: str, repeated: str, times: int) -> None:
    """Declare which methods are run on which data, with which settings, and how often."""
    parser.add_argument(
        "--dataset",
        nargs="+",
        default=list(DATASETS),
        metavar="NAME",
        help=f"datasets (default: {' '.join(DATASETS)})",
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="METHOD", help=f"methods (default: {methods})"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=times,
        help=f"repetitions of every {repeated} (default: {times})",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="settings for all methods",
    )


def below_one(arguments: argparse.Namespace, *names: str) -> list[str]:
    """Return a sentence for each of these options that is below 1."""
    values = {name: getattr(arguments, name) for name in names}
    return [f"--{name} is {n}, expected at least 1" for name, n in values.items() if n < 1]


def page_command(typed: str) -> str:
    """Return what was typed as others can use it: without places, with names of files only.

    Examples
    --------
    >>> page_command("faircil bench lp /my/a.npz --sizes 1k --out /tmp/x --json")
    'faircil bench lp a.npz --sizes 1k'
    """
    kept, words = [], iter(shlex.split(typed))
    for word in words:
        if word in PLACES:
            next(words, None)
        elif word.split("=")[0] not in (*PLACES, *MANNERS):
            kept.append(Path(word).name if word.endswith(".npz") else word)
    return shlex.join(kept)


def begin(
    arguments: argparse.Namespace, notes: Iterable[str] = ()
) -> tuple[Report, tuple[str, ...]]:
    """Make sure that results can be kept, and say what a reader should know.

    Parameters
    ----------
    arguments : Namespace
        With ``out`` and ``quiet``.
    notes : iterable of str
        Besides whether the machine is busy.

    Returns
    -------
    report : callable
        Says something to the user, unless they want it quiet.
    notes : tuple of str
        All of them.
    """
    from faircil.files import claim
    from faircil_lab.bench.measuring import busy

    claim(arguments.out)
    report: Report = (lambda _: None) if arguments.quiet else say
    known = (*busy(), *notes)
    for note in known:
        report(note)
    return report, known


def record(
    arguments: argparse.Namespace,
    benchmark: Benchmark[Any],
    outcomes: Iterable[Any],
    results: Callable[..., Any],
    device: str,
    notes: tuple[str, ...],
    *,
    is_empty: Callable[[Any], bool] = lambda _: False,
) -> None:
    """Take outcomes as they come, write them, print them; what there is stays when interrupted.

    Parameters
    ----------
    arguments : Namespace
        With ``typed``, ``out``, ``page``, ``json`` and ``quiet``.
    benchmark : Benchmark
    outcomes : iterable
    results : callable
        Puts a tuple of outcomes and the circumstances together.
    device : str
    notes : tuple of str
    is_empty : callable
        Whether results hold nothing to write; raises where that is an error.
    """
    from faircil.results.record import environment
    from faircil_lab.bench.benchmark import write_findings

    report: Report = (lambda _: None) if arguments.quiet else say
    found: list[Any] = []
    findings: Findings | None = None
    complete = False
    try:
        for outcome in outcomes:
            found.append(outcome)
            report(benchmark.line(outcome))
        complete = True
    finally:
        if found:
            made = results(
                tuple(found),
                command=page_command(arguments.typed),
                environment=environment(arguments.typed, device),
                notes=notes,
                complete=complete,
            )
            findings = None if is_empty(made) else benchmark.findings(made)
        if findings is not None:
            write_findings(findings, arguments.out, arguments.page)
            if not (arguments.quiet and complete):
                say(f"{'saved' if complete else 'what was measured so far is'} in {arguments.out}")
    if findings is None:
        return
    if arguments.json:
        print(json.dumps(findings.document, indent=2, ensure_ascii=False))  # noqa: T201
        return
    for table in findings.tables:
        show_table(table)
