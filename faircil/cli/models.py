"""``faircil update``, ``merge``, ``forget`` and ``show``: commands for existing models.

``faircil fit`` uses the same report on a model.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli import Parts
from faircil.cli.common_options import (
    add_gap_arguments,
    add_worker_arguments,
    begin_early,
    check_workers,
    workers,
)
from faircil.cli.console import duration, print_json, say, say_notes, show_columns
from faircil.errors import MOST_NAMES, collecting, raise_all, shortened

if TYPE_CHECKING:
    from faircil.engines import Engine
    from faircil.model.history import GroupRows, Measured
    from faircil.model.model import Model
    from faircil.model.table_rows import Gaps


def add_output(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare the options for the output of a command."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def say_where(place: Path, what: str = "--data FILE") -> None:
    """Print where a model is, and the command that predicts with it."""
    command = shlex.join(["faircil", "predict", str(place)])
    say(f"model in {place}; predict with: {command} {what} -o predictions.csv")


def report(
    arguments: argparse.Namespace,
    folder: Path,
    model: Model,
    notes: Sequence[str],
    *,
    fitted: bool = False,
) -> None:
    """Print what a model has just learned or forgotten, also as JSON if requested.

    With ``fitted``, all lessons are reported, otherwise the last one.
    """
    from faircil.cli.progress import first_metrics
    from faircil.model.card import lesson_document, summary_of
    from faircil.model.saved import size_of

    lesson = model.lessons[-1]
    notes = [*notes, *model.said, *_revealing_notes(model)]
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
    # After a merge, several sites may list the same class as new.
    names = list(dict.fromkeys(f"'{name}'" for one in now for name in one.new_classes))
    new = f", new classes: {shortened(names, MOST_NAMES)}" if names else ""
    say(
        f"{model.config.label} learned {sum(one.rows for one in now):,} rows in "
        f"{duration(sum(one.seconds for one in now))}{new}; {len(model.labels)} classes in all; "
        f"{size_of(folder) / 1e6:.1f} MB"
    )
    if model.measured and model.measured[-1].lessons == len(model.lessons):
        last = model.measured[-1]
        figures = zip(first_metrics(model.config), _measured_values(model, last), strict=True)
        said = ", ".join(f"{name} {value}" for name, value in figures)
        say(f"on {last.rows:,} {last.on}: {said}")


def _revealing_notes(model: Model) -> list[str]:
    """Return the warning about sums over very few people, in a list of one or none."""
    told = model.revealing("again with `faircil fit --min-cell 10`")
    return [] if told is None else [told]


def _measured_values(model: Model, measured: Measured) -> tuple[str, ...]:
    """Return the main metrics of a measurement, as text."""
    from faircil.cli.progress import first_metrics
    from faircil.report import format_value

    return tuple(format_value(measured.metrics.get(name)) for name in first_metrics(model.config))


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the argument for the folder of a model."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the model")


def add_rows(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare the option for the rows."""
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
    """Let a model learn the rows of a table, without solving if it has only sums."""
    from faircil.cli.progress import learning
    from faircil.model.table_models import update_table

    path, gaps, solve = arguments.data, gaps_of(arguments), not model.sums_only
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
    with alone(arguments, arguments.out):
        model = merge_models([load_model(path) for path in arguments.models])
        save_model(model, arguments.out)
    report(arguments, arguments.out, model, model.notes, fitted=True)
    if not arguments.quiet:
        say_where(arguments.out)


def _forget(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.model.table_models import forget_table

    with _changing(arguments) as model:
        with learning(str(arguments.data), arguments.quiet, "forgetting") as watcher:
            notes = forget_table(model, arguments.data, gaps_of(arguments), watcher=watcher)
        _save_and_report(arguments, model, notes)


def gaps_of(arguments: argparse.Namespace) -> Gaps:
    """Return how rows with missing values are handled."""
    from faircil.model.table_rows import Gaps

    return Gaps(bool(arguments.drop_missing), bool(arguments.unknown_group))


@contextmanager
def _changing(arguments: argparse.Namespace) -> Iterator[Model]:
    """Load a model to change it, and keep other processes from changing it."""
    from faircil.model.saved import check_place, check_there, load_model

    check_there(arguments.model)
    check_place(arguments.out or arguments.model)
    with alone(arguments, arguments.out or arguments.model):
        yield load_model(arguments.model)


@contextmanager
def alone(arguments: argparse.Namespace, folder: Path) -> Iterator[None]:
    """Keep other processes from changing a model; print a line while waiting for one."""
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
    report(arguments, folder, model, notes)


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def _show(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import first_metrics
    from faircil.model.card import summary_of, unmeasured
    from faircil.model.saved import card_notes, load_model, size_of

    model = load_model(arguments.model)
    size = size_of(arguments.model)
    cards = card_notes(arguments.model)
    if arguments.json:
        print_json({**summary_of(model), "bytes": size, "cards": cards})
        return
    rows = [
        (
            _minute(one.at),
            f"{one.rows:,}",
            ", ".join(one.new_classes) or "–",
            duration(one.seconds),
        )
        for one in model.lessons
    ]
    show_columns("What it learned, and when", ("at (UTC)", "rows", "new classes", "took"), rows)
    attribute = " × ".join(model.config.own.sensitive) if model.config.own else ""
    _show_groups(model, attribute or "group")
    if model.measured:
        names = first_metrics(model.config)
        show_columns(
            "How fair it was when measured",
            ("at (UTC)", "on", "rows", *names),
            [
                (_minute(one.at), one.on, f"{one.rows:,}", *_measured_values(model, one))
                for one in model.measured
            ],
        )
        say("accuracy: mean over classes; `faircil list metrics` explains the others")
    say_notes([*model.notes, *_revealing_notes(model)])
    say_notes(cards)
    for sentence in unmeasured(model):
        say(sentence)
    say(
        f"method {model.config.label}, measure {model.config.measure}; {size / 1e6:.1f} MB; "
        f"stored rows of people: {model.rows_kept}{_noise(model)}"
    )


def _noise(model: Model) -> str:
    """Describe the noise on a model's sums, if there is any."""
    noise = getattr(model.learner, "noise", None)
    return "" if noise is None else f"; noise for ε = {noise.epsilon:g}, δ = {noise.delta:g}"


def _minute(time: str) -> str:
    """Format a time of a model to the minute."""
    return time.replace("T", " ")[:16]


def _show_groups(model: Model, attribute: str) -> None:
    """Show the number of rows learned of each group, and its accuracy when last measured."""
    from faircil.report import format_value

    measured = next((one for one in reversed(model.measured) if one.groups), None)
    found = {(one.label, one.attribute): one for one in measured.groups} if measured else {}

    def cells(group: GroupRows) -> tuple[str, ...]:
        name = (group.label, group.value or ("unknown" if model.values else "all"))
        learned = (*name, f"{group.rows:,}")
        if measured is None:
            return learned
        one = found.get((group.label, group.value))
        return (*learned, *((f"{one.n:,}", format_value(one.accuracy)) if one else ("–", "–")))

    header = ("class", attribute, "rows") + ("measured on", "accuracy") * (measured is not None)
    show_columns("From whom", header, [cells(group) for group in model.seen])


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
show = Parts(
    """examples:
  faircil show model
  faircil show runs/people/moments-eo-HASH-CODE/seed-0/model

Fairness is shown as it was on the rows that the model was last measured on.
""",
    _add_show,
    _show,
)
