"""The contract of a learner, checked on a tiny stream."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.data.stream import Task, TaskStream
from faircil.learners import ALIASES, LEARNERS, Batch, Learner, Method
from faircil.nets import build_mlp
from faircil.results.record import RunResult
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.settings import in_effect, settings_of
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from faircil.testing.pieces import demand, fulfil, known, promise, title

TASKS = ((0, 1), (2,), (3, 4))  # the second has a single class
PER_GROUP = 24
FEW = 3  # training samples of group (4, 1)
ABSENT = (2, 0)  # group without training samples


def small_stream(*, attribute: bool, seed: int = 0) -> TaskStream:
    """Return a stream of five classes in six dimensions, optionally with a binary attribute."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(5, 6, generator=generator)

    def samples(classes: tuple[int, ...], sizes: dict[tuple[int, int], int]) -> Samples:
        groups = [(y, z) for y in classes for z in (0, 1)]
        counts = torch.tensor([sizes.get(group, PER_GROUP) for group in groups])
        y, z = torch.tensor(groups).repeat_interleave(counts, dim=0).unbind(dim=1)
        x = centres[y] + torch.randn(len(y), 6, generator=generator)
        x[:, 0] += z
        return Samples(x, y.clone(), z.clone() if attribute else None)

    tasks = tuple(
        Task(classes, samples(classes, {ABSENT: 0, (4, 1): FEW}), samples(classes, {}))
        for classes in TASKS
    )
    names = ("a", "b", "c", "d", "e")
    if attribute:
        return TaskStream("small", tasks, names, "z", ("0", "1"))
    return TaskStream("small", tasks, names)


def small_config(
    method: str = "er",
    weighting: str | None = None,
    *,
    attribute: bool = False,
    measure: str | None = None,
    **settings: object,
) -> RunConfig:
    """Return settings for a run on the small stream that takes a few hundredths of a second.

    Settings without effect on the method are omitted; a given one that it does not have is an
    error.
    """
    few: dict[str, object] = {
        "epochs": 2,
        "lr": 0.05,
        "hidden": 8,
        "batch_size": 16,
        "memory_batch_size": 16,
        "buffer_size": 6,
        "tau": 1.0,
        "width": 20,
        **settings,
    }
    learner = ALIASES[method][0] if method in ALIASES else method
    texts = {name: f"{name}={value}" for name, value in few.items()}
    strange = settings.keys() - settings_of(learner)
    return resolve(
        dataset="toy-groups" if attribute else "toy",
        method=method,
        weighting=weighting,
        measure=measure,
        overrides=[*in_effect(texts.values(), learner), *(texts[name] for name in strange)],
    )


def parameters(net: nn.Module) -> Tensor:
    """Return a copy of all parameters of the net, flat."""
    return nn.utils.parameters_to_vector(net.parameters()).detach().clone()


def batch_of(
    current: Samples, weight: Tensor | None = None, memory: Samples | None = None
) -> Batch:
    """Return a batch of the first samples of a task and of its memory."""
    memory_rows = None if memory is None else torch.arange(len(memory))
    return Batch(current, torch.arange(len(current)), weight, memory, memory_rows)


QUOTA = 6  # buffer samples per group in small runs
SAVED_AFTER = ((1, 1), (2, 1), (3, 2))  # task and epoch after which a run is saved


@dataclass(frozen=True)
class LearnerCase:
    """A method with a weighting, on a small stream with or without a sensitive attribute.

    Parameters
    ----------
    method, weighting : str
    attribute : bool
    epochs : int
        Epochs per task; as many as the method needs to learn the first task.
    """

    method: str
    weighting: str = "none"
    attribute: bool = False
    epochs: int = 2

    def __str__(self) -> str:
        with_z = "with" if self.attribute else "without"
        return f"weighting {self.weighting}, {with_z} an attribute"

    @property
    def row(self) -> Method:
        """The registry row of the method."""
        return LEARNERS[self.method]

    def config(self, **settings: object) -> RunConfig:
        """Return the configuration of a small run."""
        settings = {"epochs": self.epochs, **settings}
        return small_config(
            self.method, self.weighting, attribute=self.attribute, measure=None, **settings
        )

    def stream(self) -> TaskStream:
        """Return the small stream."""
        return small_stream(attribute=self.attribute)

    def run(self, seed: int = 0, **settings: object) -> tuple[RunResult, RunState]:
        """Return the result of a small run, and its final state."""
        states: list[RunState] = []
        result = run(self.config(**settings), seed, stream=self.stream(), checkpoint=states.append)
        return result, states[-1]

    @cached_property
    def finished(self) -> tuple[RunResult, RunState]:
        """The run with seed 0."""
        return self.run()

    def learner(self, net: nn.Module | None = None) -> Learner:
        """Return a learner of five classes in six dimensions, before its first task."""
        net = build_mlp(6, 5, (8,), seed=0) if net is None else net
        given = {"lr": 0.1, "tau": 0.5}
        options = self.row.options
        values = {name: value for name, value in given.items() if name in options.model_fields}
        return self.row(net, options(**values), Generators.from_seed(0))

    def begun(self, learner: Learner) -> tuple[Samples, Samples | None]:
        """Begin a second task; return its training data and the data that it replays."""
        first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
        kept = first.take(slice(0, None, 8)) if self.row.replays else None
        return second, learner.begin_task(second, ReplayBuffer(QUOTA, kept)).memory


def same_seed_same_run(case: LearnerCase) -> None:
    """The same seed gives the same run, another seed another."""
    (first, one), (again, two), (_, three) = case.finished, case.run(), case.run(seed=1)
    demand(first.per_task == again.per_task, "two runs with seed 0 have different metrics")
    nets = [parameters(state.learner.net) for state in (one, two, three)]
    demand(torch.equal(nets[0], nets[1]), "two runs with seed 0 end with different nets")
    demand(not torch.equal(nets[0], nets[2]), "seeds 0 and 1 end with the same net")


def data_is_left_alone(case: LearnerCase) -> None:
    """The data is left as it was."""
    stream = case.stream()
    before = deepcopy(stream)
    run(case.config(epochs=1), 0, stream=stream)
    for mine, kept in zip(stream.tasks, before.tasks, strict=True):
        for now, then in ((mine.train, kept.train), (mine.test, kept.test)):
            same = torch.equal(now.x, then.x) and torch.equal(now.keys(), then.keys())
            demand(same, "the run has changed its samples")


def buffer_keeps_to_its_quota(case: LearnerCase) -> None:
    """The buffer holds samples of the stream, at most its quota of every group."""
    kept = case.finished[1].buffer.samples
    if not case.row.replays:
        demand(kept is None, "replays is False, but it keeps samples")
        return
    demand(kept is not None, "replays is True, but it keeps no samples")
    assert kept is not None
    large = {key: n for key, n in group_counts(kept).items() if n > QUOTA}
    demand(not large, f"with a quota of {QUOTA} it keeps {large}, by group")
    rows = {tuple(row) for task in case.stream().tasks for row in task.train.x.tolist()}
    own = len({tuple(row) for row in kept.x.tolist()} & rows)
    demand(own == len(kept), f"{len(kept) - own} samples are repeated or not from the stream")


def predicts_every_seen_class(case: LearnerCase) -> None:
    """It learns the first task, and predicts known classes for the test data of every task."""
    result = case.finished[0]
    demand(len(result.predictions) == len(TASKS), "a task has no predictions")
    for number, predictions in enumerate(result.predictions, start=1):
        seen = set(chain.from_iterable(TASKS[:number]))
        demand(set(predictions.y_true.tolist()) == seen, f"task {number} tests other classes")
        size = 2 * PER_GROUP * len(seen)
        demand(len(predictions.y_pred) == size, f"task {number} does not have {size} predictions")
        known = set(predictions.y_pred.tolist()) <= set(range(5))
        demand(known, f"task {number} has predictions that are not classes")
    accuracy = result.per_task[0].accuracy or 0.0
    demand(accuracy > 0.6, f"accuracy on task 1 is {accuracy:.2f} after {case.epochs} epochs")


def large_buffer_is_no_problem(case: LearnerCase) -> None:
    """A buffer larger than the data leaves the net finite."""
    _, state = case.run(buffer_size=1000)
    finite = torch.isfinite(parameters(state.learner.net)).all()
    demand(finite, "the net has NaN or infinite parameters with buffer_size=1000")


def goes_on_from_a_saved_state(case: LearnerCase) -> None:
    """A run goes on from a saved state to the same end."""
    last = 1 if case.row.one_pass else 2  # a one-pass method has one epoch
    ends = {(task, min(epoch, last)) for task, epoch in SAVED_AFTER}
    with tempfile.TemporaryDirectory() as folder:
        _goes_on(case, ends, Path(folder))


def _goes_on(case: LearnerCase, ends: Collection[tuple[int, int]], folder: Path) -> None:
    def at_end(state: RunState) -> None:
        end = (state.epochs[-1].task, state.epochs[-1].epoch)
        if end in ends:
            save_state(state, folder / "epoch {1} of task {0}".format(*end))

    def between(state: RunState) -> None:
        now = state.task and state.task.begun
        if state.tasks == 1 and now and now.steps == 1:
            save_state(state, folder / f"a step of task 2 and epoch {len(state.epochs)}")

    config, stream = case.config(), case.stream()
    whole, end = case.finished
    run(config, 0, stream=stream, checkpoint=at_end, between_steps=between)
    for file in sorted(folder.iterdir()):
        state = load_state(file)
        rest = run(config, 0, stream=stream, state=state)
        when = f"saved after {file.name}"
        demand(rest.per_task == whole.per_task, f"{when}, it ends with different metrics")
        same = torch.equal(parameters(state.learner.net), parameters(end.learner.net))
        demand(same, f"{when}, it ends with a different net")
        demand(len(rest.epochs) == len(whole.epochs), f"{when}, it ends with different epochs")
        demand(rest.seconds.total >= rest.seconds.train, f"{when}, its times do not add up")


def batches_are_left_alone(case: LearnerCase) -> None:
    """A step leaves its batch as it was."""
    if case.row.one_pass:
        return
    learner = case.learner()
    current, memory = case.begun(learner)
    weight = None if case.row.no_weighting else torch.rand(16)
    batch = batch_of(current.take(slice(16)), weight, memory)
    before = deepcopy(batch)
    learner.begin_epoch(1, 2)
    learner.step(batch)
    learner.predict(batch.current.x)
    for name, now, then in (
        ("inputs", batch.x, before.x),
        ("classes", batch.y, before.y),
        ("groups", batch.current.keys(), before.current.keys()),
        ("weights", batch.weight, before.weight),
    ):
        same = now is None or (then is not None and torch.equal(now, then))
        demand(same, f"its {name} have changed")


def memory_alone_is_a_batch(case: LearnerCase) -> None:
    """A step trains on memory alone where the weighting drops all current samples."""
    if case.row.no_weighting:
        return
    learner = case.learner()
    current, memory = case.begun(learner)
    before = parameters(learner.net)
    learner.begin_epoch(1, 2)
    learner.step(batch_of(current.take(slice(0)), torch.ones(0), memory))
    after = parameters(learner.net)
    demand(torch.isfinite(after).all(), "the net has NaN or infinite parameters")
    demand(not torch.equal(after, before), "the net has not changed")


def optimizer_is_new_in_every_task(case: LearnerCase) -> None:
    """Every task gets a new optimizer."""
    if case.row.one_pass:
        return
    learner = case.learner()
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    buffer = ReplayBuffer(QUOTA, first.take(slice(0, None, 8)))
    for current in (first, second):
        memory = learner.begin_task(
            current, buffer if case.row.replays else ReplayBuffer(QUOTA)
        ).memory
        demand(not learner.optimizer.state, "begin_task keeps the momentum of the previous task")
        learner.begin_epoch(1, 2)
        learner.step(batch_of(current.take(slice(16)), None, memory))
        demand(learner.optimizer.state, "a step does not use self.optimizer")
        learner.end_task(buffer)


def dropout_is_for_training(case: LearnerCase) -> None:
    """Dropout is on in a step and off in prediction."""
    if case.row.one_pass:
        return
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))
    learner = case.learner(net)
    current, memory = case.begun(learner)
    modes: list[bool] = []
    net[0].register_forward_hook(lambda *_: modes.append(net[0].training))
    learner.begin_epoch(1, 2)
    modes.clear()
    learner.step(batch_of(current.take(slice(16)), None, memory))
    demand(True in modes, "a step runs in eval mode; call self.net.train()")
    first = small_stream(attribute=True).tasks[0].train
    learner.end_task(ReplayBuffer(QUOTA, first.take(slice(0, None, 8))))
    same = torch.equal(learner.predict(current.x), learner.predict(current.x))
    demand(same, "predictions of the same inputs differ")


def long_inputs_are_predicted(case: LearnerCase) -> None:
    """Any number of inputs is predicted, in parts with the same result, by the largest score."""
    learner = case.learner()
    first = small_stream(attribute=True).tasks[0].train
    buffer = ReplayBuffer(8, first if case.row.replays else None)
    learner.begin_task(first, buffer)
    if case.row.one_pass:
        learner.learn(first)
    learner.end_task(buffer)
    x = torch.randn(10_000, 6, generator=torch.Generator().manual_seed(0))
    scores, predicted = learner.scores(x), learner.predict(x)
    demand(scores.shape == (10_000, 5), f"scores of 10,000 inputs have shape {scores.shape}")
    demand(predicted.shape == (10_000,), f"their predictions have shape {predicted.shape}")
    part = learner.scores(x[5000:5100])
    close = torch.allclose(scores[5000:5100], part, rtol=1.3e-6, atol=1e-5)
    demand(close, "scores of a part differ from those of the whole")
    demand(torch.equal(predicted, scores.argmax(dim=1)), "predict is not the largest score")
    demand(not scores.requires_grad, "scores carry gradients")
    demand(learner.predict(x[:0]).tolist() == [], "no inputs have predictions")


def says_what_it_is(case: LearnerCase) -> None:
    """Its row says what it is, and each of its settings what it does."""
    row = case.row
    demand(row.summary, "it has no summary: give the class a docstring or `summary`")
    demand(row.source, "it has no source")
    keeps = row.learner.remember is not Learner.remember
    demand(row.replays == keeps, f"replays is {row.replays}, but remember is overridden: {keeps}")
    silent = [name for name, field in row.options.model_fields.items() if not field.description]
    demand(not silent, f"settings without a docstring below them: {', '.join(silent)}")


RUN_CHECKS: tuple[Callable[[LearnerCase], None], ...] = (
    same_seed_same_run,
    data_is_left_alone,
    buffer_keeps_to_its_quota,
    predicts_every_seen_class,
    large_buffer_is_no_problem,
    goes_on_from_a_saved_state,
)
"""What a learner promises with every weighting that it allows."""
STEP_CHECKS: tuple[Callable[[LearnerCase], None], ...] = (
    says_what_it_is,
    batches_are_left_alone,
    memory_alone_is_a_batch,
    optimizer_is_new_in_every_task,
    dropout_is_for_training,
    long_inputs_are_predicted,
)
"""What its single steps promise."""


def learner_cases(
    method: str, epochs: int = 2, weightings: Iterable[str] = ("none", "fsw")
) -> list[LearnerCase]:
    """Return cases of a method with the weightings it allows, with and without an attribute."""
    allowed = [w for w in weightings if w == "none" or LEARNERS[method].no_weighting is None]
    return [
        LearnerCase(method, w, attribute, epochs) for w in allowed for attribute in (False, True)
    ]


def check_learner(learner: str | Method | type[Learner], *, epochs: int = 2) -> None:
    """Check that a learner fulfils its contract; takes some seconds.

    Parameters
    ----------
    learner : str, Method or subclass of Learner
    epochs : int
        Epochs per task of the small runs; more if the method learns slowly.
    """
    with known(LEARNERS, learner) as name:
        cases = learner_cases(name, epochs)
        fulfil(
            f"learner {title(learner)}",
            [
                *((promise(check), partial(check, cases[0])) for check in STEP_CHECKS),
                *(
                    (f"{promise(check)} ({case})", partial(check, case))
                    for case in cases
                    for check in RUN_CHECKS
                ),
            ],
        )
