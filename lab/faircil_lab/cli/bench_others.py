"""``faircil bench``: what measures no whole runs, from moments to forecasts of who is hurt."""

from __future__ import annotations

import argparse
import re
from functools import partial

from faircil.cli.common_options import parse_seeds
from faircil_lab.cli.benching import Action, add_jobs, add_sizes, begin, below_one, record

MOMENTS_EPILOG = """Streams with two groups a class are learned from moments, compressed and, where
they fit in 2 GiB, exact: time, and peak memory of the process. Then rows are removed, against
fitting all others again. For whole runs against replay, see: faircil bench run --methods er moments

examples:
  faircil bench moments
  faircil bench moments --classes 20 --width 300 --removed 100 --repeats 1
"""
# Options with their defaults.
MOMENTS_SIZES = {
    "tasks": (10, "tasks of a stream"),
    "rows": (100, "rows of each group of a stream"),
    "width": (2000, "features"),
    "learned": (60_000, "rows that are learned before some are removed"),
    "removed": (1000, "rows to remove"),
    "repeats": (3, "removals"),
}
REMOVED_FROM = 10  # classes, of two groups each


def _moments_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--classes",
        nargs="+",
        type=int,
        default=[50, 1000],
        metavar="N",
        help="classes of a stream (default: 50 1000)",
    )
    add_sizes(parser, MOMENTS_SIZES)


def _moments(arguments: argparse.Namespace) -> None:
    from faircil.errors import raise_all
    from faircil_lab.bench.moments import (
        MOMENTS_COSTS,
        MomentsResults,
        MomentsWorkload,
        measure_costs,
        workloads_of,
    )

    mistakes = below_one(arguments, *MOMENTS_SIZES)
    mistakes += [f"--classes is {n}, expected at least 2" for n in arguments.classes if n < 2]
    rows = arguments.learned // (2 * REMOVED_FROM)
    if (arguments.repeats + 1) * arguments.removed >= 2 * REMOVED_FROM * rows:
        mistakes.append(
            f"--removed is {arguments.removed}, {arguments.repeats} times and once to warm up: "
            f"expected less than {arguments.learned:,} rows in all, as --learned says"
        )
    raise_all(mistakes)
    _, notes = begin(arguments)
    workloads = workloads_of(
        arguments.classes, tasks=arguments.tasks, rows=arguments.rows, width=arguments.width
    )
    removal = MomentsWorkload(REMOVED_FROM, 1, rows, arguments.width)
    outcomes = measure_costs(workloads, removal, arguments.removed, arguments.repeats)
    record(arguments, MOMENTS_COSTS, outcomes, MomentsResults, "cpu", notes)


GPU_MOMENTS_EPILOG = """Rows in the host's memory are learned on a GPU: with many features, and many
embeddings. Time, peak memory of the GPU, speed against that of a large product, and errors against
float64.

examples:
  faircil bench moments-gpu --page docs/moments-speed-gpu.md
  faircil bench moments-gpu --widths 4000 --rows 50000 --embeddings 0
"""
GPU_MOMENTS_SIZES = {
    "rows": (200_000, "rows, where features are many"),
    "inputs": (512, "dimension of an embedding"),
}


def _gpu_moments_arguments(parser: argparse.ArgumentParser) -> None:
    widths = [2000, 8000, 16_000, 32_000]
    parser.add_argument(
        "--widths",
        nargs="+",
        type=int,
        default=widths,
        metavar="N",
        help=f"numbers of features (default: {' '.join(map(str, widths))})",
    )
    add_sizes(parser, GPU_MOMENTS_SIZES)
    parser.add_argument(
        "--embeddings",
        type=int,
        default=10_000_000,
        metavar="N",
        help="embeddings; 0: none (default: 10000000)",
    )
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N (default: cuda)")


def _gpu_moments(arguments: argparse.Namespace) -> None:
    from faircil.compute import choose_device
    from faircil.errors import collecting, raise_all
    from faircil_lab.bench.moments_gpu import (
        GPU_MOMENTS,
        LEAST_ROWS,
        GpuResults,
        measure_on_gpu,
        workloads_of,
    )

    mistakes = [f"--widths is {n}, expected at least 2" for n in arguments.widths if n < 2]
    mistakes += below_one(arguments, "inputs")
    rows = {"rows": arguments.rows, "embeddings": arguments.embeddings}
    mistakes += [
        f"--{name} is {n}, expected at least {LEAST_ROWS}"
        for name, n in rows.items()
        if n < LEAST_ROWS and (name, n) != ("embeddings", 0)
    ]
    with collecting(mistakes):
        device = choose_device(arguments.device)
    raise_all(mistakes)
    _, notes = begin(arguments)
    workloads = workloads_of(arguments.widths, **rows, inputs=arguments.inputs)
    outcomes = measure_on_gpu(workloads, device)
    record(arguments, GPU_MOMENTS, outcomes, GpuResults, str(device), notes)


MODELS_EPILOG = """Tables of people are made, and learned, predicted, extended by a class and partly
forgotten by whole commands; then the same in memory.

examples:
  faircil bench models
  faircil bench models --tables 5000x6:moments
"""
MODEL_SIZES = {
    "later": (5000, "rows of a new class"),
    "predicted": (20_000, "rows to predict"),
}


def _models_arguments(parser: argparse.ArgumentParser) -> None:
    tables = ["50000x14", "1000000x20:moments"]
    parser.add_argument(
        "--tables",
        nargs="+",
        default=tables,
        metavar="ROWSxCOLUMNS[:METHOD]",
        help=f"sizes of the tables, and the method if not auto (default: {' '.join(tables)})",
    )
    add_sizes(parser, MODEL_SIZES)


def _models(arguments: argparse.Namespace) -> None:
    from faircil.errors import raise_all
    from faircil_lab.bench.models import MODEL_COSTS, ModelResults, TableWorkload, measure_models

    mistakes = below_one(arguments, *MODEL_SIZES)
    sizes = [re.fullmatch(r"(\d{3,9})x(\d{1,4})(?::(\S+))?", text) for text in arguments.tables]
    mistakes += [
        f"--tables has '{text}', expected rows and columns such as 50000x14, at least 100x4"
        for text, size in zip(arguments.tables, sizes, strict=True)
        if size is None or int(size[2]) < 4
    ]
    raise_all(mistakes)
    _, notes = begin(arguments)
    workloads = [
        TableWorkload(
            *(int(size[1]), int(size[2]), arguments.later, arguments.predicted),
            method=size[3] or "auto",
        )
        for size in sizes
        if size is not None
    ]
    record(arguments, MODEL_COSTS, measure_models(workloads), ModelResults, "cpu", notes)


AUDIT_EPILOG = """Systems whose true rates are known are audited many times on new samples: how
often intervals cover the truth, a gate at the limit fails, and a fair system is called unfair.

examples:
  faircil bench audit --jobs 16 --page docs/audit-coverage.md
  faircil bench audit --audits 100 --sizes 30 --groups 2
"""


def _audit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--audits", type=int, default=500, help="audits of each system (default: 500)"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[30, 100, 1000],
        metavar="N",
        help="samples of a class with one value (default: 30 100 1000)",
    )
    parser.add_argument(
        "--groups",
        nargs="+",
        type=int,
        default=[2, 5],
        metavar="N",
        help="values of the attribute (default: 2 5)",
    )
    parser.add_argument("--classes", type=int, default=2, help="classes (default: 2)")
    parser.add_argument(
        "--draws", type=int, default=300, help="draws of every audit (default: 300)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of samples and draws (default: 0)"
    )
    add_jobs(parser)


def _audit(arguments: argparse.Namespace) -> None:
    from faircil.errors import raise_all
    from faircil_lab.bench.audits import AUDIT_COVERAGE, AuditResults, measure_coverage, systems

    mistakes = below_one(arguments, "audits", "jobs")
    mistakes += [f"--sizes is {n}, expected at least 15" for n in arguments.sizes if n < 15]
    mistakes += [f"--groups is {n}, expected at least 2" for n in arguments.groups if n < 2]
    if arguments.classes < 2:
        mistakes.append(f"--classes is {arguments.classes}, expected at least 2")
    if arguments.draws < 100:
        mistakes.append(f"--draws is {arguments.draws}, expected at least 100")
    raise_all(mistakes)
    begin(arguments)
    audited = systems(arguments.classes, arguments.sizes, arguments.groups)
    outcomes = measure_coverage(
        audited, arguments.audits, arguments.draws, arguments.seed, arguments.jobs
    )
    record(arguments, AUDIT_COVERAGE, outcomes, AuditResults, "cpu", ())  # no time is measured


SCALE_EPILOG = """A table is written as a folder of Parquet files, and learned by whole commands: by
one process, by several, and by workers of Dask; and as far as it fits in memory with pandas and
scikit-learn. Then the sums of twenty sites are merged.

examples:
  faircil bench scale --page docs/scale-speed.md
  faircil bench scale --rows 200000 --rival 50000 --workers 2
"""
SCALE_SIZES = {
    "rows": (20_000_000, "rows"),
    "inputs": (32, "inputs per row"),
    "width": (500, "features"),
    "rival": (2_000_000, "rows that pandas and scikit-learn learn; 0: none"),
}


def _scale_arguments(parser: argparse.ArgumentParser) -> None:
    add_sizes(parser, SCALE_SIZES)
    parser.add_argument(
        "--workers",
        nargs="*",
        type=int,
        default=[2],
        metavar="N",
        help="numbers of workers (default: 2)",
    )


def _scale(arguments: argparse.Namespace) -> None:
    from faircil.errors import raise_all
    from faircil_lab.bench.scale import SCALE, ScaleResults, ScaleWork, measure_scale

    mistakes = below_one(arguments, *(name for name in SCALE_SIZES if name != "rival"))
    if arguments.rival < 0:
        mistakes.append(f"--rival is {arguments.rival}, expected 0 or more")
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


FORECAST_DATASETS = (
    *("digits", "biased-digits", "mnist", "fashion-mnist", "biased-mnist"),
    *("drug", "census-occupation", "nls-jobs", "obesity"),
)
FORECAST_METHODS = ("er", "finetune")
FORECAST_EPILOG = """Before each task from the second on, each forecast is made from training data
and buffer alone; then the task is trained. The score is Spearman's rank correlation of the forecast
with the change of each old group's loss on test data.

examples:
  faircil bench forecast --jobs 16 --page docs/forecast.md
  faircil bench forecast --dataset digits --methods er --seeds 0 --set epochs=1
"""


def _forecast_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dataset", nargs="+", default=list(FORECAST_DATASETS), metavar="NAME", help="data"
    )
    parser.add_argument(
        "--methods", nargs="+", default=list(FORECAST_METHODS), metavar="NAME", help="which"
    )
    parser.add_argument("--seeds", default="0-4", metavar="LIST", help="seeds (default: 0-4)")
    add_jobs(parser)
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )


def _forecast(arguments: argparse.Namespace) -> None:
    from faircil.errors import DataError, collecting, raise_all
    from faircil.runs.config import resolve
    from faircil_lab.bench.forecasts import FORECAST_SCORES, ForecastResults, measure_forecasts
    from faircil_lab.bench.whole_runs import missing_files

    mistakes = below_one(arguments, "jobs")
    configs, seeds = [], []
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    for dataset in arguments.dataset:
        for method in arguments.methods:
            with collecting(mistakes):
                config = resolve(dataset=dataset, method=method, overrides=arguments.set)
                configs.append(config)
    raise_all(list(dict.fromkeys(mistakes)))
    raise_all(missing_files(arguments.dataset), DataError)
    begin(arguments)
    outcomes = measure_forecasts(configs, seeds, arguments.jobs)
    record(arguments, FORECAST_SCORES, outcomes, ForecastResults, "cpu", ())  # no time is measured


OTHER_ACTIONS = {
    "moments": Action(
        "measure memory and time of learning from moments, and the removal of rows",
        MOMENTS_EPILOG,
        _moments_arguments,
        _moments,
    ),
    "moments-gpu": Action(
        "measure learning from moments on a GPU: many features, many embeddings",
        GPU_MOMENTS_EPILOG,
        _gpu_moments_arguments,
        _gpu_moments,
    ),
    "models": Action(
        "measure the cost of table models, from CSV to predictions",
        MODELS_EPILOG,
        _models_arguments,
        _models,
    ),
    "audit": Action(
        "measure how often intervals of audits cover the truth, and how often gates err",
        AUDIT_EPILOG,
        _audit_arguments,
        _audit,
    ),
    "scale": Action(
        "measure large tables: rows per second and memory, with one process and several",
        SCALE_EPILOG,
        _scale_arguments,
        _scale,
    ),
    "forecast": Action(
        "compare forecasts of who is hurt with what happens",
        FORECAST_EPILOG,
        _forecast_arguments,
        _forecast,
    ),
}
