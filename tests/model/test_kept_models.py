"""The final model of a run: it predicts what the run predicted, knows how it did, and goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from faircil import FairIncrementalClassifier
from faircil.errors import FaircilError, UsageError
from faircil.learners import LEARNERS
from faircil.metrics import evaluate
from faircil.model.saved import keep_model, load_model, model_of_run
from faircil.results.folder import model_folder
from faircil.runs.experiment import run
from faircil.runs.state import start_run
from faircil.sweep.sweep import SweepOptions, finish
from faircil.testing.learners import small_config, small_stream
from sweeps import small_work


def finished(method: str, **settings: Any) -> tuple[Any, ...]:
    """Return configuration, seed, stream and final state of a small run, and its result."""
    changes = settings.pop("config", {})
    config = small_config(method, attribute=True, **settings).model_copy(update=changes)
    stream = small_stream(attribute=True)
    state = start_run(config, 0, stream, torch.device("cpu"))
    result = run(config, 0, stream=stream, state=state)
    return config, 0, stream, state, result


@pytest.mark.parametrize("method", LEARNERS)
def test_the_model_of_every_method_predicts_what_its_run_did_and_goes_on(
    method: str, tmp_path: Path
) -> None:
    config, seed, stream, state, result = finished(method)
    keep_model(config, seed, stream, state)(tmp_path / "model")
    model = load_model(tmp_path / "model")
    tests = stream.tests_after(len(stream.tasks))
    x = np.concatenate([test.x.numpy() for test in tests])
    np.testing.assert_array_equal(model.predict(x), result.predictions[-1].y_pred)
    assert model.labels == list("abcde")
    assert [lesson.rows for lesson in model.lessons] == [len(one.train) for one in stream.tasks]
    assert sum(group.rows for group in model.seen) == sum(len(one.train) for one in stream.tasks)
    assert model.learner.net is not state.learner.net
    model.learn(x[:20] + 9, ["new"] * 20, ["0", "1"] * 10)
    assert model.probabilities(x).shape == (len(x), 6)


def test_it_knows_how_the_run_ended() -> None:
    config, seed, stream, state, result = finished("moments")
    model = model_of_run(config, seed, stream, state)
    (found,) = model.measured
    assert found.metrics == dict(result.per_task[-1].values)
    assert found.rows == len(result.predictions[-1].y_true)
    assert found.lessons == len(stream.tasks)
    assert {group.attribute for group in found.groups} == {"0", "1"}
    tests = stream.tests_after(len(stream.tasks))
    x = np.concatenate([test.x.numpy() for test in tests])
    labels = [model.labels[label] for label in result.predictions[-1].y_true]
    values = [model.values[value] for value in result.predictions[-1].sensitive]
    again = model.measure(x, labels, values)  # all classes as of one task
    assert again.metrics["eo"] == found.metrics["eo"]
    assert again.groups == found.groups
    with pytest.raises(FaircilError, match="class\\(es\\) z were never learned"):
        model.measure(x[:1], ["z"])


def test_what_was_post_processed_is_measured_without() -> None:
    changes = {"postprocess": "eps-fair", "epsilon": 0.0, "held_out": 4}
    config, seed, stream, state, result = finished("er", config=changes)
    model = model_of_run(config, seed, stream, state)
    assert model.config.label == "er"
    assert "post-processed by eps-fair" in model.notes[-1]
    tests = stream.tests_after(len(stream.tasks))
    x = np.concatenate([test.x.numpy() for test in tests])
    last = result.predictions[-1]
    assert (last.y_pred != model.predict(x)).any()
    plain = evaluate(last.y_true, model.predict(x), task=last.task, sensitive=last.sensitive)
    assert model.measured[0].metrics["eo"] == plain.eo
    assert model.learner is state.learner
    assert not model.state.held_out  # type: ignore[union-attr]
    assert sum(lesson.rows for lesson in model.lessons) == sum(state.seen.values())


def test_inputs_of_a_model_without_a_table_are_arrays(tmp_path: Path) -> None:
    config, seed, stream, state, _ = finished("er")
    keep_model(config, seed, stream, state)(tmp_path / "model")
    model = FairIncrementalClassifier.load(tmp_path / "model")
    x = stream.tasks[0].test.x.numpy()
    assert model.n_features_in_ == 6
    assert set(model.predict(x)) <= set("abcde")
    model.partial_fit(x[:4] + 9, ["f"] * 4, sensitive_features=["0", "1", "0", "1"])
    assert model.classes_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="6 features"):
        model.predict(x[:, :5])


def cannot(*_: object) -> Any:
    raise UsageError("it holds a function")


def test_sweeps_keep_no_models_unless_they_are_told_to(tmp_path: Path) -> None:
    work = small_work(0)
    (outcome,) = finish([work], SweepOptions(tmp_path / "a"))
    assert outcome.run is not None
    assert not model_folder(Path(outcome.run.dir)).exists()
    (kept,) = finish([work], SweepOptions(tmp_path / "b", keep=keep_model))
    assert kept.run is not None
    assert load_model(model_folder(Path(kept.run.dir))).names == ("0", "1")
    # It is the same run, found by whoever looks for it.
    (found,) = finish([work], SweepOptions(tmp_path / "b"))
    assert found.spent is None
    assert found.run == kept.run
    assert replace(kept.run, dir="", seconds={}) == replace(outcome.run, dir="", seconds={})


def test_a_run_whose_model_cannot_be_kept_is_kept_itself(tmp_path: Path) -> None:
    (outcome,) = finish([small_work(0)], SweepOptions(tmp_path, keep=cannot))
    assert outcome.run is not None
    assert outcome.run.notes[-1] == "no model is kept: it holds a function"
    assert not model_folder(Path(outcome.run.dir)).exists()
