"""``faircil bench``: measure solvers, runs, sweeps, reports, encoders, moments, models, methods."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli import Formatter
from faircil.cli.common_options import parse_seeds
from faircil_lab.cli.bench_others import OTHER_ACTIONS
from faircil_lab.cli.bench_suite import SUITE
from faircil_lab.cli.benching import (
    Action,
    add_methods,
    add_output_arguments,
    add_sizes,
    begin,
    below_one,
    record,
)

if TYPE_CHECKING:
    from faircil_lab.bench.lp import LpOptions

EPILOG = """examples:
  faircil bench lp --sizes 1k 12k 100k 1M
  faircil bench lp mine.npz --solvers highs
  faircil bench run --dataset mnist biased-mnist --page docs/speed.md
  faircil bench run --scale
  faircil bench sweep --jobs 1 2 4
  faircil bench report --page docs/report-speed.md
  faircil bench text --rows 50000
  faircil bench moments --classes 50 200
  faircil bench models --tables 50000x14
  faircil bench audit --jobs 16 --page docs/audit-coverage.md
  faircil bench forecast --page docs/forecast.md
  faircil bench fair-cil --small --method my_package:MyLearner

Results are files: results.json, results.csv, pictures, and a page in Markdown.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, action in ACTIONS.items():
        own = actions.add_parser(
            name,
            help=action.help,
            description=f"{action.help[0].upper()}{action.help[1:]}.",
            epilog=action.epilog,
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        action.add_arguments(own)
        add_output_arguments(own, Path("bench") / name)
        own.set_defaults(parser=own)  # messages name the options of the action


def command(arguments: argparse.Namespace) -> None:
    """Measure, write the files, print the tables."""
    ACTIONS[arguments.action].command(arguments)


LP_EPILOG = """Without FILES the programs are real ones, from short runs of the embedded digits.
A file is an .npz archive with gap_rows, gap_offsets, cost, floor_rows, floor_offsets (numpy.savez).

examples:
  faircil bench lp --sizes 1k 12k 100k 1M
  faircil bench lp one.npz two.npz --solvers highs --sizes 12000 --repeats 9
"""


def _lp_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="programs")
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=[],
        metavar="N",
        help="number of columns to resample each program to, e.g. 1k 12k 1M (default: its own)",
    )
    parser.add_argument(
        "--solvers", nargs="+", metavar="NAME", help="solvers (default: all installed)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="solves to time (default: 5)")
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="leave out a solver where one solve would take longer (default: 60)",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda or cuda:N: also the solver for programs in its memory (default: cpu)",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of the linear algebra (default: 1)"
    )


def _lp(arguments: argparse.Namespace) -> None:
    from faircil.compute import choose_device
    from faircil.errors import SolverError, collecting, raise_all
    from faircil_lab.bench.lp import LpResults, measure
    from faircil_lab.bench.lp_page import SOLVER_TIMES, not_measured
    from faircil_lab.bench.lp_programs import all_recorded, read_programs, usable_cases

    mistakes: list[str] = []
    options = _lp_options(arguments, mistakes)
    device = None
    with collecting(mistakes):
        device = choose_device(arguments.device)
    cases, unusable = usable_cases(arguments.solvers, mistakes, device)
    programs = read_programs(arguments.files, mistakes)
    raise_all(mistakes)
    report, notes = begin(arguments, unusable)
    programs = programs or all_recorded(report)
    report(f"{len(programs)} programs, solvers {', '.join(case.name for case in cases)}")

    def is_empty(results: LpResults) -> bool:
        if results.complete and not results.measurements:
            raise_all(not_measured(results.skipped), SolverError)
        return not results.measurements

    outcomes = measure(programs, cases, options)
    results = partial(LpResults, options=options)
    record(arguments, SOLVER_TIMES, outcomes, results, arguments.device, notes, is_empty=is_empty)


def _lp_options(arguments: argparse.Namespace, mistakes: list[str]) -> LpOptions:
    from faircil_lab.bench.lp import LpOptions
    from faircil_lab.bench.lp_programs import parse_sizes

    sizes = parse_sizes(arguments.sizes, mistakes)
    mistakes += below_one(arguments, "repeats", "threads")
    if not 0 < arguments.limit < float("inf"):
        mistakes.append(f"--limit is {arguments.limit:g}, expected a positive number of seconds")
    return LpOptions(sizes, arguments.repeats, arguments.limit, arguments.threads)


RUN_EPILOG = """Every run has its own process; methods take turns. A method is METHOD,
METHOD+WEIGHTING, and settings after colons: er, er+random, fsw:granularity=group. With --scale
also how the weights of an epoch grow with samples, groups, classes and features, on generated data.

examples:
  faircil bench run
  faircil bench run --dataset mnist --methods er fsw fsw:solver=highs --repeats 5
  faircil bench run --scale samples classes --repeats 1
"""


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add_methods(parser, "er fsw fsw:granularity=group", "run", 3)
    parser.add_argument(
        "--scale",
        nargs="*",
        metavar="FACTOR",
        help="growth with samples, groups, classes, features (default: all of these)",
    )
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)"
    )


def _run(arguments: argparse.Namespace) -> None:
    from faircil.compute import choose_device
    from faircil.errors import DataError, collecting, raise_all, unknown_name
    from faircil_lab.bench.epoch_costs import FACTORS, measure_all
    from faircil_lab.bench.whole_runs import METHODS, RunResults, missing_files, timed_methods
    from faircil_lab.bench.whole_runs_page import RUN_TIMES

    mistakes: list[str] = []
    runs = timed_methods(arguments.dataset, arguments.methods or METHODS, arguments.set, mistakes)
    mistakes += below_one(arguments, "repeats")
    factors = list(FACTORS) if arguments.scale == [] else arguments.scale or []
    mistakes += [unknown_name("factor", name, FACTORS) for name in factors if name not in FACTORS]
    with collecting(mistakes):
        device = choose_device(arguments.device)
    raise_all(mistakes)
    raise_all(missing_files(arguments.dataset), DataError)
    _, notes = begin(arguments)
    outcomes = measure_all(runs, factors, arguments.repeats, device)
    results = partial(RunResults, repeats=arguments.repeats)
    record(arguments, RUN_TIMES, outcomes, results, str(device), notes)


SWEEP_EPILOG = """The same runs are made with each number of processes, in a new folder each time. A
method is METHOD, METHOD+WEIGHTING, and settings after colons: er, er+random,
fsw:granularity=group. With --alone the first to be measured is a process for each run, one after
another: no sweep at all.

examples:
  faircil bench sweep
  faircil bench sweep --dataset mnist drug --methods er fsw wa --seeds 0-3 --jobs 1 2 4
  faircil bench sweep --dataset mnist --jobs 1 --gpu-jobs 1 4 8 14
"""


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    add_methods(parser, "er fsw wa", "sweep", 1)
    parser.add_argument(
        "--seeds", default="0-1", metavar="LIST", help="3, 0-4 or 0,2,5 (default: 0-1)"
    )
    parser.add_argument(
        "--jobs",
        nargs="+",
        type=int,
        metavar="N",
        help="runs at a time on the CPU (default: 1 2; with --gpu-jobs, none)",
    )
    parser.add_argument(
        "--gpu-jobs",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="runs at a time that share the GPU; methods that it does not replay run on the CPU, "
        "with the largest of --jobs",
    )
    parser.add_argument(
        "--alone", action="store_true", help="also measure a new process for each run"
    )


def _sweep(arguments: argparse.Namespace) -> None:
    from faircil.errors import DataError, collecting, raise_all
    from faircil_lab.bench.sweeps import METHODS, SweepResults, cases_of, measure_sweeps, works_of
    from faircil_lab.bench.sweeps_page import SWEEP_TIMES
    from faircil_lab.bench.whole_runs import missing_files, timed_methods

    mistakes: list[str] = []
    methods = arguments.methods or METHODS
    timed = timed_methods(arguments.dataset, methods, arguments.set, mistakes)
    seeds: list[int] = []
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    works = [] if mistakes else works_of(timed, seeds)
    cases = cases_of(arguments.jobs, arguments.gpu_jobs, works, mistakes, alone=arguments.alone)
    mistakes += below_one(arguments, "repeats")
    raise_all(mistakes)
    raise_all(missing_files(arguments.dataset), DataError)
    report, notes = begin(arguments)
    report(f"{len(works)} runs each with {', then with '.join(case.name for case in cases)}")
    outcomes = measure_sweeps(works, cases, arguments.repeats)
    results = partial(SweepResults, works=tuple(work.name for work in works))
    device = "cuda" if arguments.gpu_jobs else "cpu"
    record(arguments, SWEEP_TIMES, outcomes, results, device, notes)


REPORT_EPILOG = """All methods are run with all seeds, one report is written about the runs of each
dataset, and Chromium without a window opens it. Runs, reports and pictures of them, for desktop
and phone, light and dark, stay in the folder; existing runs are reused. With
--repeats 0 only the size is measured, and no Chromium is needed.

examples:
  faircil bench report
  faircil bench report --dataset digits --methods er fsw --seeds 0-24
"""


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    add_methods(parser, "ten of different kinds", "opening", 9)
    parser.add_argument(
        "--seeds", default="0-4", metavar="LIST", help="3, 0-4 or 0,2,5 (default: 0-4)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at a time (default: 1)"
    )


def _report(arguments: argparse.Namespace) -> None:
    from faircil.errors import DataError, collecting, raise_all
    from faircil_lab.bench.browser import find_chromium
    from faircil_lab.bench.reports import METHODS, REPORT_COSTS, ReportResults, measure_reports
    from faircil_lab.bench.whole_runs import missing_files, timed_methods

    mistakes: list[str] = []
    methods = arguments.methods or METHODS
    timed = timed_methods(arguments.dataset, methods, arguments.set, mistakes)
    seeds: list[int] = []
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    mistakes += below_one(arguments, "jobs")
    if arguments.repeats < 0:
        mistakes.append(f"--repeats is {arguments.repeats}, expected 0 or more")
    raise_all(mistakes)
    raise_all(missing_files(arguments.dataset), DataError)
    if arguments.repeats:
        find_chromium()
    report, notes = begin(arguments)
    report(f"{len(timed) * len(seeds)} runs, a report of each dataset")
    outcomes = measure_reports(timed, seeds, arguments.out, arguments.repeats, arguments.jobs)
    record(arguments, REPORT_COSTS, outcomes, ReportResults, "cpu", notes)


TEXT_EPILOG = """The encoder has BERT's architecture and random weights; the texts are drawn, as
many as BiasBios has. Nothing is downloaded. Measured are the parts of an epoch of FSW (one pass
of the encoder, statistics beyond it, linear program, training), and embeddings of a frozen
encoder: time, tokens per second, peak memory of a GPU.

examples:
  faircil bench text --page docs/text-speed.md
  faircil bench text --rows 50000 --steps 50 --repeats 1
  faircil bench text --layers 2 --hidden 64 --rows 2500 --tokens 32 --steps 5 --device cpu
"""
# Options with their defaults; BERT-base and BiasBios. A test holds them to EncoderWorkload, which
# is not imported here, since it needs torch.
TEXT_SIZES = {
    "layers": (12, "layers of the encoder"),
    "hidden": (768, "dimension of a token"),
    "rows": (253_000, "texts for training, over all tasks"),
    "tokens": (128, "tokens of each text"),
    "steps": (100, "training steps that are timed in a round"),
    "repeats": (3, "rounds"),
}


def _text_arguments(parser: argparse.ArgumentParser) -> None:
    add_sizes(parser, TEXT_SIZES)
    parser.add_argument(
        "--device",
        default="auto",
        help="auto, cpu, cuda or cuda:N (default: auto, which stops if a CPU would take long)",
    )


def _text(arguments: argparse.Namespace) -> None:
    from faircil.compute import choose_device
    from faircil.errors import collecting, raise_all
    from faircil.text.encoders import text_module
    from faircil.text.passes import CPU_CHUNK, Passing
    from faircil_lab.bench.texts import EncoderWorkload, TextResults, refuse_if_long
    from faircil_lab.bench.texts_measure import measure_encoder
    from faircil_lab.bench.texts_page import ENCODER_TIMES

    mistakes: list[str] = []
    with collecting(mistakes):
        device = choose_device(arguments.device)
    with collecting(mistakes):
        workload = EncoderWorkload(**{name: getattr(arguments, name) for name in TEXT_SIZES})
    raise_all(mistakes)
    version = text_module("transformers").__version__
    if arguments.device == "auto" and device.type == "cpu":
        refuse_if_long(workload)
    number = "bfloat16" if Passing(pad_id=0).mixed(device) else "float32"
    about = [f"transformers {version}; products inside of the encoder are in {number}"]
    if device.type == "cpu":
        about.append(f"A CPU takes {CPU_CHUNK:,} tokens at once, whatever is allowed")
    _, notes = begin(arguments, about)

    outcomes, results = measure_encoder(workload, device), partial(TextResults, workload)
    record(arguments, ENCODER_TIMES, outcomes, results, str(device), notes)


ACTIONS = {
    "lp": Action(
        "measure every installed solver on weighting programs, at any size",
        LP_EPILOG,
        _lp_arguments,
        _lp,
    ),
    "run": Action(
        "measure time and memory of whole runs against plain replay",
        RUN_EPILOG,
        _run_arguments,
        _run,
    ),
    "sweep": Action(
        "measure a sweep of runs with several numbers of processes",
        SWEEP_EPILOG,
        _sweep_arguments,
        _sweep,
    ),
    "report": Action(
        "measure how large the report of many runs is, and how quickly a browser opens it",
        REPORT_EPILOG,
        _report_arguments,
        _report,
    ),
    "text": Action(
        "measure training, weights and embeddings with a large text encoder",
        TEXT_EPILOG,
        _text_arguments,
        _text,
    ),
    **OTHER_ACTIONS,
    "fair-cil": SUITE,
}
