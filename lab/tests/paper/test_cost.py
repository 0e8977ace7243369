from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from faircil.metrics import eo
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import concatenate
from faircil_lab.paper import cost
from faircil_lab.paper.comparison import pearson, spearman
from faircil_lab.paper.cost import CostFigure, Series
from faircil_lab.paper.epochs import EpochByEpoch, watched_run
from faircil_lab.paper.exhibit import Results, Verdict
from faircil_lab.paper.store import NOT_MADE, Measured
from small_runs import small_config, small_stream
from watched_runs import falling, watched


def test_disparity_is_measured_on_what_was_trained_on_and_on_what_was_seen() -> None:
    config, stream = small_config("fsw", attribute=True), small_stream(attribute=True)
    truth = []

    def checkpoint(state: RunState) -> None:
        assert state.task is not None
        memory = state.buffer.samples
        train = [state.task.material.current, *([] if memory is None else [memory])]
        tests = [task.test for task in stream.tasks[: len(state.per_task) + 1]]
        for parts in (train, tests):
            samples = concatenate(parts)
            assert samples.z is not None
            predicted = state.learner.predict(samples.x)
            truth.append(eo(*(t.numpy() for t in (samples.y, predicted, samples.z))))

    run(config, 0, stream=stream, checkpoint=checkpoint)
    epochs = watched_run(config, 0, stream).epochs
    found = [part.disparity for epoch in epochs for part in (epoch.train, epoch.test)]
    assert found[1::2] == pytest.approx(truth[1::2])
    # A group of the second task has no training sample; there, the two count groups differently.
    assert found[:4:2] == pytest.approx(truth[:4:2])
    assert [(e.task, e.epoch) for e in epochs] == [(t, e) for t in (1, 2, 3) for e in (1, 2)]


def test_only_what_rises_and_falls_together_within_tasks_moves_together() -> None:
    series = Series.of("train", [watched(seed) for seed in range(3)])
    assert series.over_all(pearson).mean == pytest.approx(1)
    assert series.within_tasks(spearman).mean == pytest.approx(1)
    # Both are high in the same tasks, and else have nothing to do with each other.
    torch.manual_seed(0)
    noise = torch.rand(2, 4, 4, 6).tolist()
    jumpy = [
        watched(
            seed,
            cost=lambda s, t, e: 10 * t + noise[0][s][t][e],
            disparity=lambda s, t, e: 10 * t + noise[1][s][t][e],
        )
        for seed in range(3)
    ]
    series = Series.of("test", jumpy)
    assert series.over_all(pearson).mean > 0.95
    assert series.statement("test data").verdict is Verdict.DIFFERENT


def test_correlations_are_those_of_scipy_and_0_where_nothing_moves() -> None:
    a, b = np.random.default_rng(0).random((2, 20)).round(1)  # with ties
    assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert pearson(a, np.ones(20)) == spearman(np.zeros(20), b) == 0


def test_the_page_draws_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(measurement: EpochByEpoch, _results: Results) -> Measured:  # type: ignore[type-arg]
        opposite = watched(measurement.seed, disparity=lambda *at: 1 / falling(*at))
        good = watched(measurement.seed)
        assert good.epochs[0].train != opposite.epochs[0].train
        return Measured(measurement, good if together else opposite)

    monkeypatch.setattr(cost, "look_up", found)
    for together, start in ((True, "They move together, on"), (False, "They do not move together")):
        page = CostFigure().page(Results({}, {}, tmp_path))
        assert page.answer.startswith(start)
        expected = Verdict.SAME if together else Verdict.DIFFERENT
        assert page.verdicts == (expected, expected)
    picture = page.sections[1].picture
    assert picture is not None
    picture.draw(tmp_path / picture.file)
    assert (tmp_path / picture.file).stat().st_size > 10_000


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = CostFigure().page(Results({}, {}, tmp_path, run_missing=False))
    assert page.verdicts == (Verdict.NOT_RUN, Verdict.NOT_RUN)
    assert page.answer == f"{NOT_MADE.capitalize()}."
    assert CostFigure().requests() == CostFigure().works({}) == ()
