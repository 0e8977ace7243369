"""The run: the only loop over tasks, epochs and batches."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.config import RunConfig
from faircil.data.datasets import load_dataset
from faircil.data.own import load_own
from faircil.data.stream import Task, TaskStream, small_groups
from faircil.epoch import select_samples, weigh_samples, weight_record
from faircil.errors import FaircilError
from faircil.learners import LEARNERS, Learner, LearnerSettings
from faircil.learners.graphs import GraphedStep
from faircil.metrics import TaskMetrics, evaluate
from faircil.nets import build_mlp
from faircil.results.record import EpochRecord, Names, Predictions, RunResult
from faircil.samples import Samples, group_counts
from faircil.state import Generators, RunState
from faircil.threads import one_thread
from faircil.weighting.result import WeightResult
from faircil.weighting.training import Selection

Listener = Callable[[EpochRecord | TaskMetrics], None]
Step = Callable[[Samples, Tensor | None, Samples | None], None]


def load_stream(config: RunConfig, seed: int) -> TaskStream:
    """Load the data of a run."""
    if config.own is not None:
        return load_own(config.own, seed)
    return load_dataset(
        config.dataset,
        seed,
        shuffle_classes=config.settings.class_order == "shuffled",
        classes_per_task=config.settings.classes_per_task,
    )


def run(
    config: RunConfig,
    seed: int,
    *,
    stream: TaskStream | None = None,
    device: torch.device | str = "cpu",
    listener: Listener = lambda _: None,
) -> RunResult:
    """Train a learner over a stream of tasks and measure it after each.

    Parameters
    ----------
    config : RunConfig
    seed : int
        Of everything that is drawn; methods with the same seed see the same data, initial weights
        and (with the same buffer rule) buffer.
    stream : TaskStream, optional
        Loaded from the configuration if not given.
    device : torch.device or str
    listener : callable
        Is told of every epoch and every evaluation.
    """
    stream = load_stream(config, seed) if stream is None else stream
    device = torch.device(device)
    state = _start(config, seed, stream, device)
    start = time.perf_counter()
    # numpy's BLAS threads spin after each product and would take the cores from torch's.
    with threadpool_limits(1, user_api="blas"):
        for task in stream.tasks:
            _learn_task(config, state, task.train.to(device), listener)
            _evaluate(state, task, device)
            listener(state.per_task[-1])
    total = time.perf_counter() - start
    return RunResult(
        config=config.model_dump(mode="json"),
        label=config.label,
        seed=seed,
        names=Names(stream.class_names, stream.attribute, stream.attribute_values),
        per_task=tuple(state.per_task),
        predictions=tuple(state.predictions),
        epochs=tuple(state.epochs),
        seconds=state.seconds(total),
        notes=tuple(state.notes),
    )


def _start(config: RunConfig, seed: int, stream: TaskStream, device: torch.device) -> RunState:
    """Make the state of a run before its first task."""
    settings = config.settings
    n_inputs = stream.tasks[0].train.x[0].numel()
    generators = Generators.from_seed(seed)
    net = build_mlp(n_inputs, stream.n_classes, settings.hidden, generators.init_seed).to(device)
    learner = LEARNERS[config.method](
        net, LearnerSettings(settings.lr, settings.momentum, settings.tau)
    )
    quota = settings.buffer_size if learner.replays else 0
    return RunState(
        learner,
        ReplayBuffer(settings.buffer_size, settings.buffer_rule),
        generators,
        notes=[*stream.notes, *small_groups(stream, quota)],
    )


def _learn_task(config: RunConfig, state: RunState, train: Samples, listener: Listener) -> None:
    """Train on one task, epoch by epoch, and keep a part of it in the buffer."""
    learner, settings = state.learner, config.settings
    for key, count in group_counts(train).items():
        state.seen[key] = state.seen.get(key, 0) + count
    memory = state.buffer.samples
    replay = None
    if memory is not None:
        replay = ReplayBatches(memory, settings.memory_batch_size, state.generators.memory)
    samples = learner.begin_task(train)
    step = GraphedStep(learner) if train.y.is_cuda and learner.graphable else learner.step
    result: WeightResult | None = None
    for epoch in range(1, settings.epochs + 1):
        result = weigh_samples(config, state, samples, memory)
        start = time.perf_counter()
        selection = select_samples(config, state, samples, result)
        with one_thread():
            _train_epoch(step, samples, selection, replay, settings.batch_size)
        record = EpochRecord(
            task=len(state.per_task) + 1,
            epoch=epoch,
            samples=len(samples),
            trained=len(selection.index),
            train=time.perf_counter() - start,
            weights=weight_record(result),
        )
        state.epochs.append(record)
        listener(record)
        _check_finite(learner, record, settings.lr)
        if len(selection.index) == 0:
            state.notes.append(
                f"task {record.task}, epoch {epoch}: the program keeps no sample, so the epoch "
                "trained on the buffer alone; a smaller alpha or a larger lam keeps more"
            )
    learner.end_task()
    if learner.replays:
        weights = None if result is None else result.weights
        state.buffer = state.buffer.with_task(train, weights, state.generators.buffer)


def _train_epoch(
    step: Step,
    samples: Samples,
    selection: Selection,
    replay: ReplayBatches | None,
    batch_size: int,
) -> None:
    """Step over the selected samples; if there are none, once over the buffer."""
    rows = torch.split(selection.index, batch_size)
    weights = rows if selection.weight is None else torch.split(selection.weight, batch_size)
    if len(selection.index) == 0 and replay is not None:
        rows, weights = rows * replay.per_pass, weights * replay.per_pass
    for index, weight in zip(rows, weights, strict=True):
        step(
            samples.take(index),
            None if selection.weight is None else weight,
            None if replay is None else replay.next(),
        )
    if samples.y.is_cuda:
        torch.cuda.synchronize()


def _check_finite(learner: Learner, record: EpochRecord, lr: float) -> None:
    """Stop a run whose training has diverged: its metrics would mean nothing."""
    if not all(torch.isfinite(parameter).all() for parameter in learner.net.parameters()):
        raise FaircilError(
            f"training diverged in task {record.task}, epoch {record.epoch}: the net has infinite "
            f"or NaN weights; lower the learning rate (--set lr={lr / 10:g}; it was {lr:g}) or tau"
        )


def _evaluate(state: RunState, task: Task, device: torch.device) -> None:
    """Measure the learner on the test samples of all classes seen so far."""
    start = time.perf_counter()
    state.tests.append(task.test.to(device))
    y_pred = torch.cat([state.learner.predict(test.x) for test in state.tests]).cpu().numpy()
    labels = [test.y.cpu().numpy() for test in state.tests]
    attributes = [test.z.cpu().numpy() for test in state.tests if test.z is not None]
    predictions = Predictions(
        y_true=np.concatenate(labels),
        y_pred=y_pred,
        sensitive=np.concatenate(attributes) if attributes else None,
        task=np.repeat(np.arange(len(labels)), [len(part) for part in labels]),
    )
    state.predictions.append(predictions)
    state.per_task.append(
        evaluate(
            predictions.y_true,
            predictions.y_pred,
            task=predictions.task,
            sensitive=predictions.sensitive,
        )
    )
    state.eval_seconds += time.perf_counter() - start
