"""``faircil bench forecast``: score forecasts of who is hurt."""

from __future__ import annotations

import argparse

from faircil.cli.run import parse_seeds
from faircil_lab.cli.benching import Action, add_jobs, begin, below_one, record

DATASETS = (
    *("digits", "biased-digits", "mnist", "fashion-mnist", "biased-mnist"),
    *("drug", "census-occupation", "nls-jobs", "obesity"),
)
METHODS = ("er", "finetune")
EPILOG = """Before each task from the second on, each forecast is made from training data and buffer
alone; then the task is trained. The score is Spearman's rank correlation of the forecast with the
change of each old group's loss on test data.

examples:
  faircil bench forecast --jobs 16 --page docs/forecast.md
  faircil bench forecast --dataset digits --methods er --seeds 0 --set epochs=1
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), metavar="NAME", help="data")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), metavar="NAME", help="which")
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


FORECAST = Action(
    "compare forecasts of who is hurt with what then happens", EPILOG, _arguments, _forecast
)
