"""How well forecasts of who is hurt by a task rank what then happens to the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean
from typing import Any

import torch
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators, one_thread
from faircil.model.diagnosis import group_means, rehearse
from faircil.report import Table
from faircil.results.record import EpochRecord, spread
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Event, learn_task
from faircil.runs.state import RunState, load_stream, start_run
from faircil.samples import Samples, concatenate, unique_rows
from faircil.weighting.forecast import forecast
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances, in_processes

REHEARSAL = "rehearsal"
AGAIN = "the same training again"
OTHER_SEED = 1_000_000

Key = tuple[int, ...]
ByGroup = dict[Key, float]


@dataclass(frozen=True)
class ForecastScore:
    """Rank correlation of a forecast with what happened, in one task.

    Parameters
    ----------
    dataset, method : str
    seed, task : int
    forecast : str
    groups : int
        Old groups.
    first, end : float
        With the change of losses after the first epoch, and after the whole task.
    """

    dataset: str
    method: str
    seed: int
    task: int
    forecast: str
    groups: int
    first: float
    end: float


@dataclass(frozen=True)
class ForecastResults(Circumstances):
    """Scores of forecasts.

    Parameters
    ----------
    outcomes : tuple of ForecastScore
    """

    outcomes: tuple[ForecastScore, ...]


def measure_forecasts(
    configs: Sequence[RunConfig], seeds: Sequence[int], jobs: int = 1
) -> Iterator[ForecastScore]:
    """Run each configuration, and score the forecasts before each task from the second on."""
    for scores in in_processes(forecast_scores, list(product(configs, seeds)), jobs):
        yield from scores


def forecast_scores(case: tuple[RunConfig, int]) -> list[ForecastScore]:
    """Return the scores of the forecasts before each task of a run from its seed."""
    with one_thread():
        return list(_scored(*case))


def _scored(config: RunConfig, seed: int) -> Iterator[ForecastScore]:
    stream = load_stream(config, seed)
    state = start_run(config, seed, stream, torch.device("cpu"))
    # A method without a buffer is forecast from rows that such a buffer would hold.
    kept = ReplayBuffer(config.settings.training.buffer_size)
    for number, task in enumerate(stream.tasks):
        if number == 0:
            learn_task(config, state, task.train)
        else:
            assert kept.samples is not None
            made = _forecasts(config, state, task.train, kept.samples)
            tests = concatenate(stream.tests_after(number))
            tested = _tested(state, tests)
            keys = [key for key in made[REHEARSAL] if key in tested]
            again = deepcopy(state)
            again.generators = Generators.from_seed(OTHER_SEED + seed)
            other, true = (_changes(config, each, task.train, tests) for each in (again, state))
            for name, (first, end) in {
                **{name: (found, found) for name, found in made.items()},
                AGAIN: other,
            }.items():
                ranked = (_correlation(first, true[0], keys), _correlation(end, true[1], keys))
                yield ForecastScore(
                    *(config.dataset, config.label, seed, number + 1, name, len(keys)), *ranked
                )
        kept = kept.add(task.train, seed=seed)


def _changes(
    config: RunConfig, state: RunState, train: Samples, tests: Samples
) -> tuple[ByGroup, ByGroup]:
    """Train the state on a task; return the changes of losses after one epoch, and at the end."""
    before = _tested(state, tests)
    first: ByGroup = {}

    def heard(event: Event) -> None:
        if isinstance(event, EpochRecord) and event.epoch == 1:
            first.update(_tested(state, tests))

    learn_task(config, state, train, heard)
    end = _tested(state, tests)
    return (
        {key: loss - before[key] for key, loss in first.items()},
        {key: loss - before[key] for key, loss in end.items()},
    )


def _forecasts(
    config: RunConfig, state: RunState, train: Samples, kept: Samples
) -> dict[str, ByGroup]:
    """Return every forecast, from training data alone."""
    replayed = state.buffer.samples
    memory = kept if replayed is None else replayed
    found = forecast(state.learner.net, train, memory, replayed=replayed is not None)
    keys, _ = unique_rows(memory.keys())
    names = [tuple(key) for key in keys.tolist()]
    _, fall = rehearse(config, state, train, None if replayed is not None else memory)
    return {
        "slope (Theorem 1)": dict(zip(names, found.slopes.tolist(), strict=True)),
        "crowding": dict(zip(names, found.crowding.tolist(), strict=True)),
        REHEARSAL: group_means(fall, memory),
    }


def _tested(state: RunState, tests: Samples) -> ByGroup:
    scores = state.learner.scores(tests.x).double()
    return group_means(cross_entropy(scores, tests.y, reduction="none"), tests)


def _correlation(found: ByGroup, true: ByGroup, keys: Sequence[Key]) -> float:
    """Return the rank correlation; 0 if all forecasts, or all changes, are equal."""
    forecasts, changes = ([values[key] for key in keys] for values in (found, true))
    if len(set(forecasts)) == 1 or len(set(changes)) == 1:
        return 0.0
    return float(spearmanr(forecasts, changes).statistic)


def _summary(values: Sequence[float]) -> str:
    """Write mean ± deviation over seeds; a single seed has no deviation."""
    center, deviation = spread(values)
    return f"{center:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _tables(results: ForecastResults) -> list[Table]:
    tables = []
    for method in dict.fromkeys(one.method for one in results.outcomes):
        rows = []
        mine = [one for one in results.outcomes if one.method == method]
        for dataset, name in dict.fromkeys((one.dataset, one.forecast) for one in mine):
            same = [one for one in mine if (one.dataset, one.forecast) == (dataset, name)]
            seeds = dict.fromkeys(one.seed for one in same)
            cells = [
                _summary([fmean(getattr(o, at) for o in same if o.seed == s) for s in seeds])
                for at in ("first", "end")
            ]
            rows.append((dataset, name, *cells))
        header = ("data", "forecast", "after the first epoch", "after the task")
        tables.append(table_of(f"Method {method}", header, rows))
    return tables


ABOUT = """
Before each task from the second on, three [forecasts](diagnose.md) are made for all old groups,
from training data and buffer alone. Then the task is trained. The score is Spearman's rank
correlation of the forecast with the change of each group's mean loss on test data: mean over tasks,
then mean ± standard deviation over seeds. The form of the forecasts was chosen on the embedded
digits, and on validation parts of the training data of the images. A task with two old groups has
a correlation of 1 or −1.

"The same training again" is not a forecast: the task is trained a second time with other
random numbers, and its effect on the test rows is used as the forecast. No forecast can do better.
"""


def _text(results: ForecastResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    return ABOUT + sections(_tables(results))


def _rows(results: ForecastResults) -> Iterator[dict[str, Any]]:
    yield from map(asdict, results.outcomes)


FORECAST_SCORES = Benchmark[ForecastResults](
    title="How well forecasts rank who is hurt",
    line=lambda one: (
        f"{one.dataset}, {one.method}, seed {one.seed}, task {one.task}, {one.forecast}: "
        f"{one.first:.2f}, {one.end:.2f}"
    ),
    document=lambda results: {"scores": [asdict(one) for one in results.outcomes]},
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
)
