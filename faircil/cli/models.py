"""``faircil fit``, ``update``, ``predict``, ``forget`` and ``show``: models that people use."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.console import duration, say, show_columns
from faircil.cli.run import add_favoured_argument, add_own_arguments, embedding_lines, own_data
from faircil.errors import UsageError, collecting, raise_all

if TYPE_CHECKING:
    from faircil.model.model import Lesson, Model


@dataclass(frozen=True)
class ModelCommand:
    """A command of this module, see :class:`faircil.cli.Command`."""

    EPILOG: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    command: Callable[[argparse.Namespace], None]


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add_own_arguments(parser.add_argument_group("data"))
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
    how.add_argument("--seed", type=int, default=0, metavar="N", help="seed (default: 0)")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder of the model"
    )
    how.add_argument("--quiet", action="store_true", help="show no progress and no notes")


def _fit(arguments: argparse.Namespace) -> None:
    from faircil.compute import choose_device
    from faircil.model.choosing import Wish
    from faircil.model.saved import check_place, save_model
    from faircil.model.tables import fit_table
    from faircil.tuning.auto import AUTO

    mistakes: list[str] = []
    own = own_data(arguments, mistakes)
    if own is None:
        mistakes.append(
            "nothing to learn from: give a table with --data FILE, or images with --images FOLDER"
        )
    with collecting(mistakes):
        check_place(arguments.out)
    device = ""
    with collecting(mistakes):
        device = str(choose_device(arguments.device))

    wish = Wish(
        arguments.method,
        arguments.weighting,
        arguments.measure,
        tuple(arguments.favoured),
        tuple(arguments.set),
    )
    raise_all(mistakes)
    assert own is not None  # else there was a mistake
    if arguments.method != AUTO:
        wish.config(own)  # names mistakes before anything is read
    model = fit_table(
        own, wish, seed=arguments.seed, device=device, progress=embedding_lines(arguments)
    )
    save_model(model, arguments.out)
    if not arguments.quiet:
        for note in model.notes:
            say(f"note: {note}")
        _tell(model.lessons[-1], model)
        what = "--images FOLDER" if Path(own.path).is_dir() else "--data FILE"
        say(f"model in {arguments.out}; predict with: faircil predict {arguments.out} {what}")


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
    parser.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="another folder (default: the same)"
    )
    parser.add_argument("--quiet", action="store_true", help="show no notes")


def _update(arguments: argparse.Namespace) -> None:
    from faircil.model.saved import load_model, save_model
    from faircil.model.tables import update_table

    model = load_model(arguments.model)
    before = len(model.notes)
    lesson = update_table(model, arguments.data, progress=embedding_lines(arguments))
    save_model(model, arguments.out or arguments.model)
    if not arguments.quiet:
        for note in model.notes[before:]:
            say(f"note: {note}")
        _tell(lesson, model)


def _forget(arguments: argparse.Namespace) -> None:
    from faircil.model.saved import load_model, save_model
    from faircil.model.tables import forget_table

    model = load_model(arguments.model)
    lesson = forget_table(model, arguments.data, progress=embedding_lines(arguments))
    save_model(model, arguments.out or arguments.model)
    if not arguments.quiet:
        say(f"{-lesson.rows:,} rows forgotten: the model is the one that never saw them")


def _tell(lesson: Lesson, model: Model) -> None:
    new = f", new classes: {', '.join(lesson.new_classes)}" if lesson.new_classes else ""
    say(
        f"{model.config.label} learned {lesson.rows:,} rows in {duration(lesson.seconds)}{new}; "
        f"{len(model.labels)} classes in all"
    )


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
    parser.add_argument("--quiet", action="store_true", help="show no notes")


def _predict(arguments: argparse.Namespace) -> None:
    from faircil.model.saved import load_model
    from faircil.model.tables import predict_table

    out: Path = arguments.out
    mistakes = []
    if out.suffix not in (".csv", ".parquet"):
        mistakes.append(f"--out is {out}; expected a name that ends in .csv or .parquet")
    if out.exists() and not arguments.force:
        mistakes.append(f"{out} is there already; choose another name, or replace it with --force")
    raise_all(mistakes)
    model = load_model(arguments.model)
    table, notes = predict_table(
        model,
        arguments.data,
        arguments.keep,
        probabilities=arguments.probabilities,
        progress=embedding_lines(arguments),
    )
    try:
        if out.suffix == ".csv":
            table.to_csv(out, index=False)
        else:
            table.to_parquet(out, index=False)
    except ImportError:
        raise UsageError(
            "a .parquet file needs the pyarrow package: pip install 'faircil[text]', or write .csv"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {out}: {error.strerror or error}; choose another place"
        ) from None
    if not arguments.quiet:
        for note in notes:
            say(f"note: {note}")
        say(f"{len(table):,} predictions in {out}")


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def _show(arguments: argparse.Namespace) -> None:
    from faircil.model.saved import load_model, size_of, summary_of

    model = load_model(arguments.model)
    if arguments.json:
        print(json.dumps(summary_of(model), indent=2, ensure_ascii=False))  # noqa: T201
        return
    rows = [
        (
            one.at,
            f"{one.rows:,}",
            ", ".join(one.new_classes) or "–",
            duration(one.seconds),
        )
        for one in model.lessons
    ]
    show_columns("What it learned, and when", ("at (UTC)", "rows", "new classes", "took"), rows)
    counted = [(g.label, g.value or "unknown", f"{g.rows:,}") for g in model.seen]
    attribute = " × ".join(model.config.own.sensitive) if model.config.own else ""
    show_columns("From whom", ("class", attribute or "group", "rows"), counted)
    for note in model.notes:
        say(f"note: {note}")
    say(
        f"method {model.config.label}, measure {model.config.measure}; "
        f"{size_of(arguments.model) / 1e6:.1f} MB; rows of people that it holds: {model.rows_kept}"
    )


fit = ModelCommand(
    """examples:
  faircil fit --data train.csv --label job --sensitive sex -o model
  faircil fit --data train.csv --label job --sensitive sex race --method moments -o model
  faircil fit --data train.csv --images photo --label job --sensitive sex -o model
  faircil fit --images photos -o model

All rows are learned at once, or task by task with --tasks. Files of the model are for you alone.
""",
    _add_fit,
    _fit,
)
update = ModelCommand(
    """example:
  faircil update model --data new.csv

The table has the columns of the first one; classes and attribute values may be new.
""",
    _add_update,
    _update,
)
predict = ModelCommand(
    """example:
  faircil predict model --data rows.csv --keep id -o predictions.csv
  faircil predict model --images new-photos -o predictions.csv

Of images, the path is kept.
""",
    _add_predict,
    _predict,
)
forget = ModelCommand(
    """example:
  faircil forget model --data rows.csv

Only method `moments` can forget. The rows are given as they were learned, with their class.
""",
    _add_update,
    _forget,
)
show = ModelCommand(
    """example:
  faircil show model
""",
    _add_show,
    _show,
)
