from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from faircil.data.stream import Task
from faircil.errors import UsageError
from faircil.learners import LEARNERS
from faircil.postprocess.tasks import fair_predictions
from faircil.results.record import RunResult
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.state import RunState
from faircil.samples import concatenate, group_counts
from small_runs import ABSENT, FEW, PER_GROUP, TASKS, small_config, small_stream


@pytest.fixture(scope="module")
def plain() -> RunResult:
    return run(small_config(attribute=True), 0, stream=small_stream(attribute=True))


def test_probabilities_are_over_the_seen_classes_and_agree_with_predictions(
    plain: RunResult,
) -> None:
    for number, (kept, predictions) in enumerate(
        zip(plain.probabilities, plain.predictions, strict=True), start=1
    ):
        seen = sorted(label for task in TASKS[:number] for label in task)
        assert kept.classes.tolist() == seen
        assert kept.test.shape == (len(predictions.y_true), len(seen))
        assert kept.test.dtype == kept.pool.dtype == np.float32
        np.testing.assert_allclose(kept.test.sum(axis=1), 1, atol=1e-5)
        chosen = kept.classes[kept.test.argmax(axis=1)]
        inside = np.isin(predictions.y_pred, seen)
        assert (chosen[inside] == predictions.y_pred[inside]).all()


def test_the_pool_is_the_buffer_weighted_as_what_was_seen(states: list[RunState]) -> None:
    stream = small_stream(attribute=True)
    result = run(small_config(attribute=True), 0, stream=stream)
    pool, buffer = result.probabilities[-1], states[0].buffer.samples
    assert buffer is not None
    assert buffer.z is not None
    assert pool.pool_sensitive.tolist() == buffer.z.tolist()
    scores = states[0].learner.scores(buffer.x)
    np.testing.assert_allclose(pool.pool, torch.softmax(scores, dim=1).numpy(), atol=1e-6)
    for key in {tuple(key) for key in buffer.keys().tolist()}:
        members = (buffer.keys() == torch.tensor(key)).all(dim=1).numpy()
        seen = FEW if key == (4, 1) else PER_GROUP
        assert pool.pool_weight[members].sum() == pytest.approx(seen)
    absent = 1 - ABSENT[1]
    assert pool.values.tolist() == [0, 1]
    assert pool.counts[absent] == 4 * PER_GROUP + FEW
    assert pool.counts[ABSENT[1]] == 4 * PER_GROUP


@pytest.mark.parametrize(("method", "attribute"), [("er", False), ("finetune", True)])
def test_without_an_attribute_or_a_buffer_there_is_nothing_to_keep(
    method: str, attribute: bool
) -> None:
    config = small_config(method, attribute=attribute)
    assert run(config, 0, stream=small_stream(attribute=attribute)).probabilities == ()


def test_metrics_of_a_processed_run_are_those_after_post_processing(plain: RunResult) -> None:
    config = small_config(attribute=True).model_copy(
        update={"postprocess": "eps-fair", "epsilon": 0.02}
    )
    fair = run(config, 0, stream=small_stream(attribute=True))
    assert fair.label == "er+eps-fair"
    for mine, other in zip(fair.probabilities, plain.probabilities, strict=True):
        assert (mine.test == other.test).all()  # training does not change
    for kept, predictions in zip(fair.probabilities, fair.predictions, strict=True):
        assert predictions.sensitive is not None
        expected = fair_predictions(kept, predictions.sensitive, 0.02, 0)
        assert predictions.y_pred.tolist() == expected.y_pred.tolist()
    assert fair.per_task != plain.per_task
    assert [note for note in fair.notes if "sampling error" in note] == [
        "eps-fair: epsilon 0.02 is below the sampling error of the pool's shares: it fits noise "
        "too; a larger pool or epsilon helps"
    ]
    again = run(config, 0, stream=small_stream(attribute=True))
    assert again.per_task == fair.per_task


def test_post_processing_is_resolved_and_named() -> None:
    config = resolve(dataset="toy-groups", postprocess="eps-fair")
    assert (config.postprocess, config.epsilon, config.label) == ("eps-fair", 0.05, "fsw+eps-fair")
    plain = resolve(dataset="toy-groups", method="er", weighting="random")
    assert (plain.postprocess, plain.epsilon, plain.label) == ("none", None, "er+random")
    with pytest.raises(UsageError) as caught:
        resolve(dataset="toy", method="finetune", postprocess="eps-fair", epsilon=2)
    message = str(caught.value)
    assert "epsilon is 2, expected 0 (equal rates) to 1" in message
    assert "method 'finetune' keeps none" in message
    assert "compares the values of a sensitive attribute, and toy has none" in message


def test_held_out_samples_are_never_trained_on_and_are_the_pool(states: list[RunState]) -> None:
    stream = small_stream(attribute=True)
    config = small_config(attribute=True).model_copy(update={"held_out": 4})
    result = run(config, 0, stream=stream)
    state = states[0]
    assert state.buffer.samples is not None
    held = concatenate(state.held_out)
    trained = set(map(tuple, state.buffer.samples.x.tolist()))
    everything = [tuple(row) for task in stream.tasks for row in task.train.x.tolist()]
    rows = list(map(tuple, held.x.tolist()))
    assert set(rows) <= set(everything)
    assert not set(rows) & trained
    # Of three samples none is held out, so this group is not in the pool.
    assert group_counts(held) == {
        (y, z): 4 for y in range(5) for z in (0, 1) if (y, z) not in (ABSENT, (4, 1))
    }
    assert sum(state.seen.values()) == len(everything) - len(held)
    pool = result.probabilities[-1]
    assert len(pool.pool) == len(held)
    assert set(pool.pool_weight.tolist()) == {PER_GROUP / 4}
    # Groups are as large as in the data: what is held out of a group belongs to it.
    assert pool.counts.tolist() == [4 * PER_GROUP, 4 * PER_GROUP + FEW]


def test_held_out_samples_serve_methods_without_a_buffer() -> None:
    config = small_config("finetune", attribute=True).model_copy(
        update={"postprocess": "eps-fair", "epsilon": 0.0, "held_out": 6}
    )
    result = run(config, 0, stream=small_stream(attribute=True))
    assert len(result.probabilities) == len(TASKS)
    assert result.label == "finetune+eps-fair"


def test_a_run_that_goes_on_holds_out_the_same_samples(
    states: list[RunState], tmp_path: Path
) -> None:
    config = small_config(attribute=True).model_copy(update={"held_out": 4})
    saved = tmp_path / "state"

    def save(state: RunState) -> None:
        if (state.epochs[-1].task, state.epochs[-1].epoch) == (2, 1):
            save_state(state, saved)

    stream = small_stream(attribute=True)
    whole = run(config, 0, stream=stream, checkpoint=save)
    state = load_state(saved)
    rest = run(config, 0, stream=stream, state=state)
    for mine, other in zip(state.held_out, states[0].held_out, strict=True):
        assert torch.equal(mine.x, other.x)
    assert rest.per_task == whole.per_task
    for kept, before in zip(rest.probabilities, whole.probabilities, strict=True):
        assert (kept.pool == before.pool).all()


def test_held_out_data_needs_an_attribute_and_a_number() -> None:
    with pytest.raises(UsageError, match=r"`held_out` is for, compares .* toy has none"):
        resolve(dataset="toy", held_out=5)
    with pytest.raises(UsageError, match="`held_out` is -1, expected a number of samples"):
        resolve(dataset="toy-groups", held_out=-1)
    assert resolve(dataset="toy-groups", method="joint", postprocess="eps-fair", held_out=5)


def test_a_class_that_comes_back_is_evaluated_on_new_data_in_its_own_task() -> None:
    stream = small_stream(attribute=True)
    first = stream.tasks[0]
    # Inputs that no class has: whatever was learned of the class before is of no use.
    moved = [replace(part, x=part.x + 50) for part in (first.train, first.test)]
    back = Task((), *moved, renewed=first.classes)
    result = run(
        small_config("er", attribute=True), 0, stream=replace(stream, tasks=(*stream.tasks, back))
    )
    clean = run(small_config("er", attribute=True), 0, stream=stream)
    assert result.per_task[:3] == clean.per_task
    last = result.predictions[-1]
    assert last.task.tolist() == clean.predictions[-1].task.tolist()
    assert len(result.per_task[-1].per_test_task) == 3
    assert result.accuracy_matrix.shape == (4, 3)
    # What is tested has changed, so nothing can be said of forgetting.
    assert result.per_task[-1].forgetting is None
    assert clean.per_task[-1].forgetting is not None


@pytest.mark.parametrize("method", [name for name in LEARNERS if name != "joint"])
def test_every_method_takes_rows_of_a_class_in_several_tasks(method: str) -> None:
    stream = small_stream(attribute=True)
    first, second, third = stream.tasks
    mixed = concatenate([second.train, first.train.take(slice(0, None, 5))])
    alone = Task((), third.train.take(slice(0, None, 3)), third.test.take(slice(0)))
    tasks = (first, replace(second, train=mixed), third, alone)
    result = run(small_config(method, attribute=True), 0, stream=replace(stream, tasks=tasks))
    assert [len(metrics.per_test_task) for metrics in result.per_task] == [1, 2, 3, 3]
    assert [metrics.forgetting is None for metrics in result.per_task] == [True, False, False, True]
