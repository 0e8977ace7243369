"""Test data takes no part in the choice of settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircil.data.datasets import load_dataset
from faircil.runs import experiment, state
from faircil.samples import Samples
from faircil.tuning.request import TuneRequest
from faircil.tuning.tune import STRATEGIES, tune

REQUEST = TuneRequest(
    "toy-groups", "fsw", "eo", fixed=("epochs=1", "hidden=8"), tried=("lr=0.001,0.01",)
)


class Untouchable:
    """Stands for test data: whoever looks at it fails."""

    def __getattribute__(self, name):
        raise AssertionError(f"test data was looked at: {name}")


@pytest.fixture
def _no_test_data(monkeypatch):
    def load(*arguments, **options):
        stream = load_dataset(*arguments, **options)
        for task in stream.tasks:
            object.__setattr__(task, "test", Untouchable())
        return stream

    monkeypatch.setattr(state, "load_dataset", load)


@pytest.mark.usefixtures("_no_test_data")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_test_data_is_never_touched(strategy, finish_here):
    if strategy == "optuna":
        pytest.importorskip("optuna")
    tuned = tune(replace(REQUEST, strategy=strategy), finish_here)
    assert len(tuned.trials) == 2
    assert all(trial.score is not None for trial in tuned.trials)


@pytest.mark.usefixtures("_no_test_data")
def test_the_paper_s_way_does_touch_it(finish_here):
    with pytest.raises(AssertionError, match="test data was looked at"):
        tune(replace(REQUEST, select_on="test"), finish_here)


def rows(samples: Samples) -> set[tuple[float, ...]]:
    return set(map(tuple, samples.x.tolist()))


def test_judged_on_held_out_training_data_of_seen_tasks():
    config = REQUEST.config(())
    stream = state.load_stream(config, seed=10)
    whole = load_dataset("toy-groups", 10)
    for task, before in zip(stream.tasks, whole.tasks, strict=True):
        assert rows(task.test) <= rows(before.train)
        assert not rows(task.test) & rows(task.train)
        assert not rows(task.test) & rows(before.test)
    result = experiment.run(config, 10)
    seen: set[int] = set()
    judged = 0
    for task, predictions in zip(stream.tasks, result.predictions, strict=True):
        seen |= set(task.classes)
        judged += len(task.test)
        assert set(predictions.y_true.tolist()) == seen
        assert len(predictions.y_true) == judged
