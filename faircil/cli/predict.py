"""``faircil predict``: predictions of a model, written part by part."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from faircil.cli.common_options import add_worker_arguments, begin_early, check_workers, workers
from faircil.cli.console import print_json, say, say_notes
from faircil.cli.models import add_model, add_output, add_rows
from faircil.errors import UsageError, raise_all
from faircil.files import clear_partials, locked, open_private, refuse_input, replacing

if TYPE_CHECKING:
    import pandas as pd

    from faircil.engines import Engine
    from faircil.model.model import Model

DIGITS = "%.6g"  # for probabilities in CSV; Parquet has all digits
EPILOG = """examples:
  faircil predict model --data rows.csv --keep id -o predictions.csv
  faircil predict model --data big/ --jobs 4 -o predictions.parquet
  faircil predict model --images new-photos -o predictions.csv

For images, the output includes the path. Only you can read the file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    add_rows(
        parser,
        "a table with the columns that the model was fitted on, where the class and sensitive "
        "attributes may be missing",
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
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_worker_arguments(parser)
    add_output(parser)


class Writer(Protocol):
    """Writes predictions, part by part."""

    def write(self, table: pd.DataFrame) -> None:
        """Append rows."""


class CsvWriter:
    """Writes CSV, with a header line."""

    def __init__(self, path: Path) -> None:
        self.file = open_private(path, "w", newline="")
        self._begun = False

    def write(self, table: pd.DataFrame) -> None:
        """Append rows."""
        # Probabilities are last; kept columns, such as numeric ids, keep all digits.
        names = list(table.columns)
        last = names[names.index("prediction") + 1 :]
        short = {name: table[name].map(DIGITS.__mod__) for name in last}
        table.assign(**short).to_csv(self.file, index=False, header=not self._begun)
        self._begun = True

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class ParquetWriter:
    """Writes Parquet, one row group at a time; the first rows determine the column types."""

    def __init__(self, path: Path) -> None:
        self.file = open_private(path, "wb")
        self._writer: Any = None

    def write(self, table: pd.DataFrame) -> None:
        """Append rows."""
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        if self._writer is None:
            found = arrow.Schema.from_pandas(table, preserve_index=False)
            # A kept text column may have no value in the first rows.
            types = [arrow.string() if arrow.types.is_null(each) else each for each in found.types]
            schema = arrow.schema(list(zip(found.names, types, strict=True)))
            self._writer = parquet.ParquetWriter(self.file, schema)
        rows = arrow.Table.from_pandas(table, schema=self._writer.schema, preserve_index=False)
        self._writer.write_table(rows)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
        self.file.close()


@contextmanager
def written(out: Path) -> Iterator[Writer]:
    """Write a new file, which is moved into place when complete; one process at a time."""
    lock = out.with_name(f".{out.name}.lock")
    try:
        with locked(lock) as alone:
            if not alone:
                raise UsageError(
                    f"another process is writing {out}; wait for it, or choose another name"
                )
            try:
                clear_partials(out)
                with replacing(out) as partial:  # an existing file stays complete
                    writer = CsvWriter(partial) if out.suffix == ".csv" else ParquetWriter(partial)
                    try:
                        yield writer
                    finally:
                        writer.close()
            finally:
                lock.unlink(missing_ok=True)
    except ImportError:
        raise UsageError(
            "a .parquet file needs the pyarrow package: pip install pyarrow, or write .csv"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {out}: {error.strerror or error}; choose another place"
        ) from None


def command(arguments: argparse.Namespace) -> None:
    """Predict the rows of a table, and write them."""
    begin_early(arguments)
    from faircil.model.saved import CONTENT, load_model

    out: Path = arguments.out
    mistakes: list[str] = []
    if out.suffix not in (".csv", ".parquet"):
        mistakes.append(f"--out is {out}; expected a name that ends in .csv or .parquet")
    if (out.parent / CONTENT).exists():
        mistakes.append(f"{out} would be among the files of a model; choose another place")
    if out.exists() and not arguments.force:
        mistakes.append(f"{out} already exists; choose another name, or replace it with --force")
    check_workers(arguments, mistakes)
    raise_all(mistakes)
    refuse_input(out, arguments.data)
    model = load_model(arguments.model)
    counts: Counter[str] = Counter()
    with workers(arguments) as engine:
        parts = _predictions(arguments, model, engine)
        rows, notes = next(parts)  # mistakes are reported before a file is created
        with written(out) as writer:
            while True:
                writer.write(rows)
                counts.update(map(str, rows["prediction"]))
                if (more := next(parts, None)) is None:
                    break
                rows, notes = more
    if arguments.json:
        print_json(
            {
                "model": str(arguments.model),
                "out": str(out),
                "rows": counts.total(),
                "predicted": {name: counts[name] for name in model.names},
                "notes": notes,
            }
        )
    if not arguments.quiet:
        say_notes(notes)
        say(f"{counts.total():,} predictions in {out}")


def _predictions(
    arguments: argparse.Namespace, model: Model, engine: Engine
) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Predict rows, and show progress."""
    from faircil.cli.progress import learning
    from faircil.model.table_models import predict_table

    keep = list(dict.fromkeys(arguments.keep))
    with learning(str(arguments.data), arguments.quiet, "predicting") as watcher:
        yield from predict_table(
            model,
            arguments.data,
            keep,
            probabilities=arguments.probabilities,
            engine=engine,
            watcher=watcher,
        )
