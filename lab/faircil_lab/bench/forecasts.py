"""How well forecasts of who is hurt by a task rank what then happens to the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.model.diagnosis import group_means, rehearse
from faircil.report import Table
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Event, learn_task
from faircil.runs.state import RunState, load_stream, start_run
from faircil.samples import Samples, concatenate, unique_rows
from faircil.weighting.forecast import forecast
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances

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
    configs: Sequence[RunConfig], seeds: Sequence[int]
) -> Iterator[ForecastScore]:
    """Run each configuration, and score the forecasts before each task from the second on."""
    for config in configs:
        for seed in seeds:
            yield from _scored(config, seed)


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
            before = _tested(state, tests)
            first: ByGroup = {}

            def heard(event: Event, tests: Samples = tests, first: ByGroup = first) -> None:
                if isinstance(event, EpochRecord) and event.epoch == 1:
                    first.update(_tested(state, tests))

            learn_task(config, state, task.train, heard)
            end = _tested(state, tests)
            for name, found in made.items():
                keys = [key for key in found if key in before]
                ranked = [_correlation(found, before, after, keys) for after in (first, end)]
                yield ForecastScore(
                    *(config.dataset, config.label, seed, number + 1, name, len(keys)), *ranked
                )
        kept = kept.add(task.train, seed=seed)


def _forecasts(
    config: RunConfig, state: RunState, train: Samples, kept: Samples
) -> dict[str, ByGroup]:
    """Return every forecast, from training data alone."""
    replayed = state.buffer.samples
    memory = kept if replayed is None else replayed
    found = forecast(state.learner.net, train, memory, replayed=replayed is not None)
    keys, _ = unique_rows(memory.keys())
    names = [tuple(key) for key in keys.tolist()]
    change = rehearse(config, state, train, None if replayed is not None else memory)
    return {
        "slope (Theorem 1)": dict(zip(names, found.slopes.tolist(), strict=True)),
        "crowding": dict(zip(names, found.crowding.tolist(), strict=True)),
        "rehearsal": group_means(change, memory),
    }


def _tested(state: RunState, tests: Samples) -> ByGroup:
    scores = state.learner.scores(tests.x).double()
    return group_means(cross_entropy(scores, tests.y, reduction="none"), tests)


def _correlation(found: ByGroup, before: ByGroup, after: ByGroup, keys: Sequence[Key]) -> float:
    """Return the rank correlation; 0 for a forecast that tells no group from another."""
    changes = [after[key] - before[key] for key in keys]
    forecasts = [found[key] for key in keys]
    if len(set(forecasts)) == 1 or len(set(changes)) == 1:
        return 0.0
    return float(spearmanr(forecasts, changes).statistic)


def _summary(values: Sequence[float]) -> str:
    """Return mean ± deviation over seeds."""
    array: NDArray[np.float64] = np.array(values)
    return f"{array.mean():.2f} ± {array.std(ddof=1) if len(array) > 1 else 0.0:.2f}"


def _tables(results: ForecastResults) -> list[Table]:
    tables = []
    for method in dict.fromkeys(one.method for one in results.outcomes):
        rows = []
        mine = [one for one in results.outcomes if one.method == method]
        for dataset, name in dict.fromkeys((one.dataset, one.forecast) for one in mine):
            same = [one for one in mine if (one.dataset, one.forecast) == (dataset, name)]
            seeds = dict.fromkeys(one.seed for one in same)
            cells = [
                _summary([np.mean([getattr(o, at) for o in same if o.seed == s]) for s in seeds])
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
digits, and on validation parts of the training data of the others. A task with two old groups has
a correlation of 1 or −1.
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
