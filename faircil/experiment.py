"""The run: the only loop over tasks, epochs and batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.config import RunConfig
from faircil.data.datasets import load_dataset
from faircil.data.own import load_own
from faircil.data.stream import Task, TaskStream, small_groups
from faircil.learners import LEARNERS, Learner, LearnerSettings
from faircil.metrics import TaskMetrics, evaluate
from faircil.nets import build_mlp
from faircil.results.record import (
    EpochRecord,
    Names,
    Predictions,
    RunResult,
    Seconds,
    WeightRecord,
)
from faircil.samples import Samples, group_counts
from faircil.weighting.measures import MEASURES
from faircil.weighting.training import WEIGHTINGS, Selection, everything, select
from faircil.weighting.weights import FairSampleWeights, WeightResult

Listener = Callable[[EpochRecord | TaskMetrics], None]


@dataclass(frozen=True)
class Generators:
    """One stream of random numbers per purpose, so that methods on one seed share what they can."""

    shuffle: torch.Generator
    memory: torch.Generator
    buffer: torch.Generator
    weights: torch.Generator

    @classmethod
    def from_seed(cls, seed: int) -> Generators:
        """Derive independent generators from the seed of the run."""
        seeds = np.random.SeedSequence([seed, 1]).generate_state(4, np.uint64)
        return cls(*(torch.Generator().manual_seed(int(s >> np.uint64(1))) for s in seeds))


@dataclass
class RunState:
    """All that a run carries from one epoch to the next."""

    learner: Learner
    buffer: ReplayBuffer
    generators: Generators
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)
    tests: list[Samples] = field(default_factory=list)
    per_task: list[TaskMetrics] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    eval_seconds: float = 0.0


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
    device, settings = torch.device(device), config.settings
    net = build_mlp(stream.tasks[0].train.x[0].numel(), stream.n_classes, settings.hidden, seed).to(
        device
    )
    learner = LEARNERS[config.method](
        net, LearnerSettings(settings.lr, settings.momentum, settings.tau)
    )
    state = RunState(
        learner,
        ReplayBuffer(settings.buffer_size, settings.buffer_rule),
        Generators.from_seed(seed),
        notes=[
            *stream.notes,
            *small_groups(stream, settings.buffer_size if learner.replays else 0),
        ],
    )
    start = time.perf_counter()
    # numpy's BLAS threads spin after each product and would take the cores from torch's.
    with threadpool_limits(1, user_api="blas"):
        for task in stream.tasks:
            _learn_task(config, state, task, device, listener)
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
        seconds=Seconds(
            gradient=sum(epoch.weights.gradient for epoch in state.epochs if epoch.weights),
            lp=sum(epoch.weights.lp for epoch in state.epochs if epoch.weights),
            train=sum(epoch.train for epoch in state.epochs),
            eval=state.eval_seconds,
            total=total,
        ),
        notes=tuple(state.notes),
    )


def _learn_task(
    config: RunConfig, state: RunState, task: Task, device: torch.device, listener: Listener
) -> None:
    """Train on one task, epoch by epoch, and keep a part of it in the buffer."""
    train = task.train.to(device)
    for key, count in group_counts(train).items():
        state.seen[key] = state.seen.get(key, 0) + count
    memory = state.buffer.samples if state.learner.replays else None
    replay = None if memory is None else _replay_batches(memory, config, state)
    samples = state.learner.begin_task(train)
    result: WeightResult | None = None
    for epoch in range(1, config.settings.epochs + 1):
        if memory is not None:
            result = _weigh(config, state, samples, memory)
        start = time.perf_counter()
        selection = _select(config, state, samples, result)
        _train_epoch(state.learner, samples, selection, replay, config.settings.batch_size)
        record = EpochRecord(
            task=len(state.per_task) + 1,
            epoch=epoch,
            samples=len(samples),
            trained=len(selection.index),
            train=time.perf_counter() - start,
            weights=None if result is None else _weight_record(result),
        )
        state.epochs.append(record)
        listener(record)
        if len(selection.index) == 0:
            state.notes.append(
                f"task {record.task}, epoch {epoch}: the program keeps no sample, so the epoch "
                "trained on the buffer alone; a smaller alpha or a larger lam keeps more"
            )
    state.learner.end_task()
    if state.learner.replays:
        weights = None if result is None else result.weights
        state.buffer = state.buffer.with_task(train, weights, state.generators.buffer)


def _weigh(
    config: RunConfig, state: RunState, current: Samples, memory: Samples
) -> WeightResult | None:
    """Solve the program at the run's own state, and let the weighting use it."""
    reweight = WEIGHTINGS[config.weighting].reweight
    if reweight is None:
        return None
    settings, generator = config.settings, state.generators.weights
    weigh = FairSampleWeights(
        measure=config.measure,
        alpha=settings.alpha,
        lam=settings.lam,
        granularity=settings.granularity,
        floor=settings.floor,
        solver=settings.solver,
    )
    result = weigh(state.learner.net, current, memory, seen=state.seen, generator=generator)
    by_attribute = MEASURES[config.measure].by_attribute
    return replace(result, weights=reweight(result.weights, current, by_attribute, generator))


def _select(
    config: RunConfig, state: RunState, samples: Samples, result: WeightResult | None
) -> Selection:
    """Choose and shuffle the samples of an epoch."""
    if result is None:
        return everything(len(samples), state.generators.shuffle, samples.y.device)
    return select(result.weights, config.settings.batch_size, state.generators.shuffle)


def _replay_batches(memory: Samples, config: RunConfig, state: RunState) -> ReplayBatches:
    return ReplayBatches(memory, config.settings.memory_batch_size, state.generators.memory)


def _train_epoch(
    learner: Learner,
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
        learner.step(
            samples.take(index),
            None if selection.weight is None else weight,
            None if replay is None else replay.next(),
        )
    if samples.y.is_cuda:
        torch.cuda.synchronize()


def _weight_record(result: WeightResult) -> WeightRecord:
    return WeightRecord(
        kept=result.kept,
        dropped=result.dropped,
        partial=result.partial,
        objective=result.objective,
        bound=result.bound,
        gradient=result.gradient_seconds,
        lp=result.lp_seconds,
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
