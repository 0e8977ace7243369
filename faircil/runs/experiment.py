"""Execution of a run: the only loop over tasks, epochs and batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from faircil.compute import exact_convolutions, one_thread, same_bits, several_threads
from faircil.data.splits import hold_out
from faircil.data.stream import Task, TaskStream
from faircil.errors import raise_all, whole_mistakes
from faircil.learners import Batch, Learner
from faircil.metrics import TaskMetrics
from faircil.nets import traits_of
from faircil.ranks import ALONE, Ranks
from faircil.results.record import (
    EpochRecord,
    GroupWeights,
    Names,
    RunResult,
    WeightRecord,
)
from faircil.runs.config import RunConfig
from faircil.runs.divided import (
    DividedStep,
    attach_inputs,
    check_ranks,
    divided,
    same_net,
    weigh_divided,
)
from faircil.runs.evaluation import diverged, evaluate_task
from faircil.runs.graphs import GraphedStep
from faircil.runs.state import EpochInProgress, RunState, TaskInProgress, load_stream, start_run
from faircil.samples import Samples, refuse_unknown
from faircil.sharding import ShardedSamples
from faircil.weighting.choice import WeightResult
from faircil.weighting.selection import SELECTIONS, WEIGHTINGS, Selection, everything, rounded


def weigh_samples(config: RunConfig, state: RunState, current: Samples) -> WeightResult | None:
    """Solve the program for the current net, and apply the weighting to its weights.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        The program is based on losses and gradients of its net on the task and on the buffer. While
        the buffer is empty, there are no weights.
    current : Samples
        Training data of the task.

    Returns
    -------
    WeightResult or None
        Its weights are those that the epoch uses; None: all 1.
    """
    reweight, memory = WEIGHTINGS[config.weighting].reweight, state.buffer.samples
    if reweight is None or memory is None:
        return None
    settings, generator = config.settings, state.generators.weights
    # The settings only name the measure; the learner's also has the numbers of favoured classes.
    weigh = replace(settings.weights, measure=state.learner.measure)
    measured = partial(weigh_divided, weigh) if isinstance(current, ShardedSamples) else weigh
    result = measured(state.learner.net, current, memory, seen=state.seen, generator=generator)
    # Round first, since controls imitate the weights that an epoch would use.
    weights = rounded(result.weights) if settings.training.round else result.weights
    return replace(result, weights=reweight(weights, result.group, generator))


def select_samples(
    config: RunConfig,
    state: RunState,
    samples: Samples,
    result: WeightResult | None,
    chosen: Tensor | None = None,
) -> Selection:
    """Choose and shuffle the samples of an epoch.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        Its shuffle generator is used.
    samples : Samples
        Samples available for training.
    result : WeightResult or None
        Result with their weights; None: all 1.
    chosen : Tensor of int64, optional
        Rows in training order, if the learner has chosen them.
    """
    if chosen is not None:
        return Selection(chosen)
    if result is None:
        return everything(len(samples), state.generators.shuffle, samples.y.device)
    select = SELECTIONS[config.settings.training.keep]
    size, generator = config.settings.training.batch_size, state.generators.shuffle
    return select(result.weights, result.group, size, generator)


def weight_record(result: WeightResult | None) -> WeightRecord | None:
    """Return the part of an epoch's record that describes its weights."""
    if result is None:
        return None
    return WeightRecord(
        kept=result.kept,
        dropped=result.dropped,
        partial=result.partial,
        objective=result.objective,
        bound=result.bound,
        gradient=result.gradient_seconds,
        lp=result.lp_seconds,
        groups=tuple(_group_weights(result)),
    )


def _group_weights(result: WeightResult) -> Iterator[GroupWeights]:
    """Yield the mean weight and the loss of each group of the current task."""
    groups = result.groups
    sums = torch.bincount(result.group, result.weights.double(), minlength=len(groups)).tolist()
    for number in groups.current.nonzero()[0]:
        samples = int(groups.size[number])
        yield GroupWeights(
            label=int(groups.label[number]),
            attribute=int(groups.attribute[number]),
            samples=samples,
            mean=sums[number] / samples,
            loss=float(groups.losses[number]),
        )


Event = EpochRecord | TaskMetrics
Listener = Callable[[Event], None]
Checkpoint = Callable[[RunState], None]
# Takes a task's samples, the rows of the batch, their weights, the memory batch and its rows.
Step = Callable[[Samples, Tensor, Tensor | None, Samples | None, Tensor | None], None]


def run(
    config: RunConfig,
    seed: int,
    *,
    stream: TaskStream | None = None,
    device: torch.device | str = "cpu",
    listener: Listener = lambda _: None,
    state: RunState | None = None,
    checkpoint: Checkpoint = lambda _: None,
    between_steps: Checkpoint = lambda _: None,
    ranks: Ranks = ALONE,
) -> RunResult:
    """Train a learner on a stream of tasks and evaluate it after each task.

    Parameters
    ----------
    config : RunConfig
    seed : int
        Seed of all random draws; methods with the same seed see the same data, initial weights
        and (with the same buffer rule) buffer.
    stream : TaskStream, optional
        Loaded from the configuration if not given.
    device : torch.device or str
    listener : callable
        Called after every epoch and every evaluation.
    state : RunState, optional
        State of the same run at a checkpoint, from which it continues.
    checkpoint : callable
        Called with the state at the end of every epoch.
    between_steps : callable
        Called with the state between any two steps of an epoch; a run can also continue from it.
    ranks : Ranks
        Processes that share the run; see the setting ``shards``. All of them call this function
        with the same arguments and get the same result. By default, this process runs alone.
    """
    raise_all(whole_mistakes(seed=seed))
    device = torch.device(device)
    check_ranks(config, ranks)
    stream = load_stream(config, seed, device=device) if stream is None else stream
    state = start_run(config, seed, stream, device) if state is None else state
    stream = divided(stream, config, device, ranks)
    attach_inputs(state, stream, device)
    start = time.perf_counter() - state.total_seconds

    def timed(hook: Checkpoint) -> Callable[[], None]:
        def call() -> None:
            state.total_seconds = time.perf_counter() - start
            hook(state)

        return call

    # numpy's BLAS threads spin after each product and would take the cores from torch's.
    with threadpool_limits(1, user_api="blas"), exact_convolutions(), same_bits():
        for number in range(len(state.per_task), len(stream.tasks)):
            _refuse_unknown(config, state.learner, stream.tasks[number])
            train, held_out = hold_out(stream.tasks[number].train, config.held_out, seed)
            train = where_learned(state.learner, train, device)
            hooks = (timed(checkpoint), timed(between_steps))
            learn_task(config, state, train, listener, *hooks, ranks=ranks)
            if held_out is not None:
                state.held_out.append(held_out.to(device))
            tests = [test.to(device) for test in stream.tests_after(number + 1)]
            evaluate_task(config, seed, state, tests)
            listener(state.per_task[-1])
        if (passed := state.epochs[-1].passed) is not None:
            reviewed = state.learner.review(passed)
            state.epochs[-1] = replace(state.epochs[-1], passed=reviewed)
    state.total_seconds = time.perf_counter() - start
    return RunResult(
        config=config.model_dump(mode="json"),
        label=config.label,
        seed=seed,
        names=Names(stream.class_names, stream.attribute, stream.attribute_values),
        per_task=tuple(state.per_task),
        predictions=tuple(state.predictions),
        epochs=tuple(state.epochs),
        seconds=state.seconds(),
        notes=tuple(state.notes),
        probabilities=tuple(state.probabilities),
    )


def _refuse_unknown(config: RunConfig, learner: Learner, task: Task) -> None:
    """Refuse unknown attribute values where they cannot be used."""
    if not learner.takes_unknown:
        refuse_unknown(task.train, f"training with the method '{config.method}'")
    if config.postprocess != "none":
        refuse_unknown(task.test, f"post-processing by {config.postprocess}")


def where_learned(learner: Learner, train: Samples, device: torch.device) -> Samples:
    """Return training data on a device; unchanged if the learner moves parts of it there itself."""
    return train if learner.takes_host_rows else train.to(device)


def learn_task(
    config: RunConfig,
    state: RunState,
    train: Samples,
    listener: Listener = lambda _: None,
    at_epoch_end: Callable[[], None] = lambda: None,
    between_steps: Callable[[], None] = lambda: None,
    *,
    ranks: Ranks = ALONE,
) -> None:
    """Train on one task, epoch by epoch, and keep a part of it in the buffer.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        Between two tasks, or in the middle of this one.
    train : Samples
        Training data of the task, see :func:`where_learned`.
    listener : callable
        Called after every epoch.
    at_epoch_end : callable
        Called after the listener.
    between_steps : callable
        Called between any two steps.
    ranks : Ranks
        Processes that train together.
    """
    learner = state.learner
    task = state.task or state.begin_task(train, config.settings.training.memory_batch_size)
    trained = learner.training_epochs(config.settings.training.epochs)
    epochs = trained + learner.one_pass
    step = _steps_of(config, learner, train.y.device, ranks)
    while task.epoch < epochs:
        same_net(state, ranks)
        epoch = task.begun = task.begun or _begin_epoch(config, state, task, epochs)
        start, passed = time.perf_counter() - epoch.seconds, None
        if task.epoch == trained:
            task.show_average(learner.net)
            passed = learner.learn(task.material.current)
            state.notes += [f"task {state.tasks + 1}: {note}" for note in passed.notes]
            epoch.steps = 1
        else:
            last = round(config.settings.training.average_last * trained)
            average = task.averaging(learner.net, trained - last)
            size = config.settings.training.batch_size
            with _threads_for(learner):
                _train_epoch(step, task, epoch, size, (average, between_steps))
        task.epoch += 1
        task.weights, task.begun = epoch.weights, None
        record = EpochRecord(
            task=state.tasks + 1,
            epoch=task.epoch,
            samples=len(task.material.current),
            trained=len(epoch.selection.index),
            steps=epoch.steps,
            train=time.perf_counter() - start,
            weights=epoch.record,
            tokens=None if epoch.tokens is None else (_trained_tokens(learner) or 0) - epoch.tokens,
            passed=passed,
        )
        state.epochs.append(record)
        listener(record)
        _check_finite(config, learner, record)
        if record.trained == 0:
            state.notes.append(
                f"task {record.task}, epoch {record.epoch}: the program keeps no sample, so the "
                "epoch trained on the buffer alone; a smaller alpha or a larger lam keeps more"
            )
        at_epoch_end()
    task.show_average(learner.net)
    state.buffer = learner.remember(train, task.weights, state.buffer)
    learner.end_task(state.buffer)
    state.task = None
    state.tasks += 1


def _begin_epoch(
    config: RunConfig, state: RunState, task: TaskInProgress, epochs: int
) -> EpochInProgress:
    """Weight the samples of a task, and select those of its next epoch."""
    learner, current = state.learner, task.material.current
    chosen = learner.begin_epoch(task.epoch + 1, epochs)
    result = weigh_samples(config, state, current)
    start = time.perf_counter()
    selection = select_samples(config, state, current, result, chosen)
    return EpochInProgress(
        selection,
        weights=None if result is None else result.weights,
        record=weight_record(result),
        tokens=_trained_tokens(learner),
        seconds=time.perf_counter() - start,
    )


def _steps_of(config: RunConfig, learner: Learner, device: torch.device, ranks: Ranks) -> Step:
    """Return the function that makes the steps of a task: divided, or whole, on a GPU as graphs."""
    if config.settings.training.shards > 1:
        return DividedStep(learner, config.settings.training.shards, ranks)
    graphable = learner.graphable and traits_of(learner.net).graphable
    make = GraphedStep(learner) if device.type == "cuda" and graphable else learner.step

    def step(
        samples: Samples,
        index: Tensor,
        weight: Tensor | None,
        memory: Samples | None,
        memory_rows: Tensor | None,
    ) -> None:
        make(Batch(samples.take(index), index, weight, memory, memory_rows))

    return step


def _train_epoch(
    step: Step,
    task: TaskInProgress,
    epoch: EpochInProgress,
    batch_size: int,
    after_step: Sequence[Callable[[], None]],
) -> None:
    """Train on the rest of the selected samples; if none are selected, once on the buffer."""
    samples, replay, selection = task.material.current, task.replay, epoch.selection
    start = time.perf_counter() - epoch.seconds
    rows = torch.split(selection.index, batch_size)
    weights = rows if selection.weight is None else torch.split(selection.weight, batch_size)
    if len(selection.index) == 0 and replay is not None:
        rows, weights = rows * replay.per_pass, weights * replay.per_pass
    for index, weight in zip(rows[epoch.steps :], weights[epoch.steps :], strict=True):
        memory, memory_rows = (None, None) if replay is None else replay.next()
        used = None if selection.weight is None else weight
        step(samples, index, used, memory, memory_rows)
        epoch.steps += 1
        epoch.seconds = time.perf_counter() - start
        for call in after_step:
            call()
    if samples.y.is_cuda:
        torch.cuda.synchronize()


def _threads_for(learner: Learner) -> AbstractContextManager[object]:
    """Use several threads for large nets; in small ones, a second thread wakes up too late."""
    return several_threads() if traits_of(learner.net).large else one_thread()


def _trained_tokens(learner: Learner) -> int | None:
    tokens = traits_of(learner.net).trained_tokens
    return None if tokens is None else int(tokens)


def _check_finite(config: RunConfig, learner: Learner, record: EpochRecord) -> None:
    """Raise an error if training has diverged, since metrics would be meaningless."""
    with _threads_for(learner):
        finite = all(torch.isfinite(parameter).all() for parameter in learner.net.parameters())
    if not finite:
        raise diverged(config, record, "infinite or NaN weights")
