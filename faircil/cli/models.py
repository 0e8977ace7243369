"""``faircil fit``, ``update``, ``predict``, ``forget`` and ``show``: models that people use."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli import Parts
from faircil.cli.console import duration, print_json, say, say_notes, show_columns
from faircil.cli.own_options import (
    add_favoured_argument,
    add_gap_arguments,
    add_own_arguments,
    own_data,
)
from faircil.cli.sharing import shared
from faircil.errors import MOST_NAMES, UsageError, collecting, raise_all, shortened
from faircil.files import refuse_input

DIGITS = "%.6g"  # of probabilities in CSV; Parquet has them all

if TYPE_CHECKING:
    from faircil.model.history import GroupRows, Measured
    from faircil.model.model import Model
    from faircil.model.tables import Gaps


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add_own_arguments(parser.add_argument_group("data"), share="--holdout")
    how = parser.add_argument_group("how to learn, and where to keep it")
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
        "sums at once; smaller groups are pooled, smaller classes left out (default: 0, exact)",
    )
    how.add_argument("--seed", type=int, default=0, metavar="N", help="seed (default: 0)")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder of the model"
    )
    how.add_argument("--force", action="store_true", help="replace a model that is there")
    _add_output(how)


def _add_output(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="show no progress and no notes")


def _fit(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.compute import choose_device
    from faircil.model.choosing import Wish
    from faircil.model.saved import CONTENT, check_place, save_model
    from faircil.model.tables import fit_table

    mistakes: list[str] = []
    own = own_data(arguments, mistakes)
    with collecting(mistakes):
        check_place(arguments.out)
    if (arguments.out / CONTENT).exists() and not arguments.force:
        mistakes.append(
            f"{arguments.out} has a model already; go on with `faircil update {arguments.out}`, "
            "choose another folder, or replace the model with --force"
        )
    device = ""
    with collecting(mistakes):
        device = str(choose_device(arguments.device))
    arguments.set = shared(arguments, mistakes)
    wish = Wish(
        arguments.method,
        arguments.weighting,
        arguments.measure,
        tuple(arguments.favoured),
        (*arguments.set, *[f"min_cell={arguments.min_cell}"] * (arguments.min_cell != 0)),
    )
    if own is None:
        mistakes.append(
            "nothing to learn from: give a table with --data FILE, or images with --images FOLDER"
        )
    else:
        with collecting(mistakes):
            wish.check(own)  # names mistakes before anything is read
    raise_all(mistakes)
    assert own is not None  # else there was a mistake
    with _alone(arguments, arguments.out):  # which also tells at once if it cannot be written
        with learning(own.path, arguments.quiet) as watcher:
            model = fit_table(
                own,
                wish,
                hold_out=arguments.test_share is not None,
                task_by_task=arguments.classes_per_task is not None,
                seed=arguments.seed,
                device=device,
                watcher=watcher,
            )
        save_model(model, arguments.out)
    _report(arguments, arguments.out, model, model.notes, fitted=True)
    if not arguments.quiet:
        what = "--images FOLDER" if Path(own.path).is_dir() else "--data FILE"
        say(f"model in {arguments.out}; predict with: faircil predict {arguments.out} {what}")


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
    notes = [*notes, *_revealing(model)]
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
        say(f"{-lesson.rows:,} rows forgotten: its sums are as if it had never seen them")
        return
    now = model.lessons if fitted else [lesson]
    names = [f"'{name}'" for one in now for name in one.new_classes]
    new = f", new classes: {shortened(names, MOST_NAMES)}" if names else ""
    say(
        f"{model.config.label} learned {sum(one.rows for one in now):,} rows in "
        f"{duration(sum(one.seconds for one in now))}{new}; {len(model.labels)} classes in all; "
        f"{size_of(folder) / 1e6:.1f} MB"
    )
    if model.measured and model.measured[-1].lessons == len(model.lessons):
        last = model.measured[-1]
        figures = zip(first_metrics(model.config), _values(model, last), strict=True)
        said = ", ".join(f"{name} {value}" for name, value in figures)
        say(f"on {last.rows:,} {last.on}: {said}")


def _revealing(model: Model) -> list[str]:
    """Say what sums of very few people a model has, if it has any."""
    told = model.revealing("again with `faircil fit --min-cell 10`")
    return [] if told is None else [told]


def _values(model: Model, measured: Measured) -> tuple[str, ...]:
    """Return what a model was measured by, as text."""
    from faircil.cli.progress import first_metrics
    from faircil.report import format_value

    return tuple(format_value(measured.metrics.get(name)) for name in first_metrics(model.config))


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the model")


def _add_rows(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        *("--data", "--images"),
        dest="data",
        type=Path,
        required=True,
        metavar="FILE|FOLDER",
        help=f"{what}, or a folder of images",
    )


def _add_update(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_rows(parser, "a table")
    add_gap_arguments(parser)
    parser.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="another folder (default: the same)"
    )
    _add_output(parser)


def _update(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.model.tables import update_table

    with _changing(arguments) as model:
        before = len(model.notes)
        with learning(str(arguments.data), arguments.quiet) as watcher:
            update_table(model, arguments.data, _gaps(arguments), watcher=watcher)
        _save_and_report(arguments, model, model.notes[before:])


def _forget(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.model.tables import forget_table

    with _changing(arguments) as model:
        with learning(str(arguments.data), arguments.quiet, "forgetting") as watcher:
            notes = forget_table(model, arguments.data, _gaps(arguments), watcher=watcher)
        _save_and_report(arguments, model, notes)


def _gaps(arguments: argparse.Namespace) -> Gaps:
    from faircil.model.tables import Gaps

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
            say(f"another process changes {folder}; waiting for it")

    with changing(folder, waiting):
        yield


def _save_and_report(arguments: argparse.Namespace, model: Model, notes: Sequence[str]) -> None:
    from faircil.model.saved import save_model

    folder = arguments.out or arguments.model
    save_model(model, folder)
    _report(arguments, folder, model, notes)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_rows(
        parser,
        "a table with the columns that the model was fitted with, of which the class and sensitive "
        "attributes are not needed",
    )
    parser.add_argument(
        *("-o", "--out"),
        type=Path,
        required=True,
        metavar="FILE",
        help="a new .csv or .parquet file of predictions",
    )
    parser.add_argument(
        "--keep", nargs="+", default=[], metavar="COLUMN", help="columns to keep, such as an id"
    )
    parser.add_argument(
        "--probabilities", action="store_true", help="the probability of every class"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    _add_output(parser)


def _predict(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.files import open_private
    from faircil.model.saved import CONTENT, load_model
    from faircil.model.tables import predict_table

    out: Path = arguments.out
    mistakes = []
    if out.suffix not in (".csv", ".parquet"):
        mistakes.append(f"--out is {out}; expected a name that ends in .csv or .parquet")
    if (out.parent / CONTENT).exists():
        mistakes.append(f"{out} would be among the files of a model; choose another place")
    if out.exists() and not arguments.force:
        mistakes.append(f"{out} is there already; choose another name, or replace it with --force")
    raise_all(mistakes)
    if arguments.data is not None:
        refuse_input(out, arguments.data)
    model = load_model(arguments.model)
    with learning(str(arguments.data), arguments.quiet, "predicting") as watcher:
        table, notes = predict_table(
            model,
            arguments.data,
            list(dict.fromkeys(arguments.keep)),
            probabilities=arguments.probabilities,
            watcher=watcher,
        )
    partial = out.with_name(f".{out.name}.partial")  # a file that is there stays whole
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # a new file, not one that somebody put there to read it
        if out.suffix == ".csv":
            with open_private(partial, "x", newline="") as file:
                table.to_csv(file, index=False, float_format=DIGITS)
        else:
            with open_private(partial, "xb") as file:
                table.to_parquet(file, index=False)
        partial.replace(out)
    except ImportError:
        raise UsageError(
            "a .parquet file needs the pyarrow package: pip install pyarrow, or write .csv"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {out}: {error.strerror or error}; choose another place"
        ) from None
    finally:
        partial.unlink(missing_ok=True)
    if arguments.json:
        counts = table["prediction"].astype(str).value_counts()
        print_json(
            {
                "model": str(arguments.model),
                "out": str(out),
                "rows": len(table),
                "predicted": {name: int(counts.get(name, 0)) for name in model.names},
                "notes": notes,
            }
        )
    if not arguments.quiet:
        say_notes(notes)
        say(f"{len(table):,} predictions in {out}")


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
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
                (_minute(one.at), one.on, f"{one.rows:,}", *_values(model, one))
                for one in model.measured
            ],
        )
        say("accuracy: mean over classes; `faircil list metrics` explains the others")
    say_notes([*model.notes, *_revealing(model)])
    say_notes(cards)
    for sentence in unmeasured(model):
        say(sentence)
    say(
        f"method {model.config.label}, measure {model.config.measure}; {size / 1e6:.1f} MB; "
        f"rows of people that it holds: {model.rows_kept}"
    )


def _minute(time: str) -> str:
    """Return a time of a model as people read it."""
    return time.replace("T", " ")[:16]


def _show_groups(model: Model, attribute: str) -> None:
    """Show what was learned of each group, and how well it was predicted when last measured."""
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


fit = Parts(
    """examples:
  faircil fit --data train.csv --label job --sensitive sex -o model
  faircil fit --data train.csv --label job --sensitive sex race --method moments -o model
  faircil fit --data train.csv --label job --sensitive sex --holdout 0.2 -o model
  faircil fit --data train.csv --images photo --label job --sensitive sex -o model
  faircil fit --images photos -o model

All rows are learned at once, or task by task with --tasks or --classes-per-task. With --holdout or
--test-column, the model is measured on rows that it does not learn. Files of the model are for you
alone. Before others may read it, see --min-cell: sums of small groups reveal people.
""",
    _add_fit,
    _fit,
)
update = Parts(
    """example:
  faircil update model --data new.csv

The table has the columns of the first one; classes and attribute values may be new.
""",
    _add_update,
    _update,
)
predict = Parts(
    """example:
  faircil predict model --data rows.csv --keep id -o predictions.csv
  faircil predict model --images new-photos -o predictions.csv

Of images, the path is kept. The file is for you alone.
""",
    _add_predict,
    _predict,
)
forget = Parts(
    """example:
  faircil forget model --data rows.csv

Only method `moments` can forget. The rows are given as they were learned, with their class.
""",
    _add_update,
    _forget,
)
show = Parts(
    """example:
  faircil show model
  faircil show runs/people/moments-eo-HASH-CODE/seed-0/model

What it learned, from whom, and how fair it was on the rows that it was measured on.
""",
    _add_show,
    _show,
)
