"""``faircil postprocess``: fair predictions from saved runs, or from any probabilities."""

from __future__ import annotations

import argparse
from pathlib import Path

from faircil.cli.console import say, show_table
from faircil.errors import DataError, raise_all

EPILOG = """examples:
  faircil postprocess runs/biased-mnist --epsilon 0 0.01 0.02 0.05 0.1 -o curves
  faircil postprocess --pool pool.csv --apply new.csv --probabilities p_a p_b --sensitive sex \\
      --epsilon 0.05 -o out.csv

The rule is the most accurate one whose share of every class differs by at most epsilon between a
group and all samples, on the pool. It needs the sensitive attribute of every sample it predicts.
For runs the pool is what `faircil run --held-out N` kept from training, else the buffer (on which
the net is overconfident: a small epsilon then does harm), weighted to represent all rows seen, with
one fit over all seen classes after each task. The attribute of biased-mnist and biased-digits is
derived from the true label: gains there may come from the label that it leaks.
"""
MOST_NOTES = 10
DEFAULT = (0.0, 0.01, 0.02, 0.05, 0.1)
FILE_OPTIONS = ("apply", "probabilities", "sensitive")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="folders with runs")
    parser.add_argument(
        "--epsilon",
        nargs="+",
        type=float,
        metavar="E",
        help="from 0, equal shares, to 1, no constraint (default for runs: 0 0.01 0.02 0.05 0.1)",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="PATH",
        help="folder for figures and CSV; with --pool, a file; readable only by you",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    files = parser.add_argument_group("probabilities in files, instead of RUNS")
    files.add_argument("--pool", type=Path, metavar="FILE", help="table that the rule is fitted on")
    files.add_argument("--apply", type=Path, metavar="FILE", help="table to predict")
    files.add_argument(
        "--probabilities", nargs="+", metavar="COLUMN", help="columns, one per class"
    )
    files.add_argument("--sensitive", nargs="+", metavar="COLUMN", help="sensitive attributes")
    files.add_argument(
        "--weight",
        metavar="COLUMN",
        help="column of the pool: number of samples that each row stands for",
    )
    files.add_argument("--force", action="store_true", help="replace an existing file")
    files.add_argument(
        "--seed", type=int, default=0, help="seed of the draws that break ties (default: 0)"
    )


def command(arguments: argparse.Namespace) -> None:
    """Post-process runs or a table."""
    from faircil.postprocess.epsilon_fair import epsilon_mistakes

    mistakes = [m for epsilon in arguments.epsilon or () for m in epsilon_mistakes(epsilon)]
    given = [f"--{name}" for name in (*FILE_OPTIONS, "weight") if getattr(arguments, name)]
    if arguments.pool is not None:
        _apply_to_table(arguments, mistakes)
        return
    if given:
        mistakes.append(f"{', '.join(given)}: for probabilities in files, given with --pool FILE")
    elif not arguments.runs:
        mistakes.append(
            "nothing to post-process: give folders of runs, or probabilities with --pool FILE"
        )
    raise_all(mistakes)
    _process_runs(arguments)


def _apply_to_table(arguments: argparse.Namespace, mistakes: list[str]) -> None:
    from faircil.cli.postprocess_output import TableJob, apply_to_table

    needed = {name: getattr(arguments, name) for name in (*FILE_OPTIONS, "out", "epsilon")}
    mistakes += [f"--pool needs --{name}" for name, value in needed.items() if not value]
    if arguments.runs:
        mistakes.append(f"--pool and the folder {arguments.runs[0]} are given; give one of them")
    if len(arguments.epsilon or ()) > 1:
        mistakes.append(f"--pool takes one --epsilon, and {len(arguments.epsilon)} are given")
    if arguments.out is not None and arguments.out.exists() and not arguments.force:
        mistakes.append(
            f"{arguments.out} already exists; choose another name, or replace it with --force"
        )
    raise_all(mistakes)
    job = TableJob(
        pool=arguments.pool,
        new=arguments.apply,
        probabilities=tuple(arguments.probabilities),
        sensitive=tuple(arguments.sensitive),
        weight=arguments.weight,
        epsilon=arguments.epsilon[0],
        seed=arguments.seed,
    )
    for line in apply_to_table(job, arguments.out):
        say(line)


def _process_runs(arguments: argparse.Namespace) -> None:
    from faircil.cli.postprocess_output import Processed, cost_table, draw_curves, write_rows
    from faircil.report import as_markdown, group_runs, in_markdown
    from faircil.results.folder import find_runs
    from faircil.results.processed import process_run

    epsilons = sorted(set(arguments.epsilon or DEFAULT))
    processed: Processed = []
    mistakes = []
    for row in group_runs(find_runs(arguments.runs)):
        try:
            processed.append((row, [process_run(run, epsilons) for run in row.runs]))
        except DataError as error:
            mistakes.append(str(error))
    raise_all(mistakes, DataError)
    for row, runs in processed:
        table = cost_table(row, runs)
        if arguments.markdown:
            print(f"### {in_markdown(table.title)}\n\n{as_markdown(table)}")  # noqa: T201
        else:
            show_table(table)
    every = [run for _, runs in processed for series in runs for run in series]
    for note in list(dict.fromkeys(note for run in every for note in run.notes))[:MOST_NOTES]:
        say(f"note: {note}")
    if arguments.out is not None:
        files = [write_rows(processed, arguments.out), *draw_curves(processed, arguments.out)]
        say(f"saved: {', '.join(map(str, files))}")
