"""What all benchmarks do with what they find: keep it, also when interrupted, and show it."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from faircil.cli.console import say, show_table

if TYPE_CHECKING:
    from faircil_lab.bench.pages import Findings

Outcome = TypeVar("Outcome")
PLACES = ("--out", "--page")  # options that say where to write, with a value each
MANNERS = ("--json", "--quiet")


def add_output_arguments(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Declare where results go and what is printed."""
    parser.add_argument(
        "--out", type=Path, default=folder, metavar="DIR", help=f"folder (default: {folder})"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write the page there too, with its pictures in images/ beside it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress and no notes")


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
) -> tuple[Callable[[str], None], tuple[str, ...]]:
    """Make sure that results can be kept, and say what a reader should know.

    Parameters
    ----------
    arguments : Namespace
        With ``out`` and ``quiet``.
    notes : iterable of str
        Besides whether the machine is busy.

    Returns
    -------
    tell : callable
        Says something to the user, unless they want it quiet.
    notes : tuple of str
        All of them.
    """
    from faircil.files import claim
    from faircil_lab.bench.measuring import busy

    claim(arguments.out)
    tell: Callable[[str], None] = (lambda _: None) if arguments.quiet else say
    told = (*busy(), *notes)
    for note in told:
        tell(note)
    return tell, told


def keep(
    outcomes: Iterable[Outcome],
    finish: Callable[[tuple[Outcome, ...], bool], Findings | None],
    arguments: argparse.Namespace,
) -> None:
    """Take results as they come, write them, print them; what there is stays when interrupted.

    Parameters
    ----------
    outcomes : iterable
    finish : callable
        From outcomes, of which there is one at least, and whether they are complete, to what to
        write; None: nothing is worth it.
    arguments : Namespace
        With ``out``, ``page``, ``json`` and ``quiet``.
    """
    from faircil_lab.bench.pages import write_findings

    found: list[Outcome] = []
    findings, complete = None, False
    try:
        for outcome in outcomes:
            found.append(outcome)
        complete = True
    finally:
        findings = finish(tuple(found), complete) if found else None
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
