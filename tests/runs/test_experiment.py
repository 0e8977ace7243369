from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import accumulate, chain, cycle, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from faircil.data.own import OwnData
from faircil.data.stream import Task, TaskStream
from faircil.errors import DataError, SolverError, UsageError
from faircil.learners import Batch
from faircil.learners.replay import Replay
from faircil.metrics import TaskMetrics, evaluate
from faircil.nets import MLP, build_mlp
from faircil.report.table import change_table
from faircil.results.record import EpochRecord
from faircil.runs import evaluation, experiment
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_stream
from faircil.samples import Samples, group_counts
from faircil.weighting.choice import WeightResult
from faircil.weighting.selection import WEIGHTINGS, Weighting
from faircil.weighting.weights import FairSampleWeights
from small_runs import PER_GROUP, TASKS, small_config, small_stream


def spy(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> list[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """Record arguments and result of every call of ``owner.name``."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []
    original: Callable[..., Any] = getattr(owner, name)

    def recording(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        calls.append((arguments, deepcopy(named), result))
        return result

    monkeypatch.setattr(owner, name, recording)
    return calls


def test_methods_on_one_seed_share_initial_weights_and_buffer(
    states: list[RunState], monkeypatch: pytest.MonkeyPatch
) -> None:
    initial: list[MLP] = []

    def recording(*arguments: Any) -> MLP:
        initial.append(build_mlp(*arguments))
        return deepcopy(initial[-1])

    monkeypatch.setattr("faircil.runs.state.build_mlp", recording)
    stream = small_stream(attribute=True)
    for weighting in WEIGHTINGS:
        run(small_config("er", weighting, attribute=True), 3, stream=stream)
    weights = [parameters_to_vector(net.parameters()) for net in initial]
    trained = [parameters_to_vector(state.learner.net.parameters()) for state in states]
    kept = [state.buffer.samples for state in states]
    assert len(weights) == len(trained) == len(WEIGHTINGS)
    for number in range(1, len(WEIGHTINGS)):
        assert torch.equal(weights[0], weights[number])
        assert not torch.equal(trained[0], trained[number])
        assert torch.equal(kept[0].x, kept[number].x)


def test_probabilities_that_are_too_many_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(attribute=True)
    whole = run(config, 0, stream=small_stream(attribute=True))
    assert len(whole.probabilities) == len(TASKS)
    monkeypatch.setattr(evaluation, "MOST_PROBABILITIES", 1)
    found = run(config, 0, stream=small_stream(attribute=True))
    assert found.probabilities == ()
    assert sum("are not kept" in note for note in found.notes) == 1
    assert found.per_task == whole.per_task


def test_methods_on_one_seed_see_the_same_data() -> None:
    one, other = (load_stream(resolve(dataset="toy", method=m), 4) for m in ("er", "fsw"))
    for mine, yours in zip(one.tasks, other.tasks, strict=True):
        assert torch.equal(mine.train.x, yours.train.x)
        assert torch.equal(mine.test.x, yours.test.x)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_epochs_are_recorded_and_weighted_from_the_second_task_on(weighting: str) -> None:
    config = small_config("er", weighting, attribute=True, epochs=3)
    stream = small_stream(attribute=True)
    told: list[EpochRecord | TaskMetrics] = []
    result = run(config, 0, stream=stream, listener=told.append)
    assert [(epoch.task, epoch.epoch) for epoch in result.epochs] == [
        (task, epoch) for task in (1, 2, 3) for epoch in (1, 2, 3)
    ]
    for epoch in result.epochs:
        assert epoch.samples == len(stream.tasks[epoch.task - 1].train)
        assert (epoch.weights is not None) == (weighting != "none" and epoch.task > 1)
        if epoch.weights is None:
            assert epoch.trained == epoch.samples
        else:
            record = epoch.weights
            assert record.kept + record.dropped + record.partial == epoch.samples
            assert epoch.trained % 16 == 0 or epoch.trained == epoch.samples
            assert record.bound <= record.objective + 1e-9
    assert [record for record in told if isinstance(record, EpochRecord)] == list(result.epochs)
    assert [record for record in told if isinstance(record, TaskMetrics)] == list(result.per_task)
    kinds = [type(record) for record in told]
    assert kinds == [EpochRecord, EpochRecord, EpochRecord, TaskMetrics] * 3


def test_seconds_are_parts_of_the_total() -> None:
    stream = small_stream(attribute=False)
    plain, weighted = (
        run(small_config("er", name), 0, stream=stream).seconds for name in ("none", "fsw")
    )
    for seconds in (plain, weighted):
        parts = seconds.gradient + seconds.lp + seconds.train + seconds.eval
        assert 0 < parts <= seconds.total
        assert seconds.train > 0
        assert seconds.eval > 0
    assert plain.gradient == plain.lp == 0
    assert weighted.gradient > 0
    assert weighted.lp > 0


def test_small_and_absent_groups_are_noted() -> None:
    stream = small_stream(attribute=True)
    replay, alone = (
        run(small_config(method, attribute=True, epochs=1), 0, stream=stream).notes
        for method in ("er", "finetune")
    )
    absent, small = replay
    assert absent.endswith(": class 'c' with z '0' (task 2)")
    assert small.endswith(": class 'e' with z '1' (3, task 3)")
    # Without a buffer a small group is no trouble.
    assert alone == replay[:1]


def test_an_epoch_that_keeps_nothing_trains_on_the_buffer_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = Weighting(lambda weights, *_: torch.zeros_like(weights), "keep nothing")
    monkeypatch.setitem(WEIGHTINGS, "fsw", nothing)
    steps = spy(monkeypatch, Replay, "step")
    result = run(small_config("er", "fsw", epochs=1), 0, stream=small_stream(attribute=False))
    assert [epoch.trained for epoch in result.epochs[1:]] == [0, 0]
    assert [note[: note.index(":")] for note in result.notes] == [
        "task 2, epoch 1",
        "task 3, epoch 1",
    ]
    assert all("buffer alone" in note for note in result.notes)
    # One pass over 12, then 18 buffered samples, 16 at a time.
    alone = [batch.memory for (_, batch), _, _ in steps if len(batch.current) == 0]
    assert [len(memory) for memory in alone] == [12, 16, 2]


def test_a_larger_step_size_keeps_fewer_samples() -> None:
    stream = small_stream(attribute=False)
    kept = [
        run(small_config("fsw", epochs=1, alpha=alpha), 0, stream=stream).epochs[1].weights.kept
        for alpha in (1e-4, 0.1, 1e6)
    ]
    assert kept[0] > kept[1] > kept[2]


@pytest.mark.parametrize("weighting", ["fsw", "random", "balanced"])
def test_zero_weights_can_stay_in_the_batches(
    monkeypatch: pytest.MonkeyPatch, weighting: str
) -> None:
    used = spy(monkeypatch, experiment, "weigh_samples")
    steps = spy(monkeypatch, Replay, "step")
    config = small_config("er", weighting, attribute=True, keep="all", alpha=0.3)
    stream = small_stream(attribute=True)
    result = run(config, 0, stream=stream)
    batches: list[Batch] = [batch for (_, batch), _, _ in steps]
    for epoch, (_, _, weighed) in zip(result.epochs, used, strict=True):
        assert epoch.trained == epoch.samples == len(stream.tasks[epoch.task - 1].train)
        assert epoch.steps == -(-epoch.samples // 16)
        mine, batches = batches[: epoch.steps], batches[epoch.steps :]
        if epoch.weights is not None:
            assert epoch.weights.dropped > 0
            rows = torch.cat([batch.rows for batch in mine])
            assert sorted(rows.tolist()) == list(range(epoch.samples))
            weights = torch.cat([batch.weight for batch in mine if batch.weight is not None])
            assert torch.equal(weights, weighed.weights[rows])


@pytest.mark.parametrize("keep", ["weighted", "all"])
@pytest.mark.parametrize("weighting", ["fsw", "random", "balanced"])
def test_weights_can_be_rounded_for_the_controls_as_well(
    monkeypatch: pytest.MonkeyPatch, weighting: str, keep: str
) -> None:
    # By cluster, weights between .05 and .5 are common: kept, unless they are rounded.
    solved = spy(monkeypatch, FairSampleWeights, "__call__")
    used = spy(monkeypatch, experiment, "weigh_samples")
    config = small_config(
        "er", weighting, attribute=True, granularity="cluster-weights", round="true", keep=keep
    )
    run(config, 0, stream=small_stream(attribute=True))
    given = [result.weights for _, _, result in solved]
    taken = [result.weights for _, _, result in used if result is not None]
    assert any(((weights > 0.05) & (weights < 0.5)).any() for weights in given)
    for before, after in zip(given, taken, strict=True):
        assert set(after.tolist()) <= {0.0, 1.0}
        assert int(after.sum()) == int((before >= 0.5).sum())
        if weighting == "fsw":
            assert torch.equal(after, (before >= 0.5).float())


@pytest.mark.parametrize("granularity", ["sample", "group", "cluster"])
@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
@pytest.mark.parametrize("floor", ["true", "false"])
def test_disparity_alone_can_be_the_objective(granularity: str, measure: str, floor: str) -> None:
    config = small_config(
        "fsw", attribute=True, measure=measure, granularity=granularity, lam=0, floor=floor
    )
    result = run(config, 0, stream=small_stream(attribute=True))
    for epoch in result.epochs:
        if epoch.weights is not None:
            # Nothing but a sum of absolute values is left.
            assert epoch.weights.objective >= -1e-9
            if granularity == "sample":  # samples that are drawn may break the floor
                assert epoch.weights.bound <= epoch.weights.objective + 1e-9
    assert result.per_task[0].accuracy > 0.6


def test_defaults_are_those_of_the_method_without_ablations() -> None:
    stream = small_stream(attribute=True)
    plain, same, zeros, whole = (
        run(small_config("fsw", attribute=True, alpha=0.3, **values), 0, stream=stream)
        for values in ({}, {"keep": "weighted", "round": "false"}, {"keep": "all"}, {"lam": 0})
    )
    assert [epoch.trained for epoch in plain.epochs] == [epoch.trained for epoch in same.epochs]
    assert plain.per_task == same.per_task
    for other in (zeros, whole):
        trained = [epoch.trained for epoch in other.epochs]
        assert trained != [epoch.trained for epoch in plain.epochs]


def test_evaluation_covers_exactly_the_classes_seen() -> None:
    result = run(small_config(attribute=True), 0, stream=small_stream(attribute=True))
    before = None
    for number, (predictions, metrics) in enumerate(
        zip(result.predictions, result.per_task, strict=True), start=1
    ):
        classes = list(chain.from_iterable(TASKS[:number]))
        labels, counts = np.unique(predictions.y_true, return_counts=True)
        assert labels.tolist() == sorted(classes)
        assert set(counts.tolist()) == {2 * PER_GROUP}
        task_of = {c: task for task, members in enumerate(TASKS) for c in members}
        assert predictions.task.tolist() == [task_of[c] for c in predictions.y_true.tolist()]
        assert predictions.sensitive is not None
        assert metrics == evaluate(
            predictions.y_true,
            predictions.y_pred,
            task=predictions.task,
            sensitive=predictions.sensitive,
            before=before,
        )
        before = metrics
        assert (metrics.forgetting is None) == (number == 1)
        assert [row.label for row in metrics.classes] == sorted(classes)


@pytest.mark.parametrize("granularity", ["sample", "group"])
def test_random_weights_are_a_permutation_of_the_programs_own(
    monkeypatch: pytest.MonkeyPatch, states: list[RunState], granularity: str
) -> None:
    solved = spy(monkeypatch, FairSampleWeights, "__call__")
    used = spy(monkeypatch, experiment, "weigh_samples")
    config = small_config("er", "random", granularity=granularity, lam=2.0)
    run(config, 0, stream=small_stream(attribute=False))
    given = [result.weights for _, _, result in solved]
    taken = [result.weights for _, _, result in used if result is not None]
    assert len(given) == len(taken) == 4
    for before, after in zip(given, taken, strict=True):
        assert torch.equal(before.sort().values, after.sort().values)
    assert any(not torch.equal(before, after) for before, after in zip(given, taken, strict=True))
    # The program is solved for the learner as it is, anew in every epoch.
    assert all(arguments[1] is states[0].learner.net for arguments, _, _ in solved)
    assert all(not torch.equal(one, two) for one, two in pairwise(given) if len(one) == len(two))


def test_group_granularity_draws_whole_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    used = spy(monkeypatch, experiment, "weigh_samples")
    config = small_config("fsw", attribute=True, granularity="group")
    result = run(config, 0, stream=small_stream(attribute=True))
    results: list[WeightResult] = [call[2] for call in used if call[2] is not None]
    for weighed in results:
        assert set(weighed.weights.tolist()) <= {0.0, 1.0}
        assert weighed.shares is not None
    assert all(epoch.weights.partial == 0 for epoch in result.epochs if epoch.weights)


def test_large_weight_first_keeps_the_largest_weights_of_the_last_epoch(
    monkeypatch: pytest.MonkeyPatch, states: list[RunState]
) -> None:
    used = spy(monkeypatch, experiment, "weigh_samples")
    stream = small_stream(attribute=True)
    config = small_config("fsw", attribute=True, buffer_rule="large-weight-first", epochs=3)
    run(config, 0, stream=stream)
    kept = states[0].buffer.samples
    assert kept is not None
    kept_rows = set(map(tuple, kept.x.tolist()))
    for number, task in enumerate(stream.tasks[1:], start=2):
        weights: Tensor = used[3 * number - 1][2].weights
        in_buffer = torch.tensor([tuple(row) in kept_rows for row in task.train.x.tolist()])
        for key in group_counts(task.train):
            members = (task.train.keys() == torch.tensor(key)).all(dim=1)
            inside, outside = weights[members & in_buffer], weights[members & ~in_buffer]
            assert len(inside) == min(6, int(members.sum()))
            assert len(outside) == 0 or inside.min() >= outside.max()


def test_demographic_parity_counts_the_tasks_so_far_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved = spy(monkeypatch, FairSampleWeights, "__call__")
    stream = small_stream(attribute=True)
    run(small_config("fsw", attribute=True, measure="dp", epochs=1), 0, stream=stream)
    counts = [group_counts(task.train) for task in stream.tasks]
    so_far = list(accumulate(counts, lambda seen, new: {**seen, **new}))
    assert [named["seen"] for _, named, _ in solved] == so_far[1:]


def test_a_solver_that_is_absent_is_missed_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cplex", None)
    steps = spy(monkeypatch, Replay, "step")
    for settings in ({"solver": "cplex"}, {"solver": "cplex", "granularity": "group"}):
        with pytest.raises(SolverError, match="needs the cplex package"):
            run(small_config("fsw", **settings), 0, stream=small_stream(attribute=False))
    assert steps == []
    run(small_config("er", solver="cplex"), 0, stream=small_stream(attribute=False))  # needs none


def test_replay_meets_all_of_the_buffer_before_any_sample_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = spy(monkeypatch, Replay, "step")
    run(small_config(memory_batch_size=4), 0, stream=small_stream(attribute=False))
    memories: list[Samples] = [batch.memory for (_, batch), _, _ in steps if batch.memory]
    first_pass = torch.cat([memory.x for memory in memories[:3]])
    assert len(torch.unique(first_pass, dim=0)) == 12


@pytest.mark.parametrize(
    ("size", "passes"), [(4, ([4, 4, 4], [4, 4, 4, 4, 2])), (7, ([7, 5], [7, 7, 4]))]
)
def test_memory_batches_have_the_size_that_is_set(
    monkeypatch: pytest.MonkeyPatch, size: int, passes: tuple[list[int], list[int]]
) -> None:
    steps = spy(monkeypatch, Replay, "step")
    result = run(small_config(memory_batch_size=size), 0, stream=small_stream(attribute=False))
    sizes = iter([len(batch.memory) for (_, batch), _, _ in steps if batch.memory])
    # The buffer has 12 samples in the second task, 18 in the third, and is passed again and again.
    for task, one_pass in enumerate(passes, start=2):
        count = sum(epoch.steps for epoch in result.epochs if epoch.task == task)
        expected = list(islice(cycle(one_pass), count))
        assert [next(sizes) for _ in expected] == expected
    assert not list(sizes)


def test_settings_choose_the_order_and_number_of_classes() -> None:
    config = resolve(dataset="toy", overrides=["class_order=shuffled", "classes_per_task=1"])
    orders = {
        tuple(chain.from_iterable(task.classes for task in load_stream(config, seed).tasks))
        for seed in range(6)
    }
    assert len(orders) > 1
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len(load_stream(config, 0).tasks) == 3


def test_own_data_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    rows = [f"{number},{'abc'[number % 3]}" for number in range(60)]
    path.write_text("\n".join(["x,y", *rows]) + "\n")
    config = resolve(own=OwnData(str(path), "y"), overrides=["epochs=1", "hidden=4"])
    assert load_stream(config, 0).class_names == ("a", "b", "c")
    assert len(run(config, 0).per_task) == 2


def test_own_data_that_is_replaced_during_a_command_is_no_data_of_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    rows = [f"{number},{'abc'[number % 3]}" for number in range(60)]
    path.write_text("\n".join(["x,y", *rows]) + "\n")
    config = resolve(own=OwnData(str(path), "y"), overrides=["epochs=1", "hidden=4"])
    path.write_text("\n".join(["x,y", *rows[1:]]) + "\n")
    with pytest.raises(DataError, match=r"mine.csv has changed since the command began"):
        load_stream(config, 0)


def test_data_is_loaded_for_the_device_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings of a GPU are others than those of a CPU."""
    seen: list[torch.device] = []

    def load(*_: object, device: torch.device) -> TaskStream:
        seen.append(device)
        raise UsageError("enough")

    monkeypatch.setattr(experiment, "load_stream", load)
    with pytest.raises(UsageError, match="enough"):
        experiment.run(small_config("er"), 0, device="meta")
    assert seen == [torch.device("meta")]


def test_parameters_are_averaged_over_the_steps_of_the_last_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after: list[Tensor] = []
    learn_step = Replay.step

    def step(learner: Replay, batch: Batch) -> None:
        learn_step(learner, batch)
        after.append(parameters_to_vector(learner.net.parameters()).detach().clone())

    monkeypatch.setattr(Replay, "step", step)
    shown: list[Tensor] = []
    remember = Replay.remember

    def remembered(learner: Replay, *given: Any) -> Any:
        shown.append(parameters_to_vector(learner.net.parameters()).detach().clone())
        return remember(learner, *given)

    monkeypatch.setattr(Replay, "remember", remembered)
    config = small_config("er", epochs=4, average_last=0.5)
    result = run(config, 0, stream=small_stream(attribute=False))
    steps = [epoch.steps for epoch in result.epochs]
    ends = list(accumulate(steps))
    for task in range(len(TASKS)):
        first, end = ends[4 * task + 1], ends[4 * task + 3]
        mean = torch.stack(after[first:end]).double().mean(dim=0)
        # A running mean in float32, of as many steps, of numbers below 10.
        torch.testing.assert_close(shown[task].double(), mean, rtol=0, atol=1e-5)


def test_fair_draws_have_as_many_samples_as_the_program_keeps() -> None:
    config = small_config("er", "fsw", attribute=True, keep="draw")
    result = run(config, 0, stream=small_stream(attribute=True))
    weighted = [epoch for epoch in result.epochs if epoch.weights is not None]
    assert weighted
    for epoch in weighted:
        assert epoch.weights is not None
        assert epoch.trained <= epoch.weights.kept + epoch.weights.partial


def partly_unknown() -> TaskStream:
    """Return the small stream, with unknown attribute values in every fifth row."""

    def hidden(samples: Samples) -> Samples:
        assert samples.z is not None
        z = samples.z.clone()
        z[::5] = -1
        return Samples(samples.x, samples.y, z)

    stream = small_stream(attribute=True)
    parts = (Task(task.classes, hidden(task.train), hidden(task.test)) for task in stream.tasks)
    return replace(stream, tasks=tuple(parts))


def test_a_run_on_unknown_attribute_values_compares_the_others() -> None:
    stream = partly_unknown()
    result = run(small_config("moments", attribute=True), 0, stream=stream)
    known = [~task.test.unknown for task in stream.tasks]
    assert sum(group.n for group in result.per_task[-1].groups) == sum(map(sum, known))
    assert sum(row.n for row in result.per_task[-1].classes) == sum(map(len, known))
    changes = result.epochs[-1].passed
    assert changes is not None
    shown = change_table(changes, result.names, "groups")
    assert any(row[0].text.endswith(", unknown") for row in shown.cells)


def test_unknown_attribute_values_are_refused_where_they_cannot_be_used() -> None:
    with pytest.raises(DataError, match=r"unknown .* training with the method 'er' needs all"):
        run(small_config("er"), 0, stream=partly_unknown())
    config = small_config("moments").model_copy(update={"postprocess": "eps-fair"})
    with pytest.raises(DataError, match=r"post-processing by eps-fair needs all"):
        run(config, 0, stream=partly_unknown())


@pytest.mark.parametrize("method", ["er", "moments"])
def test_one_thread_computes_an_operation_whatever_is_allowed(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    seen: list[int] = []
    evaluate, step = experiment.evaluate_task, Replay.step

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any) -> Any:
            seen.append(torch.get_num_threads())
            return call(*given)

        return noting

    monkeypatch.setattr(experiment, "evaluate_task", noted(evaluate))
    monkeypatch.setattr(Replay, "step", noted(step))
    torch.set_num_threads(3)
    try:
        run(small_config(method), 0, stream=small_stream(attribute=False))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert {*seen} == {1}


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="expected a whole number of at least 0"):
        run(small_config(), seed, stream=small_stream(attribute=False))
