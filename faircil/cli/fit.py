"""``faircil fit``: fit a model to a table, or prepare the sites of a merged model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.common_options import (
    add_favoured_argument,
    add_own_arguments,
    add_worker_arguments,
    begin_early,
    check_workers,
    own_data,
    sharded_settings,
    workers,
)
from faircil.cli.console import print_json, say, say_notes
from faircil.cli.models import add_output, alone, gaps_of, report, say_where
from faircil.errors import DataError, collecting, raise_all, whole_mistakes

if TYPE_CHECKING:
    from faircil.data.own import OwnData
    from faircil.engines import Engine
    from faircil.model.choosing import Wish
    from faircil.model.model import Model

EPILOG = """examples:
  faircil fit --data train.csv --label job --sensitive sex -o model
  faircil fit --data train.csv --label job --sensitive sex race --method moments -o model
  faircil fit --data train.csv --label job --sensitive sex --holdout 0.2 -o model
  faircil fit --data train.csv --images photo --label job --sensitive sex -o model
  faircil fit --images photos -o model
  faircil fit --data big/ --label job --sensitive sex --method moments --jobs 4 -o model

A folder of Parquet files is one table. From a million rows on, it is not read into memory. All rows
are learned at once, or task by task with --tasks or --classes-per-task. With --holdout or
--test-column, the model is measured on rows that it does not learn. Only you can read the files of
the model. Before you share it, see --min-cell: sums of small groups reveal people.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_own_arguments(parser.add_argument_group("data"), share="--holdout")
    how = parser.add_argument_group("learning and saving")
    how.add_argument(
        "--method",
        default="auto",
        metavar="NAME",
        help="auto, chosen on held-out rows, or a method by name (default: auto)",
    )
    how.add_argument("--weighting", metavar="NAME", help="sample weighting of a replay method")
    how.add_argument("--measure", metavar="NAME", help="fairness measure (default: eo, or eer)")
    add_favoured_argument(how)
    how.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )
    how.add_argument(
        "--min-cell",
        type=int,
        default=0,
        metavar="K",
        help="for a model that others may read: no group of a class adds fewer than K rows to its "
        "sums in one step; smaller groups are pooled, smaller classes left out (default: 0, exact)",
    )
    how.add_argument("--seed", type=int, default=0, metavar="N", help="seed (default: 0)")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder of the model"
    )
    how.add_argument("--force", action="store_true", help="replace an existing model")
    add_worker_arguments(how)
    add_output(how)
    sites = parser.add_argument_group("several sites, see `faircil merge`")
    sites.add_argument(
        "--plan-only",
        action="store_true",
        help="save only columns and features, from which all sites start, and no sums of rows",
    )
    sites.add_argument(
        "--moments-only",
        action="store_true",
        help="save the sums of the rows without solving, for `faircil merge`",
    )
    sites.add_argument(
        "--like",
        type=Path,
        metavar="MODEL",
        help="use the columns, features, roles and settings of a plan or model, but not its sums",
    )


def command(arguments: argparse.Namespace) -> None:
    """Fit a model, and save it."""
    begin_early(arguments)
    from faircil.compute import choose_device
    from faircil.model.choosing import Wish
    from faircil.model.saved import CONTENT, check_place

    mistakes: list[str] = []
    own = None
    if arguments.like is None:
        own = own_data(arguments, mistakes)
    else:
        mistakes += _beside_like(arguments)
    with collecting(mistakes):
        check_place(arguments.out)
    if (arguments.out / CONTENT).exists() and not arguments.force:
        mistakes.append(
            f"{arguments.out} already has a model; continue with `faircil update {arguments.out}`, "
            "choose another folder, or replace the model with --force"
        )
    mistakes += whole_mistakes(seed=arguments.seed)
    device = ""
    with collecting(mistakes):
        device = str(choose_device(arguments.device))
    check_workers(arguments, mistakes)
    if arguments.plan_only and arguments.moments_only:
        mistakes.append("--plan-only saves no sums and --moments-only saves only sums; give one")
    for_sites = arguments.plan_only or arguments.moments_only
    if for_sites and arguments.method not in ("auto", "moments"):
        mistakes.append(f"method {arguments.method} keeps no sums; use --method moments")
    if not (for_sites or arguments.method == "moments"):  # sums are computed in parts instead
        arguments.set = sharded_settings(arguments, mistakes)
    wish = Wish(
        "moments" if for_sites else arguments.method,
        arguments.weighting,
        arguments.measure,
        tuple(arguments.favoured),
        (*arguments.set, *_settings(arguments)),
    )
    if own is not None:
        with collecting(mistakes):
            wish.check(replace(own, path=""))  # reports mistakes before anything is read
        if not Path(own.path).exists():
            mistakes.append(f"there is no file {own.path}; check the path")
    elif arguments.like is None:
        mistakes.append(
            "nothing to learn from: give a table with --data FILE, or images with --images FOLDER"
        )
    raise_all(mistakes)
    # If the folder cannot be written, `alone` fails before anything is learned.
    with workers(arguments) as engine, alone(arguments, arguments.out):
        _keep(arguments, _fitted(arguments, own, wish, device, engine))


def _settings(arguments: argparse.Namespace) -> list[str]:
    """Return settings that follow from other options."""
    found = [f"min_cell={arguments.min_cell}"] * (arguments.min_cell != 0)
    if arguments.plan_only or arguments.moments_only:
        given = {name.partition("=")[0] for name in arguments.set}
        # Then the sums of all sites equal those of all rows at one site, to twelve digits.
        found += ["arithmetic=float64"] * ("arithmetic" not in given)
    return found


def _beside_like(arguments: argparse.Namespace) -> list[str]:
    """Return mistakes: options that --like already defines, and problems with --like itself."""
    from faircil.model.saved import check_there

    given = {
        *("label", "sensitive", "tasks", "text", "images", "classes_per_task", "ignore"),
        *("use_sensitive", "test_column", "weighting", "measure", "test_share"),
    }
    said = [name for name in sorted(given) if getattr(arguments, name) is not None]
    said += ["set"] * bool(arguments.set) + ["favoured"] * bool(arguments.favoured)
    said += ["method"] * (arguments.method != "auto") + ["plan_only"] * arguments.plan_only
    mistakes = [f"--{name.replace('_', '-')}: --like already defines this" for name in said]
    if arguments.data is None:
        mistakes.append("--like needs --data FILE, the rows of this site")
    try:
        check_there(arguments.like)
    except DataError as error:
        mistakes.append(f"--like: {error}")
    return mistakes


def _fitted(
    arguments: argparse.Namespace, own: OwnData | None, wish: Wish, device: str, engine: Engine
) -> Model:
    """Return the requested model."""
    from faircil.cli.progress import learning
    from faircil.model.merging import plan_of, planned_for
    from faircil.model.saved import load_model
    from faircil.model.table_models import fit_table, update_table

    solve = not (arguments.plan_only or arguments.moments_only)
    if own is None:
        model = planned_for(load_model(arguments.like), arguments.min_cell or None)
        with learning(arguments.data, arguments.quiet) as watcher:
            path, gaps = Path(arguments.data), gaps_of(arguments)
            update_table(model, path, gaps, engine=engine, solve=solve, watcher=watcher)
        return model
    with learning(own.path, arguments.quiet) as watcher:
        model = fit_table(
            own,
            wish,
            hold_out=arguments.test_share is not None,
            task_by_task=arguments.classes_per_task is not None,
            seed=arguments.seed,
            device=device,
            engine=engine,
            solve=solve,
            watcher=watcher,
        )
    return plan_of(model) if arguments.plan_only else model


def _keep(arguments: argparse.Namespace, model: Model) -> None:
    """Save a model, and report on it."""
    from faircil.model.saved import save_model

    save_model(model, arguments.out)
    place = arguments.out
    if arguments.plan_only:
        if arguments.json:
            print_json({"plan": str(place), "notes": model.notes})
        if not arguments.quiet:
            say_notes(model.notes)
            say(
                f"plan in {place}; at each site: faircil fit --like {place} --data FILE "
                "--moments-only -o SITE"
            )
        return
    report(arguments, place, model, model.notes, fitted=True)
    if arguments.quiet:
        return
    if arguments.moments_only:
        say(f"sums in {place}; merge them with those of others: faircil merge {place} … -o MODEL")
        return
    say_where(place, "--images FOLDER" if arguments.data is None else "--data FILE")
