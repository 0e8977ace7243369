"""``faircil tune``: choose settings on validation data."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.common_options import (
    add_measure_arguments,
    add_own_arguments,
    names_of,
    own_data,
    parse_seeds,
)
from faircil.cli.console import print_json, say, show_columns
from faircil.cli.sweeping import add_sweep_arguments, finish_shown, sweep_options
from faircil.errors import FaircilError, collecting, raise_all

if TYPE_CHECKING:
    from faircil.tuning.request import NotTuned, Tuned, TuneRequest

EPILOG = """examples:
  faircil tune --dataset biased-mnist --method fsw --measure eo
  faircil tune --dataset mnist --method er fsw icarl --measure eer --jobs 4
  faircil tune --dataset drug --method fsw --objective "accuracy with eo <= 0.05" --budget 24
  faircil tune --dataset biased-mnist --method moments fsw --target "eo_gap<=0.05"
  faircil tune --dataset digits --method fsw --try lr=0.001,0.003 tau=1,5 --set alpha=auto
  faircil tune --data mine.csv --label job --sensitive sex --method fsw er

A tenth of each group's training data is held out for validation. The search space comes from a
shipped table, or from --try. Finished runs are reused.
"""
WARNING = (
    "warning: settings are chosen on the test data, as the paper did, so all figures here are too "
    "optimistic. Use this only to compare with choosing on held-out training data."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("what to tune")
    what.add_argument("--dataset", metavar="NAME", help=names_of("dataset"))
    what.add_argument(
        "--method",
        nargs="+",
        default=["fsw"],
        metavar="NAME",
        help=f"one or more of {names_of('learner')} (default: fsw)",
    )
    what.add_argument("--weighting", metavar="NAME", help="fsw, random, balanced or none")
    add_measure_arguments(what)
    what.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="fixed settings",
    )
    what.add_argument(
        "--try",
        nargs="+",
        action="extend",
        default=[],
        dest="tried",
        metavar="NAME=VALUE,VALUE",
        help="search space: settings with their candidate values (default: a shipped table)",
    )
    add_own_arguments(parser.add_argument_group("own data, instead of --dataset"))
    how = parser.add_argument_group("search")
    how.add_argument(
        "--objective",
        metavar="TEXT",
        help="'accuracy - eo_gap', or 'accuracy with eo <= 0.05' (default: accuracy minus the "
        "disparity of the measure)",
    )
    how.add_argument(
        "--target",
        metavar="TEXT",
        help="'eo_gap<=0.05' or 'worst_group>=0.6': the best accuracy that meets this, or the "
        "closest to it; without --try, lam alone is searched",
    )
    how.add_argument(
        "--strategy",
        default="random",
        metavar="NAME",
        help="random, sequential (one setting after another, as in the paper), grid, or optuna "
        "(default: random)",
    )
    how.add_argument(
        "--budget",
        type=int,
        default=12,
        metavar="N",
        help="number of configurations to try (default: 12)",
    )
    how.add_argument(
        "--seed",
        "--seeds",
        default="10",
        dest="seeds",
        metavar="LIST",
        help="seeds of each trial: 10 or 10-11 (default: 10)",
    )
    how.add_argument(
        "--select-on",
        choices=("validation", "test"),
        default="validation",
        metavar="PART",
        help="validation (default), or test, as in the paper, which gives optimistic results",
    )
    add_sweep_arguments(parser)
    out = parser.add_argument_group("output")
    out.add_argument(
        *("-o", "--out"),
        type=Path,
        metavar="DIR",
        help="folder for the results (default: in runs/tuning)",
    )
    out.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def command(arguments: argparse.Namespace) -> None:
    """Run the trials, choose settings, write and print the record."""
    from faircil.files import claim
    from faircil.tuning.request import NotTuned
    from faircil.tuning.tune import check_requests, tune_each
    from faircil.tuning.tuning_files import as_document

    mistakes: list[str] = []
    requests = _requests(arguments, mistakes)
    options = sweep_options(arguments, mistakes)
    check_requests(requests, mistakes)
    folders = _folders(requests, arguments)
    for folder in folders:
        claim(folder)
    if arguments.select_on == "test":
        say(WARNING)
    finish = partial(finish_shown, options=options, quiet=arguments.quiet)
    found = tune_each(requests, finish)
    for one, folder in zip(found, folders, strict=True):
        _write(one, folder, arguments)
    if arguments.json:
        document = {"tuned": [as_document(one) for one in found]}
        print_json(document)
    raise_all([one.problem for one in found if isinstance(one, NotTuned)], FaircilError)


def _requests(arguments: argparse.Namespace, mistakes: list[str]) -> list[TuneRequest]:
    from faircil.runs.config import checked_measure
    from faircil.tuning.request import TuneRequest

    seeds: list[int] = []
    own = own_data(arguments, mistakes)
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    return [
        TuneRequest(
            dataset=arguments.dataset or "",
            own=own,
            method=method,
            # Errors are reported when the requests are checked.
            measure=checked_measure(arguments.measure, arguments.dataset, own, []),
            weighting=arguments.weighting,
            fixed=tuple(arguments.set),
            tried=tuple(arguments.tried),
            objective=arguments.objective,
            strategy=arguments.strategy,
            budget=arguments.budget,
            seeds=tuple(seeds) or (0,),
            select_on=arguments.select_on,
            favoured=tuple(arguments.favoured),
            target=arguments.target,
        )
        for method in dict.fromkeys(arguments.method)
    ]


def _folders(requests: list[TuneRequest], arguments: argparse.Namespace) -> list[Path]:
    from faircil.tuning.tuning_files import folder_name

    if arguments.out is None:
        place = arguments.runs / "tuning"
        return [place / request.data / folder_name(request) for request in requests]
    if len(requests) == 1:
        return [arguments.out]
    return [arguments.out / request.method for request in requests]


def _write(tuned: Tuned | NotTuned, folder: Path, arguments: argparse.Namespace) -> None:
    from faircil.tuning.request import Tuned
    from faircil.tuning.tuning_files import (
        best_trial,
        extent,
        ranking,
        run_command,
        title,
        write_tuning,
    )

    write_tuning(tuned, folder)
    if not arguments.json:
        show_columns(f"{title(tuned)}: {extent(tuned)}", *ranking(tuned))
        if (best := best_trial(tuned)) is not None:
            print(f"chosen: {' '.join(best.overrides)}")  # noqa: T201
            print(f"continue with: {run_command(tuned.request, best.overrides)}\n")  # noqa: T201
    if isinstance(tuned, Tuned) and tuned.note:
        say(f"note: {title(tuned)}: {tuned.note}")
    if not arguments.quiet:
        say(f"saved in {folder}")
