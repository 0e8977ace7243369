"""``faircil bench scale``: large tables, and several workers."""

from __future__ import annotations

import argparse
from functools import partial

from faircil_lab.cli.benching import Action, add_sizes, begin, below_one, record

EPILOG = """A table is written as a folder of Parquet files, and learned by whole commands: by one
process, by several, and by workers of Dask; and as far as it fits in memory with pandas and
scikit-learn. Then the sums of twenty sites are merged.

examples:
  faircil bench scale --page docs/scale-speed.md
  faircil bench scale --rows 200000 --rival 50000 --workers 2
"""
SIZES = {
    "rows": (20_000_000, "rows"),
    "inputs": (32, "numbers of a row"),
    "width": (500, "features"),
    "rival": (2_000_000, "rows that pandas and scikit-learn learn"),
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sizes(parser, SIZES)
    parser.add_argument(
        "--workers",
        nargs="*",
        type=int,
        default=[2],
        metavar="N",
        help="numbers of workers (default: 2)",
    )


def _command(arguments: argparse.Namespace) -> None:
    from faircil.errors import raise_all
    from faircil_lab.bench.scale import SCALE, ScaleResults, ScaleWork, measure_scale

    mistakes = below_one(arguments, *SIZES)
    mistakes += [f"--workers is {n}, expected 2 or more" for n in arguments.workers if n < 2]
    if arguments.rival > arguments.rows:
        mistakes.append(f"--rival is {arguments.rival:,}, expected at most --rows")
    raise_all(mistakes)
    _, notes = begin(arguments)
    work = ScaleWork(
        arguments.rows,
        arguments.inputs,
        arguments.width,
        tuple(arguments.workers),
        arguments.rival,
    )
    record(arguments, SCALE, measure_scale(work), partial(ScaleResults, work=work), "cpu", notes)


SCALE_ACTION = Action(
    "measure large tables: rows per second and memory, with one process and several",
    EPILOG,
    _add_arguments,
    _command,
)
