"""``faircil run``: train a method on a stream of tasks, for several seeds."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.console import say, show_table
from faircil.cli.lists import names_of
from faircil.errors import UsageError, collecting

if TYPE_CHECKING:
    from faircil.data.own import OwnData

MOST_SEEDS = 1000  # more is probably a typing error
EPILOG = """examples:
  faircil run --dataset biased-digits --method fsw
  faircil run --dataset mnist --method fsw --measure eer --seeds 0-4 --set tau=10 alpha=0.001 lam=1
  faircil run --dataset biased-mnist --method er --weighting random --measure eo
  faircil run --dataset biased-mnist --postprocess eps-fair --epsilon 0.05 --held-out 100
  faircil run --data mine.csv --label job --sensitive sex race --tasks "nurse,surgeon|poet,judge"
  faircil run --data bios.csv --text bio --label job --sensitive gender --set finetune=true

`faircil list` shows datasets, methods, measures, weightings, settings and what the metrics mean.
Seeds that the folder holds already are not run again. Two commands may fill one folder at the same
time: a seed is run by the one that comes first.
"""


def add_own_arguments(parser: argparse._ArgumentGroup) -> None:
    """Declare the options of a user's table; absent options are None."""
    parser.add_argument("--data", metavar="FILE", help="a .csv, .tsv, .npz or .parquet file")
    parser.add_argument("--label", metavar="COLUMN", help="column of the class")
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of texts, which are then the only input (default: all columns without a role "
        "are features)",
    )
    parser.add_argument("--sensitive", nargs="+", metavar="COLUMN", help="sensitive attributes")
    parser.add_argument(
        "--tasks",
        metavar="CLASSES",
        help="'a,b|c,d' (default: two classes per task in sorted order)",
    )
    parser.add_argument(
        "--use-sensitive",
        action="store_true",
        default=None,
        help="also use the sensitive columns as features",
    )
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test-column", metavar="COLUMN", help="column that marks the test rows")
    test.add_argument(
        "--test-share",
        type=float,
        metavar="SHARE",
        help="without --test-column: share of each group (default: 0.3)",
    )


def own_data(arguments: argparse.Namespace, mistakes: list[str]) -> OwnData | None:
    """Read the options; None without ``--data``. Append errors to ``mistakes``."""
    from faircil.data.own import OwnData

    roles = ("label", "text", "sensitive", "tasks", "use_sensitive", "test_column", "test_share")
    given = {name: getattr(arguments, name) for name in roles}
    given = {name: value for name, value in given.items() if value is not None}
    if arguments.data is None:
        if given:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            mistakes.append(f"{flags}: for your own data, given with --data FILE")
        return None
    if "label" not in given:
        mistakes.append("--data needs --label COLUMN, the column that holds the class")
    return OwnData(
        **{"label": "", **given, "sensitive": tuple(given.get("sensitive", ()))},
        path=arguments.data,
    )


def parse_seeds(text: str) -> list[int]:
    """Parse ``0-4``, ``3`` or ``0,2,5-7`` into sorted, distinct seeds.

    Examples
    --------
    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
        if match is None:
            raise UsageError(f"--seeds '{text}' cannot be read; write 3, 0-4 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"--seeds '{text}' counts down; write {last}-{first}")
        if last - first >= MOST_SEEDS:
            raise UsageError(
                f"--seeds '{text}' are {last - first + 1:,} seeds, more than {MOST_SEEDS:,}; "
                "write fewer"
            )
        seeds.update(range(first, last + 1))
    return sorted(seeds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("what to run")
    what.add_argument("--dataset", metavar="NAME", help=names_of("dataset"))
    what.add_argument(
        "--method", metavar="NAME", default="fsw", help=f"{names_of('learner')} (default: fsw)"
    )
    what.add_argument(
        "--weighting",
        metavar="NAME",
        help="sample weighting: fsw, random, balanced or none",
    )
    what.add_argument(
        "--measure",
        metavar="NAME",
        help=f"fairness measure: {names_of('measure')} (default: eo with an attribute, else eer)",
    )
    what.add_argument(
        "--postprocess",
        metavar="NAME",
        help="eps-fair: adjust predictions after each task so that each class is predicted almost "
        "equally often in every group; needs the attribute of every test sample",
    )
    what.add_argument(
        "--epsilon",
        type=float,
        metavar="E",
        help="for --postprocess: largest difference of prediction rates, 0 to 1 (default: 0.05)",
    )
    what.add_argument(
        "--held-out",
        type=int,
        default=0,
        metavar="N",
        help="samples of each group held out from training to fit post-processing; without them it "
        "is fitted on the buffer, on which the net is overconfident (default: 0)",
    )
    what.add_argument(
        "--evaluate-on",
        choices=("test", "validation"),
        default="test",
        metavar="PART",
        help="evaluate on test, or on validation: a held-out tenth of each group's training data, "
        "to compare settings without the test data (default: test)",
    )
    what.add_argument(
        "--seeds", default="0", metavar="LIST", help="seeds: 3, 0-4 or 0,2,5 (default: 0)"
    )
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )
    add_own_arguments(parser.add_argument_group("own data, instead of --dataset"))
    how = parser.add_argument_group("how to run and what to keep")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of seeds to run in parallel, as processes with one thread each (default: 1)",
    )
    how.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="folder for the runs (default: in runs/)"
    )
    how.add_argument(
        "--force",
        action="store_true",
        help="run finished seeds again, and replace runs of another configuration in the folder; "
        "files that faircil did not write are never replaced",
    )
    how.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    how.add_argument("--quiet", action="store_true", help="show no progress and no notes")


def command(arguments: argparse.Namespace) -> None:
    """Run all seeds and print the result."""
    from faircil.cli.running import RunOptions, run_seeds
    from faircil.compute import choose_device
    from faircil.report import seed_table
    from faircil.results.folder import seed_folder
    from faircil.results.record import as_document
    from faircil.runs.config import resolve
    from faircil.sweep.store import Store
    from faircil.sweep.work import Work

    mistakes: list[str] = []
    own = own_data(arguments, mistakes)
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    with collecting(mistakes):
        device = choose_device(arguments.device)
    if arguments.jobs < 1:
        mistakes.append(f"--jobs is {arguments.jobs}, expected at least 1")
    # Raises if there are mistakes, so both names are bound below.
    config = resolve(
        dataset=arguments.dataset,
        own=own,
        method=arguments.method,
        weighting=arguments.weighting,
        measure=arguments.measure,
        postprocess=arguments.postprocess,
        epsilon=arguments.epsilon,
        held_out=arguments.held_out,
        evaluate_on=arguments.evaluate_on,
        overrides=arguments.set,
        mistakes=mistakes,
    )
    folder = arguments.out or Store().folder_of(Work(config, seeds[0]))
    force, quiet = arguments.force, arguments.quiet
    options = RunOptions(
        arguments.typed, str(device), arguments.jobs, again=force, replace=force, quiet=quiet
    )
    runs = run_seeds(config, seeds, folder, options)
    if arguments.json:
        print(json.dumps(as_document(runs), indent=2, ensure_ascii=False))  # noqa: T201
    else:
        show_table(seed_table(runs))
        if not quiet:
            _show_changes(seed_folder(folder, seeds[0]), seeds[0])
    if not quiet:
        say(f"saved in {folder}")


def _show_changes(folder: Path, seed: int) -> None:
    """Show what a one-pass method did to the groups, if the run is of one."""
    from faircil.report import change_table
    from faircil.results.folder import read_epochs, read_names

    epochs = read_epochs(folder)
    if epochs and (passed := epochs[-1].passed) is not None and passed.groups:
        title = f"weights of the groups after the last task, seed {seed}"
        show_table(change_table(passed, read_names(folder), title))
