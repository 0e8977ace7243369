"""``faircil fit``, ``update``, ``predict``, ``forget`` and ``show``: models that people use."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli import Parts
from faircil.cli.common_options import (
    add_favoured_argument,
    add_gap_arguments,
    add_own_arguments,
    add_worker_arguments,
    begin_early,
    check_workers,
    own_data,
    sharded_settings,
    workers,
)
from faircil.cli.console import duration, print_json, say, say_notes
from faircil.errors import (
    MOST_NAMES,
    DataError,
    collecting,
    raise_all,
    shortened,
    whole_mistakes,
)

if TYPE_CHECKING:
    from faircil.data.own import OwnData
    from faircil.engines import Engine
    from faircil.model.choosing import Wish
    from faircil.model.history import Measured
    from faircil.model.model import Model
    from faircil.model.table_rows import Gaps


def _add_fit(parser: argparse.ArgumentParser) -> None:
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


def add_output(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare how a command shows its results."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def _fit(arguments: argparse.Namespace) -> None:
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
    if not (for_sites or arguments.method == "moments"):  # sums are shared part by part
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
            wish.check(replace(own, path=""))  # names mistakes before anything is read
        if not Path(own.path).exists():
            mistakes.append(f"there is no file {own.path}; check the path")
    elif arguments.like is None:
        mistakes.append(
            "nothing to learn from: give a table with --data FILE, or images with --images FOLDER"
        )
    raise_all(mistakes)
    # The second fails before anything is learned if the folder cannot be written.
    with workers(arguments) as engine, _alone(arguments, arguments.out):
        _keep(arguments, _fitted(arguments, own, wish, device, engine))


def _settings(arguments: argparse.Namespace) -> list[str]:
    """Return settings that follow from other options."""
    found = [f"min_cell={arguments.min_cell}"] * (arguments.min_cell != 0)
    if arguments.plan_only or arguments.moments_only:
        given = {name.partition("=")[0] for name in arguments.set}
        # Sums of sites are those of all rows at one site, to twelve digits.
        found += ["arithmetic=float64"] * ("arithmetic" not in given)
    return found


def _beside_like(arguments: argparse.Namespace) -> list[str]:
    """Return options that contradict --like, which says the same, and other mistakes of it."""
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
    """Make the model that is wanted."""
    from faircil.cli.progress import learning
    from faircil.model.merging import plan_of, planned_for
    from faircil.model.saved import load_model
    from faircil.model.table_models import fit_table, update_table

    solve = not (arguments.plan_only or arguments.moments_only)
    if own is None:
        model = planned_for(load_model(arguments.like), arguments.min_cell or None)
        with learning(arguments.data, arguments.quiet) as watcher:
            path, gaps = Path(arguments.data), _gaps(arguments)
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
    """Save a model, and say what it is."""
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
    _report(arguments, place, model, model.notes, fitted=True)
    if arguments.quiet:
        return
    if arguments.moments_only:
        say(f"sums in {place}; merge them with those of others: faircil merge {place} … -o MODEL")
        return
    _say_where(place, "--images FOLDER" if arguments.data is None else "--data FILE")


def _say_where(place: Path, what: str = "--data FILE") -> None:
    """Say where a model is, and the command to go on with."""
    command = shlex.join(["faircil", "predict", str(place)])
    say(f"model in {place}; predict with: {command} {what} -o predictions.csv")


def _report(
    arguments: argparse.Namespace,
    folder: Path,
    model: Model,
    notes: Sequence[str],
    *,
    fitted: bool = False,
) -> None:
    """Say what a model has just learned, all of it or last, or forgotten; maybe as JSON."""
    from faircil.cli.progress import first_metrics
    from faircil.model.card import lesson_document, summary_of
    from faircil.model.saved import size_of

    lesson = model.lessons[-1]
    notes = [*notes, *model.said, *revealing_notes(model)]
    if arguments.json:
        print_json(
            {
                "model": str(folder),
                "bytes": size_of(folder),
                "lesson": lesson_document(lesson),
                "notes": list(notes),
                "summary": summary_of(model),
            }
        )
    if arguments.quiet:
        return
    say_notes(notes)
    if lesson.rows < 0:
        say(f"{-lesson.rows:,} rows forgotten: the model's sums are as if it had never seen them")
        return
    now = model.lessons if fitted else [lesson]
    # Of merged sites, several may have met the same class first.
    names = list(dict.fromkeys(f"'{name}'" for one in now for name in one.new_classes))
    new = f", new classes: {shortened(names, MOST_NAMES)}" if names else ""
    say(
        f"{model.config.label} learned {sum(one.rows for one in now):,} rows in "
        f"{duration(sum(one.seconds for one in now))}{new}; {len(model.labels)} classes in all; "
        f"{size_of(folder) / 1e6:.1f} MB"
    )
    if model.measured and model.measured[-1].lessons == len(model.lessons):
        last = model.measured[-1]
        figures = zip(first_metrics(model.config), measured_values(model, last), strict=True)
        said = ", ".join(f"{name} {value}" for name, value in figures)
        say(f"on {last.rows:,} {last.on}: {said}")


def revealing_notes(model: Model) -> list[str]:
    """Say what sums of very few people a model has, if it has any."""
    told = model.revealing("again with `faircil fit --min-cell 10`")
    return [] if told is None else [told]


def measured_values(model: Model, measured: Measured) -> tuple[str, ...]:
    """Return what a model was measured by, as text."""
    from faircil.cli.progress import first_metrics
    from faircil.report import format_value

    return tuple(format_value(measured.metrics.get(name)) for name in first_metrics(model.config))


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of a model."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the model")


def add_rows(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare where the rows are."""
    parser.add_argument(
        *("--data", "--images"),
        dest="data",
        type=Path,
        required=True,
        metavar="FILE|FOLDER",
        help=f"{what}, a folder of Parquet, Arrow or .npy files, or of images",
    )


def _add_update(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_rows(parser, "a table")
    add_gap_arguments(parser)
    parser.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="folder to save to (default: that of MODEL)"
    )
    add_output(parser)


def _add_shared_update(parser: argparse.ArgumentParser) -> None:
    _add_update(parser)
    add_worker_arguments(parser)


def _update(arguments: argparse.Namespace) -> None:
    begin_early(arguments)
    mistakes: list[str] = []
    check_workers(arguments, mistakes)
    raise_all(mistakes)
    with workers(arguments) as engine, _changing(arguments) as model:
        before = len(model.notes)
        _updated(arguments, model, engine)
        _save_and_report(arguments, model, model.notes[before:])


def _updated(arguments: argparse.Namespace, model: Model, engine: Engine) -> None:
    """Let a model learn the rows of a table; a model without a solution stays so."""
    from faircil.cli.progress import learning
    from faircil.model.table_models import update_table

    path, gaps, solve = arguments.data, _gaps(arguments), not model.sums_only
    with learning(str(path), arguments.quiet) as watcher:
        update_table(model, path, gaps, engine=engine, solve=solve, watcher=watcher)


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL", help="folders of sums, or of models"
    )
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder of the merged model"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing model")
    add_output(parser)


def _merge(arguments: argparse.Namespace) -> None:
    from faircil.files import resolved
    from faircil.model.merging import merge_models
    from faircil.model.saved import CONTENT, check_place, load_model, save_model

    mistakes: list[str] = []
    with collecting(mistakes):
        check_place(arguments.out)
    if (arguments.out / CONTENT).exists() and not arguments.force:
        mistakes.append(
            f"{arguments.out} already has a model; choose another folder, or use --force"
        )
    folders = [resolved(path) for path in arguments.models]
    twice = [str(path) for path in dict.fromkeys(folders) if folders.count(path) > 1]
    mistakes += [f"{path} is named twice, and would count twice" for path in twice]
    mistakes += [
        f"{path} is one of the models to merge, and would be replaced"
        for path in folders
        if path == resolved(arguments.out)
    ]
    raise_all(mistakes)
    with _alone(arguments, arguments.out):
        model = merge_models([load_model(path) for path in arguments.models])
        save_model(model, arguments.out)
    _report(arguments, arguments.out, model, model.notes, fitted=True)
    if not arguments.quiet:
        _say_where(arguments.out)


def _forget(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.model.table_models import forget_table

    with _changing(arguments) as model:
        with learning(str(arguments.data), arguments.quiet, "forgetting") as watcher:
            notes = forget_table(model, arguments.data, _gaps(arguments), watcher=watcher)
        _save_and_report(arguments, model, notes)


def _gaps(arguments: argparse.Namespace) -> Gaps:
    from faircil.model.table_rows import Gaps

    return Gaps(bool(arguments.drop_missing), bool(arguments.unknown_group))


@contextmanager
def _changing(arguments: argparse.Namespace) -> Iterator[Model]:
    """Read a model that is to be changed."""
    from faircil.model.saved import check_place, check_there, load_model

    check_there(arguments.model)
    check_place(arguments.out or arguments.model)
    with _alone(arguments, arguments.out or arguments.model):
        yield load_model(arguments.model)


@contextmanager
def _alone(arguments: argparse.Namespace, folder: Path) -> Iterator[None]:
    """Keep other processes from changing a model; say that one is waited for."""
    from faircil.model.saved import changing

    def waiting() -> None:
        if not arguments.quiet:
            say(f"another process is changing {folder}; waiting for it")

    with changing(folder, waiting):
        yield


def _save_and_report(arguments: argparse.Namespace, model: Model, notes: Sequence[str]) -> None:
    from faircil.model.saved import save_model

    folder = arguments.out or arguments.model
    save_model(model, folder)
    _report(arguments, folder, model, notes)


fit = Parts(
    """examples:
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
""",
    _add_fit,
    _fit,
)
update = Parts(
    """example:
  faircil update model --data new.csv

The table needs the columns of the first one; classes and attribute values may be new.
""",
    _add_shared_update,
    _update,
)
merge = Parts(
    """examples:
  faircil fit --data some.csv --label job --sensitive sex --plan-only -o plan
  faircil fit --like plan --data a.csv --moments-only -o a
  faircil fit --like plan --data b.csv --moments-only -o b
  faircil merge a b -o model

Each site gets the plan and runs the second line on its own rows; then the folders of sums are
merged. The result is the model of all rows in one place, but no site shares its rows. Sums of small
groups can reveal people: see --min-cell of `faircil fit`.
""",
    _add_merge,
    _merge,
)
forget = Parts(
    """example:
  faircil forget model --data rows.csv

Only method `moments` can forget. Pass the rows as they were learned, with their class.
""",
    _add_update,
    _forget,
)
